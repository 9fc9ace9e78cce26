# a fully traceable function is one graph
@kt.compile(backend=cnt)
def poly(x):
    y = x * 2
    return y + 1

print(poly(kt.ones(3)).tolist())
print(poly(kt.zeros(3)).tolist())
print(cnt.frame_count, cnt.op_count)

# output:
# | [3.0, 3.0, 3.0]
# | [1.0, 1.0, 1.0]
# | 1 2
# counts: graphs 1 (operations: 2); breaks 0; recompiles 0.
