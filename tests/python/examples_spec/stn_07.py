# set_stance is forbidden inside a compiled region
@kt.compile(backend=cnt)
def a(x):
    with kt.compiler.set_stance("force_eager"):
        return x + 1

@kt.compile(backend=cnt)
def b(x):
    kt._dynamo.skip_frame()
    kt.compiler.set_stance("force_eager")
    return x + 1

for f in (a, b):
    try:
        f(kt.ones(1))
    except Exception as e:
        print(type(e).__name__, "forbidden callable" in str(e), "compile region" in str(e))

# output:
# | AssertionError True False
# | RuntimeError False True
# counts: graphs 0; breaks reported 1 (skipped 1) at 1 source line; recompiles 0.
