# a break inside try: keep the prefix, run the rest in Python
@kt.compile(backend=cnt)
def root(x):
    x = x + 1
    x = x + 1
    try:
        x = x * 2
        kt._dynamo.graph_break()
        x = x * 3
    except ValueError:
        x = x - 100
    return x + 1

print(root(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [19.0, 19.0] 1 2
# counts: graphs 1 (operations: 2); breaks reported 1 (partial 1) at 1 source line; recompiles 0.
