"""Calls that the tracer does not look into: what they answer for placeholder tensors, and the caller that a segment runs."""
import types
import weakref

from . import _runtime
from ._runtime import _driver

Tensor = _runtime.Tensor


class NoFakeRule(Exception):
    """What fails on placeholder tensors whatever the program says of breaks: a custom operator without a rule for them."""


class Forbidden(Exception):
    """A forbidden callable was met."""


class FakeContext:
    """While a rule for placeholder tensors is called: whether it asked for a size that depends on data."""
    current = None

    def __init__(self):
        self.asked = False

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that is known only when the operator has run: an example of it, between the bounds."""
        self.asked = True
        example = 3 if min is None or min < 3 else min
        return example if max is None or max > example else max

    new_unbacked_symint = new_dynamic_size

    def __enter__(self):
        self._before, FakeContext.current = FakeContext.current, self
        return self

    def __exit__(self, *error):
        FakeContext.current = self._before


class Unrepresentable(Exception):
    """An answer that has no form in a graph."""


class Uncaptured(Exception):
    """A branch of cond that cannot be captured completely."""


# `form` below, of an answer: tensors and floats that vary; a tree whose numbers are constants; a tree whose numbers vary.
FLAT, TREE, BRANCH = _driver.FLAT, _driver.TREE, _driver.BRANCH


def placeholder(sizes, dtype, gradients):
    """Stands for a tensor: ones of these sizes, the dtype by name, and the bits of Gradients."""
    return _runtime._set_gradients(_runtime.ones(sizes, dtype=getattr(_runtime, dtype)), gradients)


def _weakly(function):
    """A callable that answers the function. A segment lives as long as the function's code, so its closure must not live by it; the
    segment's step holds the function while it runs."""
    if type(function) is types.FunctionType or getattr(type(function), "_fake_rule", None) is not None:
        return weakref.ref(function)
    return lambda: function


class Caller:
    """Calls the function, and answers the tensors (and floats) of what it answers, which must be as the example says."""

    def __init__(self, function, names, example, form, dynamic):
        self.function, self.names, self.example = _weakly(function), names, example
        self.form, self.dynamic = form, dynamic
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *objects):
        leaves = []
        answer = call(self.function(), objects, self.names)
        self._compare(answer, self.example, leaves)
        if self.form != BRANCH and _repeats(answer):
            raise RuntimeError(f"{self.__name__} answers one object in two places; while it was compiled it did not")
        return tuple(leaves)

    def _compare(self, answer, example, leaves):
        if type(answer) is not type(example):
            self._refuse(answer, example)
        if type(example) is Tensor:
            if not _driver.same_layout(answer, example, self.dynamic):
                self._refuse(answer, example)
            leaves.append(answer)
        elif type(example) is float and self.form != TREE:
            leaves.append(answer)
        elif type(example) is int and self.form == BRANCH:
            if not _fits(answer):
                self._refuse(answer, example)
            leaves.append(answer)
        elif type(example) in (tuple, list):
            if len(answer) != len(example):
                self._refuse(answer, example)
            for each, like in zip(answer, example):
                self._compare(each, like, leaves)
        elif type(example) is dict:
            if not _same(list(answer), list(example)):
                self._refuse(answer, example)
            for key in example:
                self._compare(answer[key], example[key], leaves)
        elif (parts := parts_of(example)) is not None:
            children, context = parts
            own, its_context = parts_of(answer)
            if len(own) != len(children) or not _same(its_context, context):
                self._refuse(answer, example)
            for each, like in zip(own, children):
                self._compare(each, like, leaves)
        elif not _same(answer, example):
            self._refuse(answer, example)

    def _refuse(self, answer, example):
        raise RuntimeError(f"{self.__name__} answers {describe(answer)}; while it was compiled, for placeholder tensors of the same "
                           f"sizes, it answered {describe(example)}. What is not looked into must always answer alike")


def describe(value):
    if type(value) is Tensor:
        return f"a tensor of {value.dtype} and sizes {tuple(value.shape)}"
    if type(value) in (tuple, list):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value)


_ATOMS = (int, float, bool, str, type(None))
_VALUES = (*_ATOMS, complex, bytes)


def _same(one, other, met=()):
    """As ==, but no code of the program runs: objects of its classes are alike when all they hold is."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or (id(one), id(other)) in met:
        return False
    if kind in _VALUES:
        return one == other
    met = (*met, (id(one), id(other)))
    if issubclass(kind, (tuple, list)):
        base = tuple if issubclass(kind, tuple) else list
        one, other = (base.__getitem__(each, slice(None)) for each in (one, other))
        return len(one) == len(other) and all(_same(*each, met) for each in zip(one, other))
    if issubclass(kind, dict):
        return _same(list(dict.items(one)), list(dict.items(other)), met)
    if kind in (set, frozenset):
        return all(type(each) in _VALUES for each in (*one, *other)) and one == other
    slots = [each for base in kind.__mro__ for each in vars(base).values() if type(each) is types.MemberDescriptorType]
    words = len(slots) + (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0)
    if not words or kind.__itemsize__ or kind.__basicsize__ > object.__basicsize__ + 8 * words:
        return False  # written in C: it holds what does not show
    return _same(*(_fields(each, slots, kind.__dictoffset__ != 0) for each in (one, other)), met)


def _fields(instance, slots, has_dict):
    fields = [object.__getattribute__(instance, "__dict__")] if has_dict else []
    for slot in slots:
        try:
            fields.append([slot.__get__(instance)])
        except AttributeError:
            fields.append([])
    return fields


def parts_of(value):
    """(children, context) of what kt.utils._pytree flattens beside tuples, lists and dicts; None for anything else."""
    if type(value) in _ATOMS or type(value) is Tensor:
        return None
    from .utils import _pytree
    node = _pytree._node_of(value)
    if node is None:
        return None
    children, context = node.flatten_fn(value)
    return list(children), context


class Part:
    """In a path: a child of an instance of a registered class, by number."""

    def __init__(self, at):
        self.at = at

    def __call__(self, answer):
        return parts_of(answer)[0][self.at]


class Flattened:
    """The function, called with the leaves of its arguments."""

    def __init__(self, function, objects, names):
        from .utils import _pytree
        self.function, self.names = _weakly(function), names
        self.spec = _pytree.tree_structure(list(objects))
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *leaves):
        from .utils import _pytree
        return call(self.function(), _pytree.tree_unflatten(leaves, self.spec), self.names)


def call(function, objects, names):
    """Calls it; the last objects go by `names`."""
    if not names:
        return function(*objects)
    count = len(objects) - len(names)
    return function(*objects[:count], **dict(zip(names, objects[count:])))


def _fits(number):
    return -1 << 63 <= number < 1 << 63


def _repeats(answer):
    """Whether a tensor, list, dict or the like is in two places: each place becomes an object of its own."""
    if type(answer) in _ATOMS or type(answer) is Tensor:
        return False
    seen, waiting, kept = set(), [answer], []
    while waiting:
        each = waiting.pop()
        if type(each) in _ATOMS:
            continue
        if type(each) in (tuple, list, dict):
            waiting.extend(each.values() if type(each) is dict else each)
        elif (parts := parts_of(each)) is not None:
            waiting.extend(parts[0])
            kept.append(parts)  # so that no two children have one address
            if not parts[0]:
                continue  # a constant may be anywhere
        if type(each) is not tuple:
            if id(each) in seen:
                return True
            seen.add(id(each))
    return False


def leaves_of(example, form, leaves, nodes, path=()):
    """Appends (path, leaf) of each tensor or number that varies, and (children, context, how to build it) of each instance of a
    registered class in order; Unrepresentable for what has no form in a graph."""
    if type(example) is int and form == BRANCH and not _fits(example):
        raise Unrepresentable("int of more than 64 bits")
    if (type(example) is Tensor or type(example) is float and form != TREE or
            type(example) is int and form == BRANCH):
        leaves.append((path, example))
    elif type(example) in (tuple, list):
        for at, each in enumerate(example):
            leaves_of(each, form, leaves, nodes, (*path, at))
    elif type(example) is dict and form != FLAT and all(type(key) is str for key in example):
        for key, each in example.items():
            leaves_of(each, form, leaves, nodes, (*path, key))
    elif example is None or form != FLAT and type(example) in (int, float, bool, str):
        pass
    elif form != FLAT and (parts := parts_of(example)) is not None:
        from .utils import _pytree
        node = _pytree._node_of(example)
        nodes.append((*parts, None if node.is_constant else node.unflatten_fn))
        for at, each in enumerate(parts[0]):
            leaves_of(each, form, leaves, nodes, (*path, Part(at)))
    else:
        raise Unrepresentable(type(example).__name__)


def trace_call(function, objects, names, form, dynamic, trees):
    """(caller, example of the answer, its tensors and floats, the paths to them, nodes as leaves_of tells, whether sizes of the
    answer depend on data, what is in the graph where `trees`: objects of registered classes, are among the arguments)."""
    fake = getattr(function, "_fake_rule", None)
    if fake is not None:
        fake = fake()
    with FakeContext() as context:
        example = call(fake or function, objects, names)
    leaves, nodes = [], []
    if _repeats(example):
        raise Unrepresentable("one object in two places")
    leaves_of(example, form, leaves, nodes)
    caller = Caller(function, names, example, form, bool(dynamic) or context.asked)
    return _told(caller, leaves, nodes, context.asked, Flattened(function, objects, names) if trees else None)


def _told(caller, leaves, nodes, asked, flattened):
    caller.nodes = nodes  # kept with it
    return caller, caller.example, tuple(leaf for _, leaf in leaves), tuple(path for path, _ in leaves), nodes, asked, flattened


# ---- cond ------------------------------------------------------------------------------------------------------------------------


def branch_of(function, in_export=False):
    """The compiled form of a branch: complete, and changing nothing outside."""
    from ._compile import _thin, stripped
    function = stripped(function)
    if not isinstance(function, types.FunctionType):
        function = _thin(function)
    return _driver.make_compiled(function, True, -1, None, _driver.EXPORTED_BRANCH if in_export else _driver.PURE)


def cond(pred, true_fn, false_fn, *operands):
    """What a segment calls, through a Caller, for kt.cond with a tensor as predicate."""
    return branch_of(true_fn if pred else false_fn)(*operands)


def exported_cond(pred, true_fn, false_fn, *operands):
    """Likewise in a graph that was exported."""
    return branch_of(true_fn if pred else false_fn, True)(*operands)


exported_cond = _driver.make_disabled(exported_cond, True, None)  # what runs the graph does not look into it


def trace_cond(function, shown, names, form, dynamic, trees):
    """As trace_call, for (pred, true_fn, false_fn, *operands)."""
    from ._dynamo.exc import TorchRuntimeError
    _, true_fn, false_fn, *operands = shown
    answers = []
    for name, branch in (("true_fn", true_fn), ("false_fn", false_fn)):
        try:
            answers.append(branch_of(branch, function is exported_cond)(*operands))
        except AssertionError as error:  # the program's own would be a break
            raise Forbidden(str(error)) from error
        except TorchRuntimeError as error:
            raise NoFakeRule(f"kt.cond: its {name} fails on placeholder tensors:\n{error}") from error
        except Exception as error:
            raise Uncaptured(f"kt.cond has to be captured completely, but its {name} is not:\n"
                             f"{type(error).__name__}: {error}") from error
    _alike(*answers, operands)
    leaves, nodes = [], []
    try:
        leaves_of(answers[0], form, leaves, nodes)
    except Unrepresentable as error:
        raise Uncaptured(f"kt.cond: unsupported branch return type: {error}") from error
    return _told(Caller(function, names, answers[0], form, bool(dynamic)), leaves, nodes, False,
                 Flattened(function, shown, names) if trees else None)


def _alike(yes, no, operands):
    """Uncaptured unless both branches answer alike, and no operand."""
    if (type(yes) is not type(no) or type(yes) in (tuple, list) and len(yes) != len(no) or
            type(yes) is dict and list(yes) != list(no)):
        raise Uncaptured(f"kt.cond: differing branch outputs: {describe(yes)} and {describe(no)}")
    if type(yes) is Tensor:
        if any(yes is each or no is each for each in operands):
            raise Uncaptured("kt.cond: Encountered aliasing during higher order op tracing: a branch returns its operand; return a "
                             "clone")
        if not _driver.same_layout(yes, no, False):
            raise Uncaptured(f"kt.cond: differing branch outputs: {describe(yes)} and {describe(no)}")
    elif type(yes) in (tuple, list):
        for one, other in zip(yes, no):
            _alike(one, other, operands)
    elif type(yes) is dict:
        for key in yes:
            _alike(yes[key], no[key], operands)
    elif (parts := parts_of(yes)) is not None:
        others = parts_of(no)
        if len(parts[0]) != len(others[0]) or not _same(parts[1], others[1]):
            raise Uncaptured(f"kt.cond: differing branch outputs: {describe(yes)} and {describe(no)}")
        for one, other in zip(parts[0], others[0]):
            _alike(one, other, operands)
    elif yes is not None and type(yes) is not int:
        raise Uncaptured(f"kt.cond: unsupported branch return type (constant non-int): {yes!r}")
