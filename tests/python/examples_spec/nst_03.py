# only pytree-able inputs and outputs
class Opaque:
    def __init__(self, t):
        self.t = t

@kt.compiler.nonstrict_trace
def takes(o):
    return o.t + 1

@kt.compiler.nonstrict_trace
def gives(t):
    return Opaque(t)

for f, a in ((takes, Opaque(kt.ones(1))), (gives, kt.ones(1))):
    try:
        kt.compile(lambda a: f(a), backend=cnt, fullgraph=True)(a)
    except kt._dynamo.exc.Unsupported as e:
        first = str(e).splitlines()[0]
        print("input" in first or "output" in first, "nonstrict_trace" in first)

# output:
# | True True
# | True True
# counts: graphs 0; breaks 0; recompiles 0.
