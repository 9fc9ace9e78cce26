# item() breaks; with the setting, or under fullgraph, the number stays in the graph and no value compiles again.
import torch
from torch._dynamo.testing import CompileCounter


def shift(x):
    n = x[0].item()
    return x + n, n


breaking, captured, whole = CompileCounter(), CompileCounter(), CompileCounter()
once = torch.compile(shift, backend=breaking)
with torch._dynamo.config.patch(capture_scalar_outputs=True):
    kept = torch.compile(shift, backend=captured)
    for start in (2.0, 5.0):
        x = torch.ones(2) * start
        (y, n), (z, m) = once(x), kept(x)
        print(y.tolist(), n, z.tolist(), m)
full = torch.compile(shift, backend=whole, fullgraph=True)
print(full(torch.ones(2))[1], full(torch.zeros(2))[1])
print(captured.frame_count, whole.frame_count)

# | [4.0, 4.0] 2.0 [4.0, 4.0] 2.0
# | [10.0, 10.0] 5.0 [10.0, 10.0] 5.0
# | 1.0 0.0
# | 1 1
# breaks: 0
