"""kt.compile: which Python function is behind a callable, and the wrapper around it."""
import functools
import os
import sys
import types
import warnings

from ._runtime import _driver

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None, disable=False,
            recompile_limit=None, isolate_recompiles=False):
    """Returns a callable that does what `model` does, compiled as it runs.

    model               a function, method, partial, callable object or class; omitted: a decorator is returned
    fullgraph           True: the first place that cannot be compiled raises kt._dynamo.exc.Unsupported
    dynamic             None: sizes and numbers are constants until they change; True: inputs from the start; False: constants
    backend             a name or callable that gets each graph (see kt._dynamo.backends); None: the default one
    mode, options       for the backend; the default one knows the modes' names and has no options. Not both
    name                for records only
    disable             True: `model` comes back as it is
    recompile_limit     variants of this wrapper's entries, instead of kt._dynamo.config.recompile_limit
    isolate_recompiles  True: what this wrapper compiles is its own

    What is given wrongly is refused here: AssertionError for what cannot be called, TypeError for `dynamic`, ValueError for
    `recompile_limit`, InvalidBackend, RuntimeError for `mode`. Arguments, results and exceptions of the calls are `model`'s.

    >>> @kt.compile
    ... def step(x, v): return x + 0.1 * v
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be given, not both")
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic must be None, True or False, not {dynamic!r}")
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name, disable=disable,
            recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles)
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit is a positive int, not {recompile_limit!r}")
    from ._dynamo import backends, config
    found = backends.lookup_backend(backend)
    if mode is not None and found is None and mode not in _MODES:
        raise RuntimeError(f"the default backend has no mode {mode!r}; there are {', '.join(_MODES)}")
    if (mode is not None or options) and found is not None:
        warnings.warn(f"backend {backends.name_of(found)!r} takes no mode or options; they have no effect", stacklevel=2)
    if config.fail_on_recompile_limit_hit and config.suppress_errors:
        raise AssertionError("config.fail_on_recompile_limit_hit goes with suppress_errors=False only")
    require_callable(model, "kt.compile")
    if disable or os.environ.get("TORCHDYNAMO_DISABLE", "0") not in ("", "0"):
        return model
    settings = (bool(fullgraph), -1 if dynamic is None else int(dynamic), found, bool(isolate_recompiles), recompile_limit or 0)
    return _wrap(model, settings)


def require_callable(model, name):
    if not (callable(model) or isinstance(model, (staticmethod, classmethod))):
        raise AssertionError(f"{name} takes a callable, not {type(model).__name__!r}: {model!r}")


def compile_again(function, fullgraph, dynamic, backend):
    """What a pickle of a compiled function calls."""
    return _driver.make_compiled(function, fullgraph, dynamic, backend)


def stripped(function):
    """The function below wrappers of ours. Only the object's own type decides, not attributes that functools.wraps copies."""
    while (inside := _driver.stands_for(function)) is not None:
        function = inside
    if type(function) is types.MethodType and (inside := stripped(function.__func__)) is not function.__func__:
        return types.MethodType(inside, function.__self__)
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
    if isinstance(model, module_class()):
        from .nn.optimized import OptimizedModule
        while isinstance(model, OptimizedModule):
            model = model._orig_mod
        return OptimizedModule(model, _wrap(copy_of(type(model).__call__), settings))
    call = type(model).__dict__.get("__call__")
    if isinstance(call, types.FunctionType) and not _driver.marks(model):
        return types.MethodType(_wrap(call, settings), model)
    return _driver.make_compiled(_thin(model), *settings)


def module_class():
    """kt.nn.Module; a class of nothing as long as kt.nn is not loaded."""
    return getattr(sys.modules.get("kintsugi.nn.module"), "Module", ())


def copy_of(function):
    """The same function with entries of its own: what one module compiles is no variant of another's."""
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
                              function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    for name in ("__module__", "__qualname__", "__doc__"):
        setattr(copy, name, getattr(function, name))
    return copy


def _thin(model):
    """A Python frame around something that has none of its own."""
    def call(*args, **kwargs):
        return model(*args, **kwargs)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(model, name, None)
        if isinstance(value, str):
            setattr(call, name, value)
    return call
