"""kt.linalg: lengths and products of vectors."""
import math

from .functions import cross as _cross
from .functions import norm as _norm

__all__ = ["cross", "norm", "vector_norm"]


def cross(input, other, *, dim=-1):
    """The vector product along a dimension of size 3."""
    return _cross(input, other, dim)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum of |x|^ord)^(1/ord) over all elements or along dimensions; see kt.norm."""
    return _norm(x if dtype is None else x.to(dtype), ord, dim, keepdim)


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """The length of all elements together; with `ord`, of vectors along a dimension or of matrices along two ("fro", 1, -1, inf, -inf)."""
    A = A if dtype is None else A.to(dtype)
    if ord is None:
        return _norm(A, 2, dim, keepdim)
    if dim is None and A.dim() == 2:
        dim = (0, 1)
    if not isinstance(dim, (tuple, list)) or len(dim) == 1:
        return _norm(A, ord, dim, keepdim)
    if ord == "fro":
        return _norm(A, 2, dim, keepdim)
    if ord not in (1, -1, math.inf, -math.inf):
        raise NotImplementedError(f"linalg.norm: matrices have no norm {ord!r} here, which needs singular values")
    rows, columns = dim
    sums = _norm(A, 1, rows if ord in (1, -1) else columns, keepdim=True)
    return sums.amax(dim, keepdim) if ord > 0 else sums.amin(dim, keepdim)
