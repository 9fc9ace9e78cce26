# the setting reaches callees of callees
def leaf(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x + 2

def relaxed(x):
    with kt._dynamo.error_on_graph_break(False):
        return leaf(x)

@kt._dynamo.error_on_graph_break(True)
@kt.compile(backend=cnt)
def root(x):
    return relaxed(x)

print(root(kt.zeros(2)).tolist())

# output:
# | [3.0, 3.0]
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
