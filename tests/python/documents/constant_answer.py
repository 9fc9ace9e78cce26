# assume_constant_result: called while compiling, never again.
import torch

calls = []


@torch._dynamo.assume_constant_result
def settings():
    calls.append(1)
    return 5


@torch.compile(fullgraph=True)
def root(x):
    return x + settings()


print(root(torch.ones(1)).tolist(), root(torch.zeros(1)).tolist(), len(calls))

# | [6.0] [5.0] 1
# breaks: 0
