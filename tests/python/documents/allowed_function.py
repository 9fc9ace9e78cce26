# allow_in_graph: one node, whatever is inside; what it may not answer is a break.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compiler.allow_in_graph
def opaque(x):
    torch._dynamo.graph_break()
    return x * 2 + 1


@torch.compile(backend=counter, fullgraph=True)
def root(x):
    return opaque(x + 1) + 1


print(root(torch.ones(2)).tolist(), counter.frame_count, counter.op_count)


@torch.compiler.allow_in_graph
def text(x):
    return "text"


try:
    torch.compile(lambda x: text(x), fullgraph=True)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    print("non-Tensor" in str(error))

# | [6.0, 6.0] 1 3
# | True
# breaks: 0
