# A backend gets each graph; what it raises is told with its name.
import torch


def reading(graph, inputs):
    names = [node.op for node in graph.graph.nodes]
    print(names, len(inputs))
    return graph.forward


def failing(graph, inputs):
    raise KeyError("nothing")


@torch.compile(backend=reading)
def f(x):
    return torch.relu(x) + 1


print(f(torch.tensor([-1.0, 1.0])).tolist())
try:
    torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1))
except torch._dynamo.exc.BackendCompilerFailed as error:
    print("failing" in str(error), "KeyError" in str(error), type(error.inner_exception).__name__)
try:
    torch.compile(lambda x: x + 1, backend="eagr")
except torch._dynamo.exc.InvalidBackend as error:
    print("'eager'" in str(error), "list_backends" in str(error))
print("eager" in torch.compiler.list_backends(), "aot_eager" in torch._dynamo.list_backends(None))

# | ['placeholder', 'call_function', 'call_function', 'output'] 1
# | [1.0, 2.0]
# | True True KeyError
# | True True
# | True True
# breaks: 0
