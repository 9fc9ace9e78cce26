# Code under `if not is_compiling()` is no part of what is compiled.
import torch


def step(x):
    if not torch.compiler.is_compiling():
        print("plain", x.sum().item())
    return x + 1


print(step(torch.ones(1)).tolist())
print(torch.compile(step, fullgraph=True)(torch.ones(1)).tolist())
print(torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling(), torch.compiler.is_exporting())

# | plain 1.0
# | [2.0]
# | [2.0]
# | False False False
# breaks: 0
