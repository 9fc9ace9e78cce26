# Sizes that do not go together: the operation's own error reaches the caller; where breaks are errors it is one of the compiler's.
import torch
from torch._dynamo.exc import TorchRuntimeError


def project(weights, point):
    return (weights * 2) @ point


arguments = torch.ones(2, 3), torch.ones(4)
for full in (False, True):
    try:
        torch.compile(project, fullgraph=full)(*arguments)
    except RuntimeError as error:
        print(type(error).__name__, isinstance(error, TorchRuntimeError), "matmul" in str(error))


@torch.compile(fullgraph=True)
def guarded(weights, point):
    try:
        return weights @ point
    except RuntimeError as error:
        return point, "matmul" in str(error)


print(guarded(*arguments)[1])

# | RuntimeError False True
# | TorchRuntimeError True True
# | True
# breaks: 1
