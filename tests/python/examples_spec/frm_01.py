# skip_frame: this frame runs in Python, callees are compiled
def before(x): return x + 1
def after(x): return x * 2

@kt.compile(backend=cnt)
def root(x):
    x = before(x)
    kt._dynamo.skip_frame()
    return after(x)

print(root(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)
print(root(kt.ones(2)).tolist(), cnt.frame_count)

# output:
# | [4.0, 4.0] 2 2
# | [4.0, 4.0] 2
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (skipped 1) at 1 source line; recompiles 0.
