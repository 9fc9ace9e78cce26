# A call with one argument too many: the record says that the program may be wrong itself, and a plain run shows it.
import torch


@torch.compile
def rotate(angle):
    shifted = angle + 1
    return torch.sin(shifted, shifted)


def attempt(function):
    try:
        function(torch.zeros(3))
    except Exception as error:
        print(type(error).__name__, "sin" in str(error))


attempt(rotate)
with torch.compiler.set_stance("force_eager"):
    attempt(rotate)
try:
    torch.compile(rotate, fullgraph=True)(torch.zeros(3))
except torch._dynamo.exc.Unsupported as error:
    text = str(error)
    print(text.splitlines()[0])
    print('set_stance("force_eager")' in text, "torch.sin(shifted, shifted)" in text)

# | TypeError True
# | TypeError True
# | TypeError when making fake tensor call
# | True True
# breaks: 1
