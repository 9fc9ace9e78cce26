# The innermost setting decides, in callees too; it is a decorator as well.
import torch


@torch._dynamo.error_on_graph_break(False)
def relaxed(x):
    torch._dynamo.graph_break()
    return x + 1


def careless(x):
    torch._dynamo.graph_break()
    return x + 2


@torch.compile
@torch._dynamo.error_on_graph_break(True)
def root(x, careful):
    x = relaxed(x)
    if not careful:
        x = careless(x)
    return x * 2


print(root(torch.ones(1), True).tolist())
try:
    root(torch.ones(1), False)
except RuntimeError as error:
    print(type(error).__name__, "in careless" in str(error), "in relaxed" in str(error))


@torch._dynamo.error_on_graph_break(True)
def tight(x):
    with torch._dynamo.error_on_graph_break(False):
        torch._dynamo.graph_break()
    return x + 1


print(torch.compile(tight)(torch.ones(1)).tolist())

# | [4.0]
# | Unsupported True False
# | [2.0]
# breaks: 2
