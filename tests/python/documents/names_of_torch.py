# Names that such programs use, and what is said of those that are not here.
import importlib
import torch
import torch.nn as nn
import torch._dynamo
import torch.fx
import torch.library
from torch import Tensor
from torch._dynamo import config, graph_break
from torch._dynamo.utils import counters

torch.manual_seed(0)
x = torch.randn(2, 3, dtype=torch.float32, device=torch.device("cpu"))
print(isinstance(x, Tensor), x.shape == torch.Size([2, 3]), x.dtype is torch.float32, torch.is_tensor(x))
print(torch.allclose(torch.linspace(0, 1, 3), torch.tensor([0.0, 0.5, 1.0])), torch.equal(x, x + 1), torch.numel(x))
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.get_default_dtype() is torch.float32)
print(config is torch._dynamo.config, graph_break is torch._dynamo.graph_break, counters is torch._dynamo.utils.counters)
print(isinstance(torch.fx.GraphModule, type))
for name in ("torch.distributed", "torch._runtime"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error.name, "kintsugi" in str(error))
try:
    from torch import vmap
except ImportError as error:
    print("vmap" in str(error), "kintsugi" in str(error))
try:
    torch.vmap
except AttributeError as error:
    print("vmap" in str(error), "kintsugi" in str(error))

# | True True True True
# | True False 6
# | False 0 True
# | True True True
# | True
# | torch.distributed True
# | torch._runtime True
# | True True
# | True True
# breaks: 0
