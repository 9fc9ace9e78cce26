# A name that does not exist, a call that does not bind: Python's own errors, at their lines.
import torch
import traceback


def scale(x, factor):
    return x * factor


@torch.compile
def misspelt(x):
    return scal(x + 1, 2)  # noqa: F821


@torch.compile
def forgotten(x):
    return scale(x + 1)


for function in (misspelt, forgotten):
    try:
        function(torch.ones(2))
    except (NameError, TypeError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        print(type(error).__name__, error, "|", last.line.partition("  #")[0])

# | NameError name 'scal' is not defined | return scal(x + 1, 2)
# | TypeError scale() missing 1 required positional argument: 'factor' | return scale(x + 1)
# breaks: 2
