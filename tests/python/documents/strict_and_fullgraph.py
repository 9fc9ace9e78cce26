# fullgraph=True cannot be relaxed from inside, and there may be several graphs under error_on_graph_break.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch._dynamo.error_on_graph_break(False)
def part(x):
    torch._dynamo.graph_break()
    return x + 1


def root(x):
    return part(x * 2) * 3


try:
    torch.compile(root, fullgraph=True, backend=counter)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    print("graph_break()" in str(error))
with torch._dynamo.error_on_graph_break(True):
    print(torch.compile(root, backend=counter)(torch.ones(1)).tolist(), counter.frame_count > 1)

# | True
# | [9.0] True
# breaks: 1
