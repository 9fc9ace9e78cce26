"""Operators that take functions, and print as an operation of a graph."""
import builtins

from . import _runtime
from ._opaque import parts_of
from ._runtime import _driver


def print(format_str, *args, **kwargs):
    """Prints format_str.format(*args, **kwargs) at its place in the graph, without a break."""
    if not isinstance(format_str, str):
        raise AssertionError(f"the first argument is a format string, not {format_str!r}")
    builtins.print(format_str.format(*args, **kwargs))


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands), by `pred`: a number of Python, or a tensor of one element.

    In compiled code a tensor's choice is made at run time: `pred` has dtype bool there, both branches are compiled completely, have
    no effects, and answer tensors of the same layouts in the same containers; otherwise UncapturedHigherOrderOpError.
    operands: a tuple or list of tensors, numbers and containers of them (kt.utils._pytree). RuntimeError where an argument is something else.

    >>> kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    """
    if not isinstance(pred, (bool, int, float, _runtime.Tensor)):
        raise RuntimeError(f"kt.cond takes a bool, a number or a tensor of one element as predicate, not {pred!r}")
    if type(pred) is _runtime.Tensor and pred.numel() != 1:
        raise RuntimeError(f"kt.cond takes a tensor of one element as predicate, not one of {pred.numel()}")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("kt.cond takes two callables as branches")
    if not isinstance(operands, (tuple, list)) or not _are_operands(operands):
        raise RuntimeError("kt.cond takes a tuple or list of tensors, or of containers of tensors, as operands")
    return (true_fn if pred else false_fn)(*operands)


def _are_operands(operands):
    seen, waiting = {}, [operands]  # a container may hold itself
    while waiting:
        value = waiting.pop()
        if value is None or isinstance(value, (_runtime.Tensor, bool, int, float)) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (tuple, list)):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif (parts := parts_of(value)) is not None:
            waiting.extend(parts[0])
        else:
            return False
    return True


_driver.mark(print, "printed")
_driver.mark(cond, "cond")
