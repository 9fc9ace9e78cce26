# sizes 0 and 1 keep entries of their own
@kt.compile(backend=cnt)
def f(x):
    return x * 2

for n in (3, 4, 1, 1, 0, 9):
    f(kt.ones(n))
    print(n, cnt.frame_count)

# output:
# | 3 1
# | 4 2
# | 1 3
# | 1 3
# | 0 4
# | 9 4
# counts: graphs 4 (operations: 1, 1, 1, 1); breaks 0; recompiles 3.
