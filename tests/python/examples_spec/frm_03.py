# a break inside a loop skips the whole frame
def step(x, i):
    return x + i

@kt.compile(backend=cnt)
def root(x):
    x = x * 2
    for i in range(3):
        x = step(x, i)
        kt._dynamo.graph_break()
    return x * 3

print(root(kt.ones(2)).tolist(), cnt.frame_count)

# output:
# | [15.0, 15.0] 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (skipped 1) at 1 source line; recompiles 1.
