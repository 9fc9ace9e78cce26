# a plain if on a tensor: one break, each branch compiled on demand
@kt.compile(backend=cnt)
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1

print(f(kt.ones(2)).tolist(), cnt.frame_count)
print(f(kt.ones(2) * -1).tolist(), cnt.frame_count)
print(f(kt.ones(2) * -1).tolist(), cnt.frame_count)

# output:
# | [2.0, 2.0] 2
# | [-2.0, -2.0] 3
# | [-2.0, -2.0] 3
# counts: graphs 3 (operations: 2, 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
