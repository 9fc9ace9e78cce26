# Two ways around a branch on data: cond, and computing both sides.
import torch


@torch.compile(fullgraph=True)
def by_cond(x):
    return torch.cond(x.sum() > 0, lambda x: torch.sin(x), lambda x: torch.cos(x), (x,))


@torch.compile(fullgraph=True)
def by_where(x):
    return torch.where(x.sum() > 0, torch.sin(x), torch.cos(x))


for value in (torch.ones(2), -torch.ones(2)):
    print(torch.allclose(by_cond(value), by_where(value)), by_cond(value)[0].item() == by_where(value)[0].item())

# | True True
# | True True
# breaks: 0
