"""Backends: who compiles a graph. A backend is f(graph_module, example_inputs) -> callable; None stands for the default one."""
from .exc import InvalidBackend

_backends = {}  # name -> (backend, or None for the default one; tags)
_default = None
_WHERE = "kt._dynamo.list_backends() tells the names"


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a backend a name, that of the function by default. A function, a decorator, or a decorator with arguments.

    A name that is taken is an AssertionError. Backends with a tag may be left out by list_backends.
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    if not callable(compiler_fn):
        raise AssertionError(f"a backend is a callable, not {compiler_fn!r}")
    name = name or compiler_fn.__name__
    if name in _backends:
        raise AssertionError(f"duplicate name: {name}")
    _backends[name] = compiler_fn, tuple(tags)
    return compiler_fn


def list_backends(exclude_tags=("debug", "experimental")):
    """The names, sorted, but for backends with one of these tags."""
    _load_entry_points()
    excluded = set(exclude_tags or ())
    return sorted(name for name, (_, tags) in _backends.items() if not excluded & set(tags))


def lookup_backend(backend):
    """The callable behind a name; a callable as it is; None for the built-in backend. InvalidBackend for anything else."""
    if backend is None:
        return _default
    if isinstance(backend, str):
        if backend not in _backends:
            _load_entry_points()
        if backend not in _backends:
            import difflib
            close = difflib.get_close_matches(backend, _backends, n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InvalidBackend(f"Invalid backend: {backend!r}.{hint} {_WHERE}")
        return _backends[backend][0]
    if not callable(backend):
        raise InvalidBackend(f"Invalid backend: {backend!r}. A backend is a name or a callable; {_WHERE}")
    return backend


def set_default_backend(backend):
    """The backend of kt.compile where none is given. None: the built-in one."""
    global _default
    _default = None if backend is None else lookup_backend(backend)


def get_default_backend():
    """What set_default_backend was given, or "kintsugi"."""
    return "kintsugi" if _default is None else _default


def name_of(backend):
    """The name that it is registered under, else its own."""
    for name, (each, _) in _backends.items():
        if each is backend:
            return name
    return getattr(backend, "__name__", None) or type(backend).__name__


_loaded = False


def _load_entry_points():
    global _loaded
    if _loaded:
        return
    _loaded = True
    import importlib.metadata
    for point in importlib.metadata.entry_points(group="kintsugi_dynamo_backends"):
        if point.name not in _backends:
            register_backend(point.load(), point.name)


def eager(graph_module, example_inputs):
    """Runs the graph as it was recorded, one operation after the other."""
    writer = graph_module._written()
    names = dict(writer.names)
    exec(compile(writer.source, "<kintsugi eager graph>", "exec"), names)
    return names["forward"]


def aot_eager(graph_module, example_inputs):
    """As eager."""
    return eager(graph_module, example_inputs)


_backends["kintsugi"] = None, ()
register_backend(eager)
register_backend(aot_eager, tags=("debug",))
