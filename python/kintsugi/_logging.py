"""kt._logging: which records the runtime writes to stderr."""
from ._runtime import _driver

_KINDS = ("graph_breaks", "recompiles", "guards", "graph", "plan", "asm")
_on = set()


def set_logs(**settings):
    """set_logs(graph_breaks=True, guards=False): switches kinds of records on and off; the others stay as they are."""
    for name, value in settings.items():
        if name not in _KINDS:
            raise ValueError(f"no record is called {name!r}; there are {', '.join(_KINDS)}")
        (_on.add if value else _on.discard)(name)
    _driver.set_logs(",".join(sorted(_on)))
