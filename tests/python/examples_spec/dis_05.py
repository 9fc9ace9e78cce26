# the outermost of compile and disable wins
def f(x):
    return x + 1 if kt.compiler.is_compiling() else x - 1

both1 = kt.compile(kt.compiler.disable(f), backend=cnt)
both2 = kt.compiler.disable(kt.compile(f, backend=cnt))
print(both1(kt.zeros(1)).tolist(), both2(kt.zeros(1)).tolist(), cnt.frame_count)

# output:
# | [1.0] [-1.0] 1
# counts: graphs 1 (operations: 1); breaks 0; recompiles 0.
