"""kt.compile: which Python function is behind a callable, and the wrapper around it."""
import functools
import types

from ._runtime import _driver


def compile(model=None, *, fullgraph=False, dynamic=None):
    """Returns a callable that does what `model` does, compiled as it runs.

    model      a function, method, partial, callable object or class; omitted: a decorator is returned
    fullgraph  True: the first place that cannot be compiled raises kt._dynamo.exc.Unsupported
    dynamic    None: sizes and numbers are constants until they change; True: inputs from the start; False: always constants

    >>> @kt.compile
    ... def step(x, v): return x + 0.1 * v
    """
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic must be None, True or False, not {dynamic!r}")
    settings = (bool(fullgraph), -1 if dynamic is None else int(dynamic))
    if model is None:
        return lambda function: _wrap(function, settings)
    return _wrap(model, settings)


def compile_again(function, fullgraph, dynamic):
    """What a pickle of a compiled function calls."""
    return _driver.make_compiled(function, fullgraph, dynamic)


def stripped(function):
    """The function below wrappers of ours. Only the object's own type decides, not attributes that functools.wraps copies."""
    while True:
        if type(function) is _driver.CompiledFunction:
            function = function.__wrapped__
        elif type(function) is _driver.DisabledFunction:
            function = function.__wrapped__
        else:
            return function


def _wrap(model, settings):
    model = stripped(model)
    if isinstance(model, types.FunctionType):
        return _driver.make_compiled(model, *settings)
    if isinstance(model, types.MethodType):
        return types.MethodType(_wrap(model.__func__, settings), model.__self__)
    if isinstance(model, functools.partial):
        return functools.partial(_wrap(model.func, settings), *model.args, **model.keywords)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(_wrap(model.__func__, settings))
    if isinstance(model, type):
        call = model.__dict__.get("__call__")
        if call is not None:
            model.__call__ = _wrap(call, settings)
        return model
    if not callable(model):
        raise TypeError(f"kt.compile takes a callable, not {type(model).__name__!r}: {model!r}")
    call = type(model).__dict__.get("__call__")
    if isinstance(call, types.FunctionType):
        return types.MethodType(_wrap(call, settings), model)
    return _driver.make_compiled(_thin(model), *settings)


def _thin(model):
    """A Python frame around something that has none of its own."""
    def call(*args, **kwargs):
        return model(*args, **kwargs)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(model, name, None)
        if isinstance(value, str):
            setattr(call, name, value)
    return call
