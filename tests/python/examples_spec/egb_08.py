# fullgraph cannot be relaxed by a nested compile
@kt.compile(backend=cnt, fullgraph=True)
def inner_hard(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x

@kt.compile(backend=cnt, fullgraph=False)
def inner_soft(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x

for outer in (kt.compile(lambda x: inner_soft(x), backend=cnt, fullgraph=True),
              kt.compile(lambda x: inner_hard(x), backend=cnt, fullgraph=False)):
    try:
        outer(kt.zeros(2))
    except kt._dynamo.exc.Unsupported:
        print("Unsupported")

# output:
# | Unsupported
# | Unsupported
# counts: graphs 0; breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
