# fullgraph=True captures item() without the config
@kt.compile(backend=cnt, fullgraph=True)
def f(x):
    return x * x.sum().item()

print(f(kt.ones(3)).tolist(), cnt.frame_count, kt._dynamo.config.capture_scalar_outputs)

# output:
# | [3.0, 3.0, 3.0] 1 False
# counts: graphs 1 (operations: 3); breaks 0; recompiles 0.
