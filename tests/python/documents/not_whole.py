# fullgraph=False: the function goes on after each break; what is called plain is compiled on its own.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


def helper(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@torch.compile(backend=counter)
def root(x):
    x = x * 3
    x = helper(x)
    return x - 1


print(root(torch.ones(1)).tolist())
explained = torch._dynamo.explain(root)(torch.ones(1))
print(len(explained.break_reasons), explained.graph_count == len(explained.graphs) == explained.graph_break_count + 1)
print(sum(len(ops) for ops in explained.ops_per_graph) == explained.op_count)
print(explained.break_reasons[0].user_stack[-1].name)
print(all(callable(graph) for graph in explained.graphs), explained.graphs[0](torch.ones(1))[0].tolist())
text = str(explained)
print([heading in text for heading in ("Graph Count", "Graph Break Count", "Op Count", "Break Reasons", "Ops per Graph", "Out Guards")])

# | [7.0]
# | 1 True
# | True
# | helper
# | True [4.0]
# | [True, True, True, True, True, True]
# breaks: 1
