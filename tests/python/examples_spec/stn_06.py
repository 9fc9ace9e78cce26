# force_backend goes with the default stance only
other = kt._dynamo.testing.CompileCounter()

@kt.compile(backend=cnt)
def f(x):
    return x + 1

with kt.compiler.set_stance("default", force_backend=other):
    f(kt.ones(2))
print(cnt.frame_count, other.frame_count)
f(kt.ones(2))
print(cnt.frame_count, other.frame_count)
try:
    kt.compiler.set_stance("force_eager", force_backend="eager")
except RuntimeError as e:
    print("RuntimeError", "force_backend" in str(e))

# output:
# | 0 1
# | 1 1
# | RuntimeError True
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
