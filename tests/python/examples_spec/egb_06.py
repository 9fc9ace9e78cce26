# the innermost setting wins, even when it loosens
def leaf(x):
    x = x + 1
    with kt._dynamo.error_on_graph_break(False):
        kt._dynamo.graph_break()
    return x + 2

def strict(x):
    with kt._dynamo.error_on_graph_break(True):
        return leaf(x)

@kt.compile(backend=cnt)
def root(x):
    return strict(x)

print(root(kt.zeros(2)).tolist(), cnt.frame_count)

# output:
# | [3.0, 3.0] 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
