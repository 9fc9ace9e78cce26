# disable: nothing below the call is compiled; recursive=False: only the function itself is not.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


def leaf(x):
    return x * 2


@torch.compiler.disable
def whole(x):
    return leaf(x) + torch.compiler.is_compiling()


@torch.compiler.disable(recursive=False)
def alone(x):
    return leaf(x) + torch.compiler.is_compiling()


for function in (whole, alone):
    torch._dynamo.reset()
    counter.clear()
    root = torch.compile(lambda x: function(x + 1) - 1, backend=counter)
    print(function.__name__, root(torch.ones(1)).tolist(), counter.frame_count)

# | whole [3.0] 2
# | alone [3.0] 3
# breaks: 1
