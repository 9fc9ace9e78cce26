# Nothing that the failed part did is left behind, and the next call tries again.
import torch

seen = []
switch = {"break": True}


@torch.compile(fullgraph=True)
def note(x):
    seen.append(x.shape[0])
    if switch["break"]:
        torch._dynamo.graph_break()
    return x + len(seen)


for _ in range(2):
    try:
        print(note(torch.ones(2)).tolist(), seen)
    except RuntimeError as error:
        print(type(error).__name__, seen)
    switch["break"] = False

# | Unsupported []
# | [2.0, 2.0] [2]
# breaks: 0
