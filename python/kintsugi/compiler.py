"""kt.compiler: what governs compilation."""
import types

from ._runtime import _driver
from ._compile import compile, stripped  # noqa: F401

reset = _driver.reset


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
            if isinstance(function.__dict__.get(name), types.FunctionType):
                setattr(function, name, disable(function.__dict__[name], recursive, reason=reason))
        return function
    if not callable(function):
        raise TypeError(f"kt.compiler.disable takes a callable, not {type(function).__name__!r}: {function!r}")
    if recursive or not isinstance(function, types.FunctionType):
        return _driver.make_disabled(function, True, reason)
    # The frame of a copy is marked, so that the original called by its own name is still compiled.
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
                              function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(copy, name, getattr(function, name))
    _driver.skip_code(copy.__code__)
    wrapper = _driver.make_disabled(copy, False, reason)
    wrapper.__wrapped__ = function
    return wrapper
