# skip_frame and step_unsupported: the function, or its rest, runs plain; what it calls is compiled.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


def leaf(x):
    return x * 2


@torch.compile(backend=counter)
def skipped(x):
    torch._dynamo.skip_frame()
    return leaf(x) + torch.compiler.is_compiling()


print(skipped(torch.ones(1)).tolist(), counter.frame_count)
counter.clear()


@torch.compile(backend=counter)
def partly(x):
    x = x + 1
    x = x + 2
    torch._dynamo.step_unsupported()
    return x * 3 + torch.compiler.is_compiling()


print(partly(torch.ones(1)).tolist(), counter.frame_count, counter.op_count)

# | [2.0] 1
# | [12.0] 1 2
# breaks: 2
