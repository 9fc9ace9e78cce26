# eager_then_compile learns dynamic dimensions from two calls
seen = []

@kt.compile(backend=cnt)
def f(x, k):
    if not kt.compiler.is_compiling():
        seen.append("eager")
    return x * k

with kt.compiler.set_stance("eager_then_compile"):
    print(f(kt.ones(2), 2).tolist(), cnt.frame_count)
    print(f(kt.ones(3), 3).tolist(), cnt.frame_count)
    print(f(kt.ones(4), 4).tolist(), cnt.frame_count)
print(seen)

# output:
# | [2.0, 2.0] 0
# | [3.0, 3.0, 3.0] 1
# | [4.0, 4.0, 4.0, 4.0] 1
# | ['eager']
# counts: graphs 1 (operations: 1); breaks 0; recompiles 0.
