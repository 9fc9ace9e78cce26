# a with-block relaxes only its own lines
@kt._dynamo.error_on_graph_break(True)
@kt.compile(backend=cnt)
def root(x):
    x = x + 1
    with kt._dynamo.error_on_graph_break(False):
        kt._dynamo.graph_break()
    return x + 2

print(root(kt.zeros(2)).tolist(), cnt.frame_count)

@kt._dynamo.error_on_graph_break(True)
@kt.compile(backend=cnt)
def root2(x):
    with kt._dynamo.error_on_graph_break(False):
        kt._dynamo.graph_break()
    kt._dynamo.graph_break()
    return x + 2

try:
    root2(kt.zeros(2))
except kt._dynamo.exc.Unsupported:
    print("Unsupported")

# output:
# | [3.0, 3.0] 2
# | Unsupported
# counts: graphs 2 (operations: 1, 1); breaks reported 2 (resumed 2) at 2 source lines; recompiles 0.
