# a function without tensor work never reaches the backend
@kt.compile(backend=cnt, fullgraph=True)
def strict(x):
    return 5

@kt.compile(backend=cnt)
def loose(x):
    return 6

print(strict(kt.ones(1)), loose(kt.ones(1)), cnt.frame_count)

# output:
# | 5 6 0
# counts: graphs 0; breaks 0; recompiles 0.
