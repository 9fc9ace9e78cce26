# A custom operator: one node, run as plain Python on real tensors.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.library.custom_op("documents::largest", mutates_args=())
def largest(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([max(x.tolist())])


@largest.register_fake
def _(x):
    return torch.empty(1)


@torch.compile(fullgraph=True, backend=counter)
def root(x):
    return torch.ops.documents.largest(x * 2) + 1


print(root(torch.tensor([1.0, 4.0])).tolist(), root(torch.tensor([7.0, 4.0])).tolist(), counter.frame_count, counter.op_count)
try:
    torch.ops.documents.smallest
except AttributeError as error:
    print("documents::smallest" in str(error))
largest.register_autograd(lambda ctx, grad: grad)
print(largest(torch.tensor([1.0, 4.0])).tolist())

# | [9.0] [15.0] 1 3
# | True
# | [4.0]
# breaks: 0
