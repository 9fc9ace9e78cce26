# first static, one mismatch, then dynamic
@kt.compile(backend=cnt)
def f(x):
    return x + 1

for n in (3, 4, 5, 6):
    f(kt.ones(n))
    print(n, cnt.frame_count)

# output:
# | 3 1
# | 4 2
# | 5 2
# | 6 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
