# A reorderable print runs without a break; so does print of the higher-order operators.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()
torch._dynamo.config.reorderable_logging_functions.add(print)


@torch.compile(backend=counter)
def describe(x):
    y = x + 1
    print("between", 3, f"of {x.shape[0]}")
    torch._higher_order_ops.print("value {} and {n}", y.shape[0], n=2)
    return y * 2


print(describe(torch.zeros(2)).tolist(), counter.frame_count)
torch._dynamo.config.reorderable_logging_functions.discard(print)
torch._dynamo.reset()
print(describe(torch.zeros(2)).tolist(), counter.frame_count)

# | between 3 of 2
# | value 2 and 2
# | [2.0, 2.0] 1
# | between 3 of 2
# | value 2 and 2
# | [2.0, 2.0] 3
# breaks: 1
