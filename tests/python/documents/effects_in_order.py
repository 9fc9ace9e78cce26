# Changes before a break are visible to what breaks, and later ones are not yet.
import torch


@torch.compiler.disable
def look(where, state):
    print(where, state)


@torch.compile
def run(x, state):
    state["turn"] = 1
    y = x + 1
    look("middle", dict(state))
    state["turn"] = 2
    state["done"] = True
    return y


state = {}
print(run(torch.ones(1), state).tolist(), state)

# | middle {'turn': 1}
# | [2.0] {'turn': 2, 'done': True}
# breaks: 1
