# cond with a tensor predicate keeps both branches in one graph
@kt.compile(backend=cnt, fullgraph=True)
def f(x):
    return kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

print(f(kt.ones(2)).tolist(), f(kt.ones(2) * -1).tolist(), cnt.frame_count)

# output:
# | [2.0, 2.0] [-2.0, -2.0] 1
# counts: graphs 1 (operations: 4); breaks 0; recompiles 0.
