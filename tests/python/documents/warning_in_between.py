# warnings.warn: a break that warns once at its place.
import torch
import warnings


@torch.compile
def careful(x):
    y = x - 1
    warnings.warn("values shrink")
    return y * 2


with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(careful(torch.ones(2)).tolist())
print([str(each.message) for each in told], told[0].category.__name__)

# | [0.0, 0.0]
# | ['values shrink'] UserWarning
# breaks: 1
