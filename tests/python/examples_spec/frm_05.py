# a break inside a supported context manager resumes inside it
flags = []

@kt.compiler.disable
def peek():
    flags.append(kt.is_grad_enabled())

@kt.compile(backend=cnt)
def root(x):
    with kt.no_grad():
        x = x + 1
        peek()
        x = x + 2
    return x + 3

print(root(kt.zeros(2)).tolist(), flags, kt.is_grad_enabled(), cnt.frame_count)

# output:
# | [6.0, 6.0] [False] True 2
# counts: graphs 2 (operations: 3, 4); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
