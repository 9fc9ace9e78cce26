# generators
def gen(x):
    yield x + 1
    yield x + 2

@kt.compile(backend=cnt, fullgraph=True)
def use(x):
    return sum(gen(x))

print(use(kt.ones(1)).tolist(), cnt.frame_count)

compiled_gen = kt.compile(gen, backend=cnt)
print([t.tolist() for t in compiled_gen(kt.ones(1))], cnt.frame_count)

# output:
# | [5.0] 1
# | [[2.0], [3.0]] 1
# counts: graphs 1 (operations: 4); breaks 0; recompiles 0.
