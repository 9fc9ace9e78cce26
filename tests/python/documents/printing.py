# print is a break; its text appears once, at its place.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compile(backend=counter)
def describe(x):
    y = x + 1
    print("first", y.tolist())
    z = y * 2
    print("second")
    return z + 1


print(describe(torch.zeros(2)).tolist(), counter.frame_count)
print(describe(torch.ones(2)).tolist(), counter.frame_count)

# | first [1.0, 1.0]
# | second
# | [3.0, 3.0] 3
# | first [2.0, 2.0]
# | second
# | [5.0, 5.0] 3
# breaks: 2
