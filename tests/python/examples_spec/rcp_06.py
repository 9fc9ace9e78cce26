# cache entries belong to the code object
def make(k):
    def f(x):
        return x + k
    return kt.compile(f, backend=cnt)

f1, f2, f3 = make(2), make(3), make(4)
f1(kt.ones(2)); f2(kt.ones(2)); f1(kt.ones(2)); f3(kt.ones(2))
print(cnt.frame_count)

# output:
# | 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
