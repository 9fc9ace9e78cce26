"""Kintsugi: compiles Python functions over small arrays as they run, and mends the places where it cannot."""
import os

from kintsugi import _runtime

# All public names of the extension: the functions and types of tensors, and the dtypes.
__all__ = [name for name in vars(_runtime) if not name.startswith('_')]
globals().update({name: getattr(_runtime, name) for name in __all__})
if hasattr(_runtime, '_driver'):
    from kintsugi import _dynamo, _higher_order_ops, compiler
    from kintsugi._compile import compile
    from kintsugi._higher_order_ops import cond
    if os.environ.get('TORCH_LOGS'):
        from kintsugi import _logging  # noqa: F401
    __all__ += ['compile', 'compiler', 'cond', 'library', 'ops']


# What few programs need is imported when it is first asked for: name -> its module.
_LATER = {'_logging': '_logging', 'library': 'library', 'ops': 'library'}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'kintsugi' has no attribute {name!r}", name=name, obj=_runtime)
    import importlib
    module = importlib.import_module(f'kintsugi.{_LATER[name]}')
    value = globals()[name] = module if name == _LATER[name] else getattr(module, name)
    return value
