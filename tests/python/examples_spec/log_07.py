# the higher-order print is part of the graph
@kt.compile(backend=cnt, fullgraph=True)
def f(x):
    y = x + 1
    kt._higher_order_ops.print("n={} k={k}", 7, k=3)
    y.add_(5)
    return y

print(f(kt.zeros(1)).tolist(), cnt.frame_count)

# output:
# | n=7 k=3
# | [6.0] 1
# counts: graphs 1 (operations: 3); breaks 0; recompiles 0.
