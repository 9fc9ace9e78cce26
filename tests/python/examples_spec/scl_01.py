# item() breaks by default
@kt.compile(backend=cnt)
def f(x):
    y = x.sum()
    return x + y.item()

print(f(kt.ones(3)).tolist(), cnt.frame_count)

# output:
# | [4.0, 4.0, 4.0] 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
