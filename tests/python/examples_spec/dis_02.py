# recursive=False skips one frame only
@kt.compiler.disable(recursive=False)
def off(x):
    x = x + 2
    return helper(x)

def helper(x):
    x = x + 1
    return x + 1

@kt.compile(backend=cnt)
def root(x):
    x = off(x * 1)
    return x + 4

print(root(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [9.0, 9.0] 3 4
# counts: graphs 3 (operations: 1, 2, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
