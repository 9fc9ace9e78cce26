# A module as the function that is compiled: its parameters are inputs of one graph, and its forward may have breaks as any other.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.log = False

    def forward(self, x):
        y = self.layers(x)
        if self.log:
            print("sees", tuple(y.shape))
        return F.relu(y) + 1


torch.manual_seed(0)
net = Net()
fast = torch.compile(net, backend=counter)
x = torch.ones(2, 3)
with torch.no_grad():
    print(torch.equal(fast(x), net(x)), counter.frame_count, torch.is_grad_enabled())
    net.log = True
    fast(x)
print(counter.frame_count, sum(p.numel() for p in net.parameters()), torch.is_grad_enabled())

# | True 1 False
# | sees (2, 2)
# | 3 26 True
# breaks: 1
