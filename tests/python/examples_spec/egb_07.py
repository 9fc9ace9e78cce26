# fullgraph=True outranks error_on_graph_break(False)
@kt._dynamo.error_on_graph_break(False)
def soft(x):
    kt._dynamo.graph_break()
    return x + 2

@kt.compile(backend=cnt, fullgraph=True)
def root(x):
    return soft(x)

try:
    root(kt.zeros(2))
except kt._dynamo.exc.Unsupported:
    print("Unsupported")
print(cnt.frame_count)

# output:
# | Unsupported
# | 0
# counts: graphs 0; breaks 0; recompiles 0.
