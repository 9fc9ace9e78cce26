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


def clamp(input, min=None, max=None):
    """Each element, or the bound that it is beyond; bounds are numbers or tensors. `clamp([-1., 5.], 0, 2)` is `[0., 2.]`"""
    if min is None and max is None:
        raise ValueError("clamp: at least one of min and max is wanted")
    if min is not None:
        input = _rt.maximum(input, min)
    return input if max is None else _rt.minimum(input, max)


def reciprocal(input):
    """1 / input."""
    return 1.0 / input


def rsqrt(input):
    """1 / sqrt(input)."""
    return 1.0 / _rt.sqrt(input)


def isnan(input):
    """Which elements are NaN."""
    return input != input


def isinf(input):
    """Which elements are infinite."""
    return abs(input) == math.inf


def isfinite(input):
    """Which elements are neither infinite nor NaN."""
    return abs(input) < math.inf


def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """NaN and infinities replaced: by default with 0 and the greatest and smallest float of the dtype."""
    if not input.dtype.is_floating_point:
        return input.clone()
    greatest = 3.4028234663852886e38 if input.dtype is _rt.float32 else 1.7976931348623157e308
    input = _rt.where(input != input, 0.0 if nan is None else nan, input)
    input = _rt.where(input == math.inf, greatest if posinf is None else posinf, input)
    return _rt.where(input == -math.inf, -greatest if neginf is None else neginf, input)


def mm(input, mat2):
    """The product of two matrices."""
    if input.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(f"mm: two matrices are wanted, not tensors of {input.dim()} and {mat2.dim()} dimensions")
    return input @ mat2


def dot(input, tensor):
    """The sum of the products of two vectors' elements."""
    if input.dim() != 1 or tensor.dim() != 1:
        raise RuntimeError(f"dot: two vectors are wanted, not tensors of {input.dim()} and {tensor.dim()} dimensions")
    return input @ tensor


def outer(input, vec2):
    """All products of an element of one vector and one of the other, as a matrix."""
    if input.dim() != 1 or vec2.dim() != 1:
        raise RuntimeError(f"outer: two vectors are wanted, not tensors of {input.dim()} and {vec2.dim()} dimensions")
    return input.unsqueeze(1) * vec2


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
