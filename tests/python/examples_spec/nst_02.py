# the original is untouched; wrapping inside needs an outside function
def messy(x):
    kt._dynamo.graph_break()
    return x + 42

wrapped = kt._dynamo.nonstrict_trace(messy)
print(wrapped is messy, wrapped.__name__)
print(kt.compile(lambda x: messy(x) + 1, backend=cnt)(kt.ones(1)).tolist())
print(kt.compile(lambda x: kt._dynamo.nonstrict_trace(messy)(x) + 1, backend=cnt, fullgraph=True)(kt.ones(1)).tolist())

@kt.compile(backend=cnt, fullgraph=True)
def bad(x):
    def local(x):
        return x * 2
    return kt._dynamo.nonstrict_trace(local)(x)

try:
    bad(kt.ones(1))
except kt._dynamo.exc.Unsupported as e:
    print("Unsupported", "outside" in str(e))

# output:
# | False messy
# | [44.0]
# | [44.0]
# | Unsupported True
# counts: graphs 2 (operations: 2, 3); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
