# A loop whose end depends on data: it breaks at each turn, and gives what the plain run gives.
import torch


def halve(x):
    turns = 0
    while x.sum() > 1:
        x = x * 0.5
        turns += 1
    return x, turns


fast = torch.compile(halve)
for start in (1.0, 8.0, 100.0):
    x = torch.ones(4) * start
    (y, n), (z, m) = halve(x), fast(x)
    print(m, torch.equal(y, z) and n == m)

# | 2 True
# | 5 True
# | 9 True
# breaks: 1
