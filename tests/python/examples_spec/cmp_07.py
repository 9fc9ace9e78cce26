# backend protocol, and a backend that raises
seen = []

def my_backend(graph_module, example_inputs):
    seen.append(len(example_inputs))
    return graph_module.forward

def bad_backend(graph_module, example_inputs):
    raise ValueError("no thanks")

print(kt.compile(lambda x, y: x * y, backend=my_backend)(kt.ones(2), kt.ones(2)).tolist(), seen)
g = kt.compile(lambda x: x + 1, backend=bad_backend)
try:
    g(kt.ones(2))
except kt._dynamo.exc.BackendCompilerFailed as e:
    print("BackendCompilerFailed", "bad_backend" in str(e), "no thanks" in str(e))
with kt._dynamo.config.patch(suppress_errors=True):
    print(g(kt.ones(2)).tolist())

# output:
# | [1.0, 1.0] [2]
# | BackendCompilerFailed True True
# | [2.0, 2.0]
# counts: graphs 3 (operations: 1, 1, 1); breaks 0; recompiles 0.
