# set_logs: records of breaks and recompiles, with the user's lines.
import io
import logging
import torch

stream = io.StringIO()
handler = logging.StreamHandler(stream)
torch._logging.set_logs(graph_breaks=True, recompiles=True)
for name in ("graph_breaks", "recompiles"):
    logging.getLogger(f"kintsugi.__{name}").handlers[:] = [handler]


@torch.compile(dynamic=False)
def f(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x + 2


f(torch.ones(2))
f(torch.ones(3))
told = stream.getvalue()
print(told.count("Graph break in user code at"), "torch._dynamo.graph_break()" in told, "User code traceback:" in told)
print("Recompiling function f" in told, "triggered by the following guard failure(s)" in told)
print("tensor 'x' size mismatch at index 0. expected 2, actual 3" in told)
torch._logging.set_logs()
for wrong in ({"graph_breaks": 3}, {"dynamo": True}):
    try:
        torch._logging.set_logs(**wrong)
    except ValueError as error:
        print(type(error).__name__)
try:
    torch._logging.set_logs(nonsense=True)
except TypeError as error:
    print(type(error).__name__)

# | 1 True True
# | True True
# | True
# | ValueError
# | ValueError
# | TypeError
# breaks: 1
