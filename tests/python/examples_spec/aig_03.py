# allow_in_graph writes one opaque call
calls = []

def opaque(x):
    calls.append(1)
    kt._dynamo.graph_break()
    return x * 2 + 1

kt.compiler.allow_in_graph(opaque)

@kt.compile(backend=cnt, fullgraph=True)
def fn(x):
    return opaque(x + 1) + 1

print(fn(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)
n = len(calls)
fn(kt.ones(2))
print(len(calls) - n)

# output:
# | [6.0, 6.0] 1 3
# | 1
# counts: graphs 1 (operations: 3); breaks 0; recompiles 0.
