# print breaks the graph
@kt.compile(backend=cnt)
def f(x):
    x = x + 1
    print("middle")
    return x + 2

print(f(kt.zeros(1)).tolist(), cnt.frame_count)

# output:
# | middle
# | [3.0] 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
