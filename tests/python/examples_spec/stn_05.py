# aot_eager_then_compile: the first call uses another backend
@kt.compile(backend=cnt)
def f(x, k):
    return x * k

with kt.compiler.set_stance("aot_eager_then_compile"):
    f(kt.ones(2), 2)
    print(cnt.frame_count)
    f(kt.ones(3), 3)
    print(cnt.frame_count)
    f(kt.ones(4), 4)
    print(cnt.frame_count)

# output:
# | 0
# | 1
# | 1
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
