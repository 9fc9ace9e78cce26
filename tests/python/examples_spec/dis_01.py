# disable skips the function and everything below it
seen = []

def helper(x):
    seen.append(kt.compiler.is_compiling())
    kt._dynamo.graph_break()
    return x + 1

@kt.compiler.disable
def off(x):
    x = x + 2
    return helper(x)

@kt.compile(backend=cnt)
def root(x):
    x = off(x * 1)
    return x + 4

print(root(kt.ones(2)).tolist(), seen, cnt.frame_count, cnt.op_count)

# output:
# | [8.0, 8.0] [False] 2 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
