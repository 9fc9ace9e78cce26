# A branch on a tensor: one graph before it, one for each side that was taken.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compile(backend=counter)
def settle(x):
    total = x.sum()
    if total > 0:
        return x - total
    return x + total


print(settle(torch.ones(3)).tolist(), counter.frame_count)
print(settle(-torch.ones(3)).tolist(), counter.frame_count)
print(settle(torch.ones(3)).tolist(), counter.frame_count)
try:
    torch.compile(settle, fullgraph=True)(torch.ones(3))
except torch._dynamo.exc.Unsupported as error:
    print(str(error).splitlines()[0], "if total > 0" in str(error), "cond" in str(error))

# | [-2.0, -2.0, -2.0] 2
# | [-4.0, -4.0, -4.0] 3
# | [-2.0, -2.0, -2.0] 3
# | Data-dependent branching True True
# breaks: 1
