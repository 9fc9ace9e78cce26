# calling disable(...) inside a compiled region is itself a break
def g(x):
    return x * 3

@kt.compile(backend=cnt)
def root(x):
    x = x + 1
    off = kt.compiler.disable(g)
    x = off(x)
    return x + 1

print(root(kt.ones(2)).tolist(), cnt.frame_count)
try:
    kt.compile(lambda x: kt.compiler.disable(g)(x), backend=cnt, fullgraph=True)(kt.ones(1))
except kt._dynamo.exc.Unsupported as e:
    print("Unsupported", "compiled region" in str(e))

# output:
# | [7.0, 7.0] 2
# | Unsupported True
# counts: graphs 2 (operations: 1, 1); breaks reported 2 (resumed 2) at 2 source lines; recompiles 0.
