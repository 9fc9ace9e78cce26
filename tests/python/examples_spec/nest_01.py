# a break in a callee, nested_graph_breaks off
def f1(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x + 2

def f2(x):
    return f1(x + 4) + 8

@kt.compile(backend=cnt)
def f3(x):
    return f2(x + 16) + 32

with kt._dynamo.config.patch(nested_graph_breaks=False):
    print(f3(kt.zeros(1)).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [63.0] 6 6
# counts: graphs 6 (operations: 1, 1, 1, 1, 1, 1); breaks reported 3 (resumed 3) at 1 source line; recompiles 0.
