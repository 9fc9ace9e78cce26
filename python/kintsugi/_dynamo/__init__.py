"""kt._dynamo: what the tracer offers to its users: breaks on demand, explanations, settings, counters."""
from .._runtime import _driver
from ..compiler import disable
from . import config, exc, testing, utils

graph_break = _driver.graph_break
reset = _driver.reset

__all__ = ["config", "disable", "exc", "explain", "graph_break", "is_dynamo_disable_recursive", "reset", "testing", "utils"]


def explain(f, *args, **kwargs):
    """explain(f)(*args) runs `f` once and tells what was compiled: graphs, breaks, guards, times.

    >>> print(kt._dynamo.explain(step)(x, v))
    """
    from .explanation import explain as run
    return run(f, *args, **kwargs)


def is_dynamo_disable_recursive(f):
    """True or False for a function wrapped by disable, None for any other."""
    facts = _driver.disabled_facts(f)
    return None if facts is None else facts[1]
