"""kt.compiler: what governs compilation."""
import types

from ._runtime import _driver
from ._compile import compile, module_class, stripped  # noqa: F401
from ._dynamo.decorators import allow_in_graph, assume_constant_result, nonstrict_trace, substitute_in_graph  # noqa: F401
from ._stance import set_stance  # noqa: F401

reset = _driver.reset


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of the backends that kt.compile takes."""
    from ._dynamo import backends
    return backends.list_backends(exclude_tags)


def set_default_backend(backend):
    """The backend of kt.compile where none is given. None: the built-in one."""
    from ._dynamo import backends
    backends.set_default_backend(backend)


def get_default_backend():
    """What set_default_backend was given, or "kintsugi"."""
    from ._dynamo import backends
    return backends.get_default_backend()


is_compiling = _driver.is_compiling
is_dynamo_compiling = _driver.is_dynamo_compiling
is_exporting = _driver.is_exporting


def disable(fn=None, recursive=True, *, reason=None):
    """Returns a callable that runs `fn` as plain Python, wherever it is called from.

    recursive  True: nothing below the call is compiled either, except through kt.compile of its own;
               False: only the function's own frame runs plain, what it calls is compiled as usual
    reason     told in the record of the break

    >>> @kt.compiler.disable
    ... def log(x): print(x.tolist())
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"reason must be a string, not {reason!r}")
    function = stripped(fn)
    if isinstance(function, types.MethodType):
        return types.MethodType(disable(function.__func__, recursive, reason=reason), function.__self__)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(disable(function.__func__, recursive, reason=reason))
    if isinstance(function, type):
        for name in ("__init__", "__call__"):
            if name in function.__dict__ or issubclass(function, module_class()):  # a module's call leads to its forward()
                setattr(function, name, disable(getattr(function, name), recursive, reason=reason))
        return function
    if isinstance(function, module_class()):
        from .nn.optimized import OptimizedModule
        return OptimizedModule(function, disable(type(function).__call__, recursive, reason=reason))
    if not callable(function):
        raise TypeError(f"kt.compiler.disable takes a callable, not {type(function).__name__!r}: {function!r}")
    if recursive or not isinstance(function, types.FunctionType):
        return _marked_like(_driver.make_disabled(function, True, reason), function)
    # The frame of a copy is marked, so that the original called by its own name is still compiled.
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
                              function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    _driver.skip_code(copy.__code__)
    return _marked_like(_driver.make_disabled(copy, False, reason, function), function)


def _marked_like(wrapper, function):
    if "forbidden" in _driver.marks(function):
        _driver.mark(wrapper, "forbidden")
    return wrapper


_driver.mark(disable, "disable_called")
