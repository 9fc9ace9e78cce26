# eager_on_recompile uses what exists and never compiles
@kt.compile(backend=cnt, dynamic=False)
def f(x, n):
    return x + n if kt.compiler.is_compiling() else x - n

z = kt.zeros(1)
print(f(z, 1).tolist())
with kt.compiler.set_stance("eager_on_recompile"):
    print(f(z, 1).tolist(), f(z, 2).tolist())
print(f(z, 2).tolist(), cnt.frame_count)

# output:
# | [1.0]
# | [1.0] [-2.0]
# | [2.0] 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
