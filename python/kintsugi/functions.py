"""Functions and methods of tensors that are made of others. Followed in compiled code as what they are made of."""
import collections
import math

from . import _runtime as _rt
from .activations import erf, log_softmax, sigmoid, softmax

ValuesAndIndices = collections.namedtuple("ValuesAndIndices", ["values", "indices"])


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


def clip(input, min=None, max=None):
    """As clamp."""
    return clamp(input, min, max)


def clamp_(input, min=None, max=None):
    """clamp in place."""
    clamped = clamp(input, min, max)
    if clamped.dtype is not input.dtype or clamped.shape != input.shape:
        raise RuntimeError(f"clamp_: {clamped.dtype} of sizes {list(clamped.shape)} does not fit into {input.dtype} of sizes {list(input.shape)}")
    return input.copy_(clamped)


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


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Which elements differ by no more than atol + rtol * abs(other)."""
    apart = abs(input - other)
    close = (input == other) | ((apart <= atol + rtol * abs(other)) & (apart < math.inf))
    if equal_nan:
        close = close | ((input != input) & (other != other))
    return close


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether every element differs by no more than atol + rtol * abs(other): True or False of Python."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


def sign(input):
    """1, 0 or -1 for elements above, at and below zero; NaN gives 0."""
    if input.dtype is _rt.bool:
        return input.clone()
    return (input > 0).to(input.dtype) - (input < 0).to(input.dtype)


# ---- Along dimensions


def _dim(input, dim):
    """From 0 on."""
    count = input.dim()
    if not -count <= dim < count:
        raise IndexError(f"dim {dim} is out of range: the tensor has {count} dimensions, so it is between {-count} and {count - 1}")
    return dim + count if dim < 0 else dim


def max(input, dim=None, keepdim=False, *, other=None):
    """The greatest element; the greater ones of two tensors; along a dimension (values, indices)."""
    if other is not None:
        return _rt.max(input, other)
    if dim is None or type(dim) is _rt.Tensor:
        return _rt.max(input, dim)
    return ValuesAndIndices(input.amax(dim, keepdim), input.argmax(dim, keepdim))


def min(input, dim=None, keepdim=False, *, other=None):
    """The smallest element; the smaller ones of two tensors; along a dimension (values, indices)."""
    if other is not None:
        return _rt.min(input, other)
    if dim is None or type(dim) is _rt.Tensor:
        return _rt.min(input, dim)
    return ValuesAndIndices(input.amin(dim, keepdim), input.argmin(dim, keepdim))


def var(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """Mean square distance from the mean, the sum divided by the count less `correction` (1, or 0 where not unbiased)."""
    if correction is None:
        correction = 1 if unbiased else 0
    apart = input - input.mean(dim, keepdim=True)
    sum = (apart * apart).sum(dim, keepdim)
    count = input.numel() // sum.numel() - correction if sum.numel() > 0 else 0
    return sum / (count if count > 0 else 0)


def std(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The square root of var."""
    return var(input, dim, unbiased, keepdim, correction=correction).sqrt()


def norm(input, p=2, dim=None, keepdim=False):
    """(sum of |x|^p)^(1/p); of p = inf the greatest magnitude, of -inf the smallest, of 0 how many are not zero."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"norm: a floating dtype is wanted, not {input.dtype}; convert the tensor first")
    if p == 2 or p == "fro":
        return (input * input).sum(dim, keepdim).sqrt()
    if p == 1:
        return abs(input).sum(dim, keepdim)
    if p == math.inf:
        return abs(input).amax(dim, keepdim)
    if p == -math.inf:
        return abs(input).amin(dim, keepdim)
    if p == 0:
        return (input != 0).to(input.dtype).sum(dim, keepdim)
    return (abs(input) ** p).sum(dim, keepdim) ** (1.0 / p)


def prod(input, dim=None, keepdim=False, *, dtype=None):
    """The product of all elements, or along a dimension: its first half times its second, until one is left. Integers and bools: int64."""
    if dtype is None:
        dtype = input.dtype if input.dtype.is_floating_point else _rt.int64
    whole, at = dim is None, 0 if dim is None else _dim(input, dim)
    input = (input.reshape(-1) if whole else input).to(dtype).clone()
    while input.shape[at] > 1:
        size = input.shape[at]
        half = size // 2
        left = _part(input, at, 2 * half, size)
        input = _part(input, at, 0, half) * _part(input, at, half, 2 * half)
        if size > 2 * half:
            input = _rt.cat([input, left], at)
    if input.shape[at] == 0:
        shape = list(input.shape)
        shape[at] = 1
        input = _rt.ones(shape, dtype=dtype)
    return input if keepdim and not whole else select(input, at, 0)


def sort(input, dim=-1, descending=False, stable=False):
    """(values, indices) in ascending order along a dimension; equal elements stay in order, NaN is greatest."""
    indices = input.argsort(dim, descending)
    return ValuesAndIndices(input.gather(dim, indices), indices)


def topk(input, k, dim=-1, largest=True, sorted=True):
    """(values, indices) of the k greatest elements along a dimension, or of the smallest, in order."""
    size = input.shape[_dim(input, dim)] if input.dim() > 0 else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: k is between 0 and {size}, the size of dimension {dim}, not {k}")
    indices = input.argsort(dim, largest)
    if input.dim() > 0:
        indices = _part(indices, dim, 0, k).contiguous()
    return ValuesAndIndices(input.gather(dim, indices), indices)


def _part(input, dim, start, stop):
    """Of a dimension the elements from start to stop, as a view."""
    return input[(slice(None),) * _dim(input, dim) + (slice(start, stop),)]


def diff(input, n=1, dim=-1):
    """Each element along a dimension less the one before it, n times; of bools where they differ."""
    if n < 0:
        raise RuntimeError(f"diff: n is 0 or more, not {n}")
    for _ in range(n):
        size = input.shape[_dim(input, dim)]
        after, before = _part(input, dim, 1, size), _part(input, dim, 0, size - 1 if size > 0 else 0)
        input = after != before if input.dtype is _rt.bool else after - before
    return input.clone() if n == 0 else input


def cross(input, other, dim=None):
    """The vector product along a dimension of size 3: the first of such a size where none is given."""
    if input.dim() != other.dim():
        raise RuntimeError(f"cross: tensors of {input.dim()} and {other.dim()} dimensions; they must have as many")
    sizes = [a if b == 1 else b for a, b in zip(input.shape, other.shape)]
    at = (sizes.index(3) if 3 in sizes else 0) if dim is None else _dim(input, dim)
    if input.dim() == 0 or input.shape[at] != 3 or other.shape[at] != 3:
        raise RuntimeError(f"cross: the dimension must have size 3, in sizes {list(input.shape)} and {list(other.shape)}")
    a, b, c = unbind(input, at)
    u, v, w = unbind(other, at)
    return _rt.stack([b * w - c * v, c * u - a * w, a * v - b * u], at)


# ---- Parts and choices


def split(tensor, split_size_or_sections, dim=0):
    """A tuple of views: each of this size along a dimension, the last perhaps smaller, or of the sizes in a list."""
    size = tensor.shape[_dim(tensor, dim)]
    if isinstance(split_size_or_sections, int):
        if split_size_or_sections < 0 or (split_size_or_sections == 0 and size > 0):
            raise RuntimeError(f"split: the size of a part is above 0, not {split_size_or_sections}")
        parts, at = [], 0
        while at < size or not parts:
            parts.append(_part(tensor, dim, at, at + split_size_or_sections))
            at = at + split_size_or_sections
        return tuple(parts)
    parts, at = [], 0
    for each in split_size_or_sections:
        parts.append(_part(tensor, dim, at, at + each))
        at = at + each
    if at != size:
        raise RuntimeError(f"split: the sizes {list(split_size_or_sections)} add up to {at}, dimension {dim} has {size}")
    return tuple(parts)


def chunk(input, chunks, dim=0):
    """A tuple of at most this many views of equal sizes along a dimension, the last perhaps smaller."""
    if chunks <= 0:
        raise RuntimeError(f"chunk: chunks is above 0, not {chunks}")
    size = (input.shape[_dim(input, dim)] + chunks - 1) // chunks
    return split(input, size if size > 0 else 1, dim)


def unbind(input, dim=0):
    """A tuple of views, one for each number of a dimension, which they lack."""
    before = _dim(input, dim)
    return tuple([input[(slice(None),) * before + (at,)] for at in range(input.shape[before])])


def masked_fill(input, mask, value):
    """The value where the mask holds, else the element."""
    filled = _rt.where(mask, value, input)
    if filled.dtype is not input.dtype:
        raise RuntimeError(f"masked_fill: the value {value} does not fit into a tensor of {input.dtype}")
    return filled


def masked_select(input, mask):
    """The elements where the mask holds, as a vector."""
    shape = _rt.logical_or(input, mask).shape
    return input.expand(shape)[mask.expand(shape)]


def index_select(input, dim, index):
    """The elements whose numbers along a dimension the index holds."""
    return input[(slice(None),) * _dim(input, dim) + (index,)]


def narrow(input, dim, start, length):
    """Of a dimension the elements from start on, as a view."""
    size = input.shape[_dim(input, dim)]
    start = start + size if start < 0 else start
    if not 0 <= start <= start + length <= size:
        raise RuntimeError(f"narrow: {length} elements from {start} on are not in dimension {dim}, which has {size}")
    return _part(input, dim, start, start + length)


def select(input, dim, index):
    """One number of a dimension, which the view lacks."""
    return input[(slice(None),) * _dim(input, dim) + (index,)]


# ---- Arranged anew


def repeat(input, *sizes):
    """Copies side by side, so many along each dimension; dimensions are added in front."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    if len(sizes) < input.dim():
        raise RuntimeError(f"repeat: {len(sizes)} sizes for a tensor of {input.dim()} dimensions")
    for _ in range(len(sizes) - input.dim()):
        input = input.unsqueeze(0)
    for dim, times in enumerate(sizes):
        if times < 0:
            raise RuntimeError(f"repeat: {times} copies along dimension {dim}")
        input = _part(input, dim, 0, 0) if times == 0 else _rt.cat([input] * times, dim)
    return input.clone()


def flip(input, *order, dims=None):
    """The elements of these dimensions in reverse order: flip(x, 0, 1), flip(x, (0, 1)) or flip(x, dims=(0, 1))."""
    if dims is None:
        dims = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
    elif order:
        raise TypeError("flip: dims were given twice")
    for dim in (dims if isinstance(dims, (tuple, list)) else (dims,)):
        input = index_select(input, dim, _rt.arange(input.shape[_dim(input, dim)] - 1, -1, -1))
    return input.clone()


def roll(input, shifts, dims=None):
    """The elements moved along a dimension, along several, or in row-major order; those beyond its end come first."""
    if isinstance(shifts, (tuple, list)):
        places = dims if isinstance(dims, (tuple, list)) else (dims,)
        if len(shifts) != len(places) or len(shifts) == 0:
            raise RuntimeError(f"roll: {len(shifts)} shifts for {0 if dims is None else len(places)} dimensions")
        for shift, dim in zip(shifts, places):
            input = roll(input, shift, dim)
        return input
    if isinstance(dims, (tuple, list)):
        return roll(input, (shifts,), dims)
    if dims is None:
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    size = input.shape[_dim(input, dims)]
    at = size - shifts % size if size > 0 else 0
    return _rt.cat([_part(input, dims, at, size), _part(input, dims, 0, at)], dims)


def tril(input, diagonal=0):
    """A matrix with zeros above a diagonal."""
    return _rt.where(_beyond_diagonal(input) <= diagonal, input, False)


def triu(input, diagonal=0):
    """A matrix with zeros below a diagonal."""
    return _rt.where(_beyond_diagonal(input) >= diagonal, input, False)


def _beyond_diagonal(input):
    if input.dim() < 2:
        raise RuntimeError(f"tril, triu: a matrix is wanted, not a tensor of {input.dim()} dimensions")
    return _rt.arange(input.shape[-1]) - _rt.arange(input.shape[-2]).unsqueeze(1)


def diag(input):
    """The diagonal of a matrix, or a matrix with this diagonal."""
    if input.dim() == 1:
        return _rt.where(_rt.eye(input.shape[0], dtype=_rt.bool), input, False)
    if input.dim() != 2:
        raise RuntimeError(f"diag: a vector or a matrix is wanted, not a tensor of {input.dim()} dimensions")
    rows, columns = input.shape
    at = _rt.arange(rows if rows < columns else columns)
    return input[at, at]


def movedim(input, source, destination):
    """A view with a dimension in another place."""
    source, destination = _dim(input, source), _dim(input, destination)
    order = [dim for dim in range(input.dim()) if dim != source]
    order.insert(destination, source)
    return input.permute(order)


def hstack(tensors):
    """Joined side by side: along the second dimension, of vectors the first."""
    tensors = list(tensors)
    return _rt.cat(tensors, 0 if tensors[0].dim() == 1 else 1)


def vstack(tensors):
    """Joined one below the other; vectors are rows."""
    return _rt.cat([each.unsqueeze(0) if each.dim() == 1 else each for each in tensors], 0)


def bmm(input, mat2):
    """The products of the matrices of two batches."""
    if input.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError(f"bmm: two batches of matrices are wanted, not tensors of {input.dim()} and {mat2.dim()} dimensions")
    return input @ mat2


def count_nonzero(input, dim=None):
    """How many elements are not zero."""
    return (input != 0).sum(dim)


def logical_xor(input, other):
    """Where one of two is nonzero and the other is not."""
    return (input != 0) != (other != 0)


# ---- Like a tensor


def view_as(self, other):
    """A view in the sizes of other."""
    return self.view(other.shape)


def expand_as(self, other):
    """A view that repeats dimensions of size 1, in the sizes of other."""
    return self.expand(other.shape)


def new_zeros(self, *size, dtype=None, device=None):
    """Zeros of its dtype."""
    return _rt.zeros(*size, dtype=self.dtype if dtype is None else dtype, device=device)


def new_ones(self, *size, dtype=None, device=None):
    """Ones of its dtype."""
    return _rt.ones(*size, dtype=self.dtype if dtype is None else dtype, device=device)


def new_full(self, size, fill_value, *, dtype=None, device=None):
    """One value everywhere, of its dtype."""
    return _rt.full(size, fill_value, dtype=self.dtype if dtype is None else dtype, device=device)


def new_tensor(self, data, *, dtype=None, device=None):
    """The data as a tensor of its dtype."""
    return _rt.tensor(data, self.dtype if dtype is None else dtype, device)


def get_default_dtype():
    """float32."""
    return _rt.float32


# What tensors have as methods too, by the same names.
for _function in (allclose, bmm, chunk, clamp, clamp_, clip, count_nonzero, cross, diag, diff, dot, equal, erf, expand_as, flip, index_select, isclose, isfinite,
                  isinf, isnan, log_softmax, logical_xor, masked_fill, masked_select, max, min, mm, movedim, nan_to_num, narrow, new_full,
                  new_ones, new_tensor, new_zeros, norm, outer, prod, reciprocal, repeat, roll, rsqrt, select, sigmoid, sign, softmax, sort,
                  split, square, std, topk, tril, triu, unbind, var, view_as):
    _rt._add_method(_function.__name__, _function)
_rt._add_method("new_empty", new_zeros)
_rt._add_method("clip_", clamp_)
