"""kt._dynamo: what the tracer offers to its users: breaks on demand, marks, explanations, settings, counters."""
from .._runtime import _driver
from . import decorators  # first: kt.compiler imports it
from ..compiler import (allow_in_graph, assume_constant_result, disable, is_compiling, nonstrict_trace, set_stance,  # noqa: F401
                        substitute_in_graph)
from . import backends, config, exc, testing, utils
from .backends import list_backends, lookup_backend, register_backend
from .config import disable_nested_graph_breaks, patch_dynamo_config
from .decorators import (disallow_in_graph, error_on_graph_break, forbid_in_graph, mark_dynamic, mark_static, mark_unbacked,
                         maybe_mark_dynamic)

graph_break = _driver.graph_break
skip_frame = _driver.skip_frame
step_unsupported = _driver.step_unsupported
reset = _driver.reset

__all__ = ["allow_in_graph", "assume_constant_result", "backends", "config", "decorators", "disable",
           "disable_nested_graph_breaks", "disallow_in_graph", "error_on_graph_break", "exc", "explain", "forbid_in_graph",
           "graph_break", "is_compiling", "is_dynamo_disable_recursive", "list_backends", "lookup_backend", "mark_dynamic",
           "mark_static", "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "patch_dynamo_config", "register_backend",
           "reset", "run", "set_stance", "skip_frame", "step_unsupported", "substitute_in_graph", "testing", "utils"]


def explain(f, *args, **kwargs):
    """explain(f)(*args) runs `f` once and tells what was compiled: graphs, breaks, guards, times.

    >>> print(kt._dynamo.explain(step)(x, v))
    """
    from .explanation import explain as run
    return run(f, *args, **kwargs)


def run(fn=None):
    """A version of a compiled function that compiles nothing more: what fits runs, anything else runs plain. Also a decorator."""
    if fn is None:
        return run
    return set_stance.only("eager_on_recompile", fn)


def is_dynamo_disable_recursive(f):
    """True or False for a function wrapped by disable, None for any other."""
    facts = _driver.disabled_facts(f)
    return None if facts is None else facts[1]
