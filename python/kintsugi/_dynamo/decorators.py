"""What programs say of their functions and regions: breaks as errors, marks of callables, marks of tensors."""
import functools

from .._runtime import _driver

_set = _driver.set_error_on_graph_break


class error_on_graph_break:
    """`with error_on_graph_break(True):` makes breaks inside errors, False lets them be; also a decorator.

    The innermost one decides, in callees of any depth too. fullgraph=True outranks it.
    """

    def __init__(self, error_on_graph_break):
        self._value = error_on_graph_break
        self._before = []

    def __enter__(self):
        self._before.append(_set(self._value))

    def __exit__(self, kind, error, traceback):
        _set(self._before.pop())

    def __call__(self, fn):
        if not callable(fn):
            raise TypeError(f"error_on_graph_break decorates callables, not {fn!r}")
        value = self._value

        def inner(*args, **kwargs):
            before = _set(value)
            try:
                return fn(*args, **kwargs)
            finally:
                _set(before)

        return named_like(inner, fn)


def named_like(inner, fn):
    """As functools.wraps, for callables without names too."""
    return functools.wraps(fn)(inner)


def _each(fn, one):
    if isinstance(fn, (list, tuple)):
        return [_each(each, one) for each in fn]
    if not callable(fn):
        raise AssertionError(f"a callable is wanted, or a list of them, not {fn!r}")
    one(fn)
    return fn


def allow_in_graph(fn):
    """Calls of `fn` become one node of the graph; it is not looked into. A list or tuple gives a list.

    It takes tensors, numbers, text, None and containers of them, and answers tensors, floats, and tuples or lists of them; while
    compiling it is called once with tensors of ones. A later answer of another layout is a RuntimeError.
    """
    return _each(fn, lambda each: _driver.mark(each, "not_disallowed" if _driver.is_operator(each) else "allowed"))


def disallow_in_graph(fn):
    """Each call of `fn`, which would be a node of a graph, is a break. Taken back by allow_in_graph."""
    def one(each):
        if not _driver.is_operator(each) and "allowed" not in _driver.marks(each) and "disallowed" not in _driver.marks(each):
            raise RuntimeError(f"disallow_in_graph takes an allowed callable, one that tracing would write into the graph (or that "
                               f"allow_in_graph was given before); {getattr(each, '__qualname__', each)!r} is none: use "
                               "kt.compiler.disable")
        _driver.mark(each, "disallowed")

    return _each(fn, one)


def forbid_in_graph(fn):
    """Meeting `fn` while tracing is an AssertionError."""
    def one(each):
        each._dynamo_forbidden = True  # a callable that takes no attributes is refused
        _driver.mark(each, "forbidden")

    return _each(fn, one)


def nonstrict_trace(fn):
    """A new function whose calls are one node of the graph, whatever `fn` does. As allow_in_graph, but numbers among arguments and
    answers are constants, and answers may be dicts, ints, bools and text too."""
    if not callable(fn):
        raise AssertionError(f"nonstrict_trace takes a callable, not {fn!r}")

    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    inner = named_like(inner, fn)
    _driver.mark(inner, "nonstrict")
    return inner


def assume_constant_result(fn):
    """`fn` is called once while tracing; what it answered is a constant from then on, and no guard looks again."""
    _driver.mark(fn, "constant_result")
    return fn


_substitutes = {}


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Decorator: the Python function below is traced wherever the C function `original_fn` is called.

    TypeError unless the former is a Python function, the latter none, and their signatures agree (where the latter has one, and
    skip_signature_check is off); ValueError for a second stand-in.
    """
    import inspect
    if not callable(original_fn) or inspect.isfunction(original_fn):
        raise TypeError(f"substitute_in_graph stands in for functions written in C, not for {original_fn!r}")

    def register(traceable):
        if not inspect.isfunction(traceable):
            raise TypeError(f"the stand-in must be a Python function, not {traceable!r}")
        if not skip_signature_check:
            try:
                wanted = inspect.signature(original_fn)
            except ValueError:
                wanted = None
            if wanted is not None and _shape(wanted) != _shape(inspect.signature(traceable)):
                raise TypeError(f"signature mismatch: {original_fn!r} takes {wanted}, its stand-in "
                                f"{inspect.signature(traceable)}")
        if id(original_fn) in _substitutes:
            raise ValueError(f"{original_fn!r} has a stand-in already")
        _substitutes[id(original_fn)] = original_fn, traceable

        def plain(*args, **kwargs):
            return original_fn(*args, **kwargs)

        _driver.mark(original_fn, "substituted", traceable)
        return named_like(plain, traceable)

    return register


def _shape(signature):
    return [(each.kind, each.name if each.kind is not each.POSITIONAL_ONLY else "", each.default is not each.empty)
            for each in signature.parameters.values()]


# ---- Marks of tensors ------------------------------------------------------------------------------------------------------------


def _bits(tensor, index, function):
    rank = tensor.dim()
    indices = index if isinstance(index, (list, tuple)) else (range(rank) if index is None else (index,))
    bits = 0
    for each in indices:
        if type(each) is not int or not -rank <= each < rank:
            raise IndexError(f"{function}: a tensor of {rank} dimensions has no dimension {each!r}")
        bits |= 1 << each % rank
    return bits


def mark_dynamic(t, index, *, min=None, max=None, hint_override=None):
    """The size of this dimension (or of each in a list) is an input from the first compile on, also under dynamic=False.

    min, max: what the size must lie between now, or ConstraintViolationError. IndexError for a dimension that `t` has not.
    """
    bits = _bits(t, index, "mark_dynamic")
    for dim in range(t.dim()):
        size = t.shape[dim]
        if bits >> dim & 1 and (min is not None and size < min or max is not None and size > max):
            from .exc import ConstraintViolationError
            raise ConstraintViolationError(f"dimension {dim} is {size}, outside of the bounds {min} to {max} that mark_dynamic was "
                                           "given")
    _driver.mark_sizes(t, bits, 0)


def maybe_mark_dynamic(t, index):
    """As mark_dynamic."""
    _driver.mark_sizes(t, _bits(t, index, "maybe_mark_dynamic"), 0)


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None):
    """As mark_dynamic. Reading the size is no error here: nothing is compiled for one size."""
    _driver.mark_sizes(t, _bits(t, index, "mark_unbacked"), 0)


def mark_static(t, index=None):
    """The size of this dimension is a constant, also under dynamic=True. None: of each dimension."""
    _driver.mark_sizes(t, 0, _bits(t, index, "mark_static"))


for _each_function in (mark_dynamic, maybe_mark_dynamic, mark_unbacked):
    _driver.mark(_each_function, "forbidden")
_driver.mark(mark_static, "without_effect")

for _each_function in (allow_in_graph, disallow_in_graph, forbid_in_graph, assume_constant_result, substitute_in_graph):
    _driver.mark(_each_function, "marks_called")
_driver.mark(nonstrict_trace, "makes_nonstrict")
del _each_function
