# disallow_in_graph: an operator becomes a break; a function that would be followed is refused.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()
torch._dynamo.disallow_in_graph(torch.sub)


@torch.compile(backend=counter)
def root(x):
    a = torch.add(x, 1)
    b = torch.add(a, 1)
    c = torch.sub(b, 1)
    return torch.add(c, 1)


print(root(torch.ones(1)).tolist(), counter.frame_count, counter.op_count)
torch._dynamo.allow_in_graph(torch.sub)
torch._dynamo.reset()
counter.clear()
print(root(torch.ones(1)).tolist(), counter.frame_count, counter.op_count)
try:
    torch._dynamo.disallow_in_graph(lambda x: x)
except RuntimeError as error:
    print("allowed" in str(error))

# | [3.0] 2 3
# | [3.0] 1 4
# | True
# breaks: 1
