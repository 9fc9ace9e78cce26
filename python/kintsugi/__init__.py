"""Kintsugi: compiles Python functions over small arrays as they run, and mends the places where it cannot."""
import os

from kintsugi import _runtime

__version__ = "0.1.0"
# All public names of the extension: the functions and types of tensors, and the dtypes.
__all__ = [name for name in vars(_runtime) if not name.startswith('_')]
globals().update({name: getattr(_runtime, name) for name in __all__})
_ON_USE = {'_logging': (), 'export': ()}  # what is loaded when it is named first: module -> names of ours that it defines
if hasattr(_runtime, '_driver'):
    from kintsugi import _dynamo, compiler
    from kintsugi.activations import log_softmax, sigmoid, softmax
    from kintsugi._compile import compile
    from kintsugi._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
    from kintsugi.elementary import acos, asin, atan, deg2rad, expm1, hypot, lerp, log1p, rad2deg, tan
    from kintsugi.functions import (allclose, bmm, chunk, clamp, clip, count_nonzero, cross, diag, diff, dot, empty, empty_like, equal, erf, flip, get_default_dtype,
                                    hstack, index_select, is_floating_point, isclose, isfinite, isinf, isnan, linspace, logical_xor, masked_fill,
                                    masked_select, max, min, mm, movedim, nan_to_num, narrow, norm, numel, outer, prod, rand_like, randn_like,
                                    reciprocal, roll, rsqrt, select, sign, sort, split, square, std, topk, tril, triu, unbind, var, vstack)
    if os.environ.get('TORCH_LOGS'):
        from kintsugi import _logging  # noqa: F401
    _ON_USE |= {'_einsum': ('einsum',), '_higher_order_ops': ('cond',), 'cuda': (), 'fx': (), 'library': ('ops',), 'linalg': (), 'nn': (), 'utils': ()}
    __all__ += ['acos', 'allclose', 'asin', 'atan', 'bmm', 'chunk', 'clamp', 'clip', 'compile', 'compiler', 'cond', 'count_nonzero',
                'cross', 'cuda', 'deg2rad', 'diag', 'diff', 'dot', 'einsum',
                'empty', 'empty_like', 'enable_grad', 'equal', 'erf', 'expm1', 'flip', 'fx', 'get_default_dtype', 'hstack', 'hypot',
                'index_select', 'inference_mode', 'is_floating_point', 'isclose', 'isfinite', 'isinf', 'isnan', 'lerp', 'library',
                'linalg', 'linspace', 'log1p', 'log_softmax', 'logical_xor', 'masked_fill', 'masked_select', 'max', 'min', 'mm', 'movedim',
                'nan_to_num', 'narrow', 'nn', 'no_grad', 'norm', 'numel', 'ops', 'outer', 'prod', 'rad2deg', 'rand_like', 'randn_like',
                'reciprocal', 'roll', 'rsqrt', 'select', 'set_grad_enabled', 'sigmoid', 'sign', 'softmax', 'sort', 'split',
                'square', 'std', 'tan', 'topk', 'tril', 'triu', 'unbind', 'utils', 'var', 'vstack']


def __getattr__(name):  # the tracer asks too: jit/imports.cpp
    for module, names in _ON_USE.items():
        if name == module or name in names:
            import importlib
            loaded = importlib.import_module('kintsugi.' + module)
            return globals().setdefault(name, loaded if name == module else getattr(loaded, name))
    raise AttributeError(f"module 'kintsugi' has no attribute {name!r}", name=name)


def __dir__():
    return sorted({*globals(), *__all__, *_ON_USE})
