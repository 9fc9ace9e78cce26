# error_on_graph_break as a context manager: breaks inside are errors, outside they are not.
import torch


@torch.compile
def root(x, strict):
    x = x + 1
    torch._dynamo.graph_break()
    with torch._dynamo.error_on_graph_break(strict):
        x = x * 2
        torch._dynamo.graph_break(msg="inside")
    return x + 3


print(root(torch.ones(1), False).tolist())
try:
    root(torch.ones(1), True)
except torch._dynamo.exc.Unsupported as error:
    print("inside" in str(error))
try:
    torch._dynamo.error_on_graph_break()
except TypeError as error:
    print(type(error).__name__)

# | [7.0]
# | True
# | TypeError
# breaks: 2
