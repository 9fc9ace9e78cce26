# fullgraph=True: the first break is an error that says why, what helps, and where; mended one by one, the function is one graph.
import torch
from torch._dynamo.testing import CompileCounter


def inner(x):
    torch._dynamo.graph_break(msg="to be removed")
    return x + 1


def outer(x):
    return inner(x * 2) + 3


counter = CompileCounter()
try:
    torch.compile(outer, fullgraph=True, backend=counter)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    text = str(error)
    print(text.splitlines()[0])
    print("Explanation:" in text, "Hint: Remove" in text, "to be removed" in text)
    stack = text.partition("from user code:")[2]
    print(stack.index("in outer") < stack.index("in inner"), "inner(x * 2) + 3" in stack)
print(counter.frame_count)


def inner(x):  # noqa: F811
    return x + 1


print(torch.compile(outer, fullgraph=True, backend=counter)(torch.ones(1)).tolist(), counter.frame_count, counter.op_count)

# | Call to `kt._dynamo.graph_break()`
# | True True True
# | True True
# | 0
# | [6.0] 1 3
# breaks: 0
