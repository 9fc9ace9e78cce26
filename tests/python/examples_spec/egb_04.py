# strict callee after a tolerated break
log = []

@kt._dynamo.error_on_graph_break(True)
def strict(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x + 2

@kt.compile(backend=cnt)
def root(x):
    x = x + 4
    kt._dynamo.graph_break()
    log.append("passed the soft break")
    return strict(x)

try:
    root(kt.zeros(2))
except kt._dynamo.exc.Unsupported:
    print("Unsupported")
print(log, cnt.frame_count)

# output:
# | Unsupported
# | [] 1
# counts: graphs 1 (operations: 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
