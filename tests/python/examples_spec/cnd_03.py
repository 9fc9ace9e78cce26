# moving the decision out of the region
w = kt.ones(2)
positive = (w.sum() > 0).item()

@kt.compile(backend=cnt, fullgraph=True)
def f(y):
    if positive:
        return y + w
    return y - w

print(f(kt.ones(2)).tolist(), cnt.frame_count)
positive = False
print(f(kt.ones(2)).tolist(), cnt.frame_count)

# output:
# | [2.0, 2.0] 1
# | [0.0, 0.0] 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
