# exceptions raised and caught inside traced code
@kt.compile(backend=cnt, fullgraph=True)
def f(x, bad):
    try:
        x = x + 1
        if bad:
            raise ValueError("inner")
        return x
    except ValueError as e:
        return x * 10
    finally:
        x = x + 5

print(f(kt.ones(1), True).tolist(), f(kt.ones(1), False).tolist(), cnt.frame_count)

# output:
# | [20.0] [2.0] 2
# counts: graphs 2 (operations: 3, 2); breaks 0; recompiles 1.
