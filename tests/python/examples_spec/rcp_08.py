# tensor properties that are guarded
@kt.compile(backend=cnt, dynamic=False)
def f(x):
    return x + 1

f(kt.ones(2)); f(kt.ones(2)); print(cnt.frame_count)
f(kt.ones(2, dtype=kt.float64)); print("dtype", cnt.frame_count)
f(kt.ones(2, 1)); print("rank", cnt.frame_count)
f(kt.ones(2, requires_grad=True)); print("requires_grad", cnt.frame_count)
f(kt.ones(4)[::2]); print("stride", cnt.frame_count)
with kt.no_grad():
    f(kt.ones(2)); print("grad mode", cnt.frame_count)

# output:
# | 1
# | dtype 2
# | rank 3
# | requires_grad 4
# | stride 5
# | grad mode 6
# counts: graphs 6 (operations: 1, 1, 1, 1, 1, 1); breaks 0; recompiles 5.
