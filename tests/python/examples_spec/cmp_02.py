# spellings of compile, and disable=True
def f(x):
    return x + 1

a = kt.compile(f, backend=cnt)                # direct call
b = kt.compile(backend=cnt)(lambda x: x + 2)  # decorator factory
c = kt.compile(f, backend=cnt, disable=True)  # no-op
d = kt.compiler.compile(f, backend=cnt)       # alias
one = kt.ones(1)
print(a(one).tolist(), b(one).tolist(), c(one).tolist(), d(one).tolist())
print(c is f, cnt.frame_count)

# output:
# | [2.0] [3.0] [2.0] [2.0]
# | True 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 0.
