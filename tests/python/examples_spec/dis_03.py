# the reason is reported
@kt.compiler.disable(reason="talks to a database")
def off(x):
    return x

@kt.compile(backend=cnt, fullgraph=True)
def root(x):
    return off(x) + 1

try:
    root(kt.ones(2))
except kt._dynamo.exc.Unsupported as e:
    print("compiler.disable" in str(e), "talks to a database" in str(e))

# output:
# | True True
# counts: graphs 0; breaks 0; recompiles 0.
