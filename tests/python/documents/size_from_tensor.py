# An operator whose result's size depends on data: a break, or one graph with the setting.
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter


@torch.library.custom_op("documents::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    return torch.tensor([each for each in x.tolist() if each > 0])


@positive.register_fake
def _(x):
    return torch.empty(torch.library.get_ctx().new_dynamic_size())


def spread(x):
    y = positive(x) * 2
    return y + y.shape[0]


counter = CompileCounter()
with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
    fast = torch.compile(spread, backend=counter)
    for data in ([1.0, -1.0, 2.0], [1.0, 1.0, 1.0, 1.0, 3.0], [-1.0, 2.0]):
        print(fast(torch.tensor(data)).tolist(), counter.frame_count)
with torch._dynamo.error_on_graph_break(True):
    try:
        torch.compile(spread)(torch.ones(2))
    except torch._dynamo.exc.Unsupported as error:
        print(str(error).splitlines()[0], "capture_dynamic_output_shape_ops" in str(error))

# | [4.0, 6.0] 1
# | [7.0, 7.0, 7.0, 7.0, 11.0] 2
# | [5.0] 2
# | Dynamic shape operator True
# breaks: 0
