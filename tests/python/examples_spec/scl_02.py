# capture_scalar_outputs keeps one graph
with kt._dynamo.config.patch(capture_scalar_outputs=True):
    @kt.compile(backend=cnt)
    def f(x):
        return x * x.sum().item()
    print(f(kt.ones(3)).tolist(), f(kt.ones(3) * 2).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [3.0, 3.0, 3.0] [12.0, 12.0, 12.0] 1 3
# counts: graphs 1 (operations: 3); breaks 0; recompiles 0.
