"""Functions of tensors that are made of others. Followed in compiled code as what they are made of."""
import math

from . import _runtime as _rt


def empty(*size, dtype=None, device=None, requires_grad=False):
    """Zeros: memory is never shown as it was."""
    return _rt.zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(input, *, dtype=None, device=None):
    """Zeros in the shape and dtype of input."""
    return _rt.zeros_like(input, dtype=dtype, device=device)


def rand_like(input, *, dtype=None, device=None):
    """Uniform draws in [0, 1), in the shape and dtype of input."""
    return _rt.rand(input.shape, dtype=input.dtype if dtype is None else dtype, device=device)


def randn_like(input, *, dtype=None, device=None):
    """Normal draws with mean 0 and variance 1, in the shape and dtype of input."""
    return _rt.randn(input.shape, dtype=input.dtype if dtype is None else dtype, device=device)


def linspace(start, end, steps, *, dtype=None, device=None):
    """`steps` numbers at equal distances from start to end. `linspace(0, 1, 3)` is `[0., 0.5, 1.]`"""
    if steps < 0:
        raise RuntimeError("linspace: steps is 0 or more")
    distance = (end - start) / (steps - 1) if steps > 1 else 0.0
    whole = start + _rt.arange(steps, dtype=_rt.float64, device=device) * distance
    return whole.to(_rt.float32 if dtype is None else dtype)


def square(input):
    """Each element times itself."""
    return input * input


def numel(input):
    """How many elements there are."""
    return input.numel()


def is_floating_point(input):
    """Whether its dtype is one of floats."""
    return input.dtype.is_floating_point


def equal(input, other):
    """Whether sizes and elements are the same: True or False of Python."""
    return input.shape == other.shape and bool((input == other).all().item())


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether every element differs by no more than atol + rtol * abs(other): True or False of Python."""
    apart = abs(input - other)
    close = (input == other) | ((apart <= atol + rtol * abs(other)) & (apart < math.inf))
    if equal_nan:
        close = close | ((input != input) & (other != other))
    return bool(close.all().item())


def get_default_dtype():
    """float32."""
    return _rt.float32
