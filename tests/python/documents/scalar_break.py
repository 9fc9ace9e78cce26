# Without the setting, reading a number is a break: what comes before and after is compiled.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compile(backend=counter)
def shift(x):
    x = x * 2
    n = x[0].item()
    return x + n


print(shift(torch.ones(2)).tolist(), counter.frame_count)
with torch._dynamo.error_on_graph_break(True):
    try:
        torch.compile(lambda x: x.sum().item())(torch.ones(2))
    except torch._dynamo.exc.Unsupported as error:
        print("capture_scalar_outputs" in str(error))

# | [4.0, 4.0] 2
# | True
# breaks: 1
