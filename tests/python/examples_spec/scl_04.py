# branch, then item in both arms
@kt.compile(backend=cnt)
def f(x):
    y = x.sum()
    if y > 0:
        return x + y.item()
    return x - y.item()

print(f(kt.ones(3)).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [4.0, 4.0, 4.0] 2 3
# counts: graphs 2 (operations: 2, 1); breaks reported 2 (resumed 2) at 2 source lines; recompiles 0.
