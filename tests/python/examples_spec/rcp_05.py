# the recompile limit
@kt.compile(backend=cnt, dynamic=False)
def f(x):
    return x + 1 if kt.compiler.is_compiling() else x - 1

with kt._dynamo.config.patch(recompile_limit=3):
    print([f(kt.zeros(n)).tolist()[0] for n in (2, 3, 4, 5, 6)])
    print([f(kt.zeros(n)).tolist()[0] for n in (2, 3, 4, 5)])
    print(cnt.frame_count)
    g = kt.compile(lambda x: x * 2, backend=cnt, dynamic=False, fullgraph=True)
    try:
        for n in (2, 3, 4, 5):
            g(kt.zeros(n))
    except Exception as e:
        print(type(e).__name__)

# output:
# | [1.0, 1.0, 1.0, -1.0, -1.0]
# | [1.0, 1.0, 1.0, -1.0]
# | 3
# | FailOnRecompileLimitHit
# counts: graphs 6 (operations: 1, 1, 1, 1, 1, 1); breaks 0; recompiles 6.
