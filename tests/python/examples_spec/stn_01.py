# force_eager as a with-block, a decorator and a plain call
@kt.compile(backend=cnt)
def f(x):
    return x + 1 if kt.compiler.is_compiling() else x - 1

@kt.compiler.set_stance("force_eager")
def g(x):
    return f(x)

z = kt.zeros(1)
print(f(z).tolist(), g(z).tolist(), f(z).tolist())
with kt.compiler.set_stance("force_eager"):
    print(f(z).tolist())
kt.compiler.set_stance("force_eager")
print(f(z).tolist())
kt.compiler.set_stance("default")
print(f(z).tolist(), cnt.frame_count)

# output:
# | [1.0] [-1.0] [1.0]
# | [-1.0]
# | [-1.0]
# | [1.0] 1
# counts: graphs 1 (operations: 1); breaks 0; recompiles 0.
