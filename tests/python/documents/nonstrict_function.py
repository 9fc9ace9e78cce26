# nonstrict_trace: what would break inside is not looked at, and structured arguments and results go through.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch._dynamo.nonstrict_trace
def messy(batch, *, factor):
    torch._dynamo.graph_break()
    sizes = {name: tensor.shape[0] for name, tensor in batch.items()}
    return {"scaled": [tensor * factor for tensor in batch.values()], "sizes": sizes}


@torch.compile(fullgraph=True, backend=counter)
def root(x, y, factor):
    out = messy({"x": x, "y": y + 1}, factor=factor)
    return out["scaled"][0] + out["scaled"][1], out["sizes"]


print(root(torch.ones(2), torch.zeros(2), 3))
print(root(torch.ones(2), torch.zeros(2), 3)[0].tolist(), counter.frame_count)
print(root(torch.ones(2), torch.zeros(2), 4)[0].tolist(), counter.frame_count)

# | (tensor([6., 6.]), {'x': 2, 'y': 2})
# | [6.0, 6.0] 1
# | [8.0, 8.0] 2
# breaks: 0
