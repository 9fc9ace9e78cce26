# nonstrict_trace hides a function that would break
@kt.compiler.nonstrict_trace
def messy(x, k):
    kt._dynamo.graph_break()
    return {"out": x * k}

@kt.compile(backend=cnt, fullgraph=True)
def root(x):
    return messy(x + 1, 3)["out"] + 1

print(root(kt.ones(2)).tolist(), cnt.frame_count)
print(root(kt.ones(2)).tolist(), cnt.frame_count)

# output:
# | [7.0, 7.0] 1
# | [7.0, 7.0] 1
# counts: graphs 1 (operations: 4); breaks 0; recompiles 0.
