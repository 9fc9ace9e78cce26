# export: one graph, or an error that says what breaks.
import torch
from torch.export import export


class Half(torch.nn.Module):
    def forward(self, x):
        return x * 0.5 + torch.compiler.is_exporting()


class Talks(torch.nn.Module):
    def forward(self, x):
        print("hello")
        return x


program = export(Half(), (torch.ones(2),))
print(program.module()(torch.ones(2) * 4).tolist())
try:
    export(Talks(), (torch.ones(2),))
except torch._dynamo.exc.Unsupported as error:
    print("print" in str(error))

# | [3.0, 3.0]
# | True
# breaks: 0
