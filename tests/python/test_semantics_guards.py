"""Sections 18 to 20 of the behaviour: what each kind of value that was read is guarded by, what is not guarded, which numbers become
inputs, marks of sizes. Each case: a function, and calls of which the marked ones must compile again."""
import collections
import enum
import math

import pytest

import kintsugi as kt
from kintsugi._runtime import _driver
from semantics_rows import rows

dynamo, compiler = kt._dynamo, kt.compiler


@pytest.fixture(autouse=True)
def fresh(stress):
    if stress:
        pytest.skip("compiles more or less often")
    dynamo.reset()
    yield
    _driver.set_stance(0, None)
    _driver.set_error_on_graph_break(False)


def shown(value):
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    return value.tolist() if isinstance(value, kt.Tensor) else value


def checked(function, calls, **settings):
    """calls: (compiles, how to change the world or None, arguments). Right each time; the numbers of compiles are those told."""
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(function, backend=cnt, **settings)
    for at, (compiles, change, arguments) in enumerate(calls):
        if change is not None:
            change()
        before = cnt.frame_count
        assert shown(fast(*arguments)) == shown(function(*arguments)), at
        assert cnt.frame_count - before == compiles, f"call {at}: {cnt.frame_count - before} graphs, not {compiles}"


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Thing:
    gain = 2.0
    unread = 1

    def __init__(self, k=3.0):
        self.k, self.other = k, 0


class Sub(Thing):
    pass


def t(*sizes, **more):
    return kt.ones(*sizes, **more)


def new(change):
    return lambda: change()


x2 = t(2)
static = {"dynamic": False}
thing = Thing()
G_SCALE, G_LIST = 2.0, [1.0, 2.0]


def set_global(name, value):
    return lambda: globals().__setitem__(name, value)


def closure_of(value):
    def f(x):
        return x * value

    def change(new_value):
        nonlocal value
        value = new_value
    return f, change


def helper(x, k=2.0):
    return x * k


def other_helper(x, k=2.0):
    return x + k


def calls_helper(x, function):
    return function(x)


cell_f, cell_set = closure_of(2.0)
GUARDS = {
    "tensor": [(lambda x, y: x + y, [
        (1, None, (t(2), t(2))), (0, None, (t(2), t(2))), (1, None, (t(2).double(), t(2))), (1, None, (t(3), t(3))),
        (1, None, (t(2, 1), t(2))), (1, None, (t(4)[::2], t(2))), (0, None, (x2, x2)), (0, None, (t(2), t(2)))], static),
        (lambda x, unused: x + 1, [(1, None, (t(2), t(2))), (0, None, (t(2), t(3).double())), (0, None, (t(2), "text"))], {})],
    "numbers and atoms": [(lambda x, n: (x * 2, n == 1, n is Color.RED, n is ..., str(type(n))), [
        (1, None, (x2, n)) for n in (True, 1, 1.5, "a", "b", None, kt.float32)], static),
        (lambda x, n: (x * 2, n is Color.RED, n is ..., str(n)), [(1, None, (x2, n)) for n in (Color.RED, Color.BLUE, ...)], static),
        (lambda x, n: (x * 2, n is None, n == "a"), [(1, None, (x2, "a")), (0, None, (x2, "a")), (1, None, (x2, None))], static)],
    "list, tuple, deque, range": [
        (lambda x, l: x * len(l) + l[0], [(1, None, (x2, [1.0, 2.0])), (0, None, (x2, [1.0, 2.0])), (1, None, (x2, [1.0])),
                                          (1, None, (x2, (1.0, 2.0))), (1, None, (x2, collections.deque([1.0, 2.0]))),
                                          (1, None, (x2, range(1, 3)))], static),
        (lambda x, l: x * l[0], [(1, None, (x2, [1.0, 2.0])), (0, None, (x2, [1.0, 3.0])), (1, None, (x2, [2.0, 3.0]))], static)],
    "dict": [
        (lambda x, d: x * d["a"] + ("b" in d), [
            (1, None, (x2, {"a": 1.0})), (0, None, (x2, {"a": 1.0, "c": 1})), (1, None, (x2, {"a": 1.0, "b": 1})),
            (1, None, (x2, collections.OrderedDict(a=1.0)))], static),
        (lambda x, d: (x * 2, list(d)), [(1, None, (x2, {"a": 1, "b": 2})), (0, None, (x2, {"a": 3, "b": 4})),
                                         (1, None, (x2, {"b": 1, "a": 2}))], static),
        (lambda x, **more: (x * 2, list(more)), [(1, None, (x2,))], static)],
    "set": [(lambda x, s: x * 2 if 1 in s else x + 1, [(1, None, (x2, {1, 2})), (0, None, (x2, {1, 2})), (1, None, (x2, {2}))], static)],
    "object of a user class": [
        (lambda x, o: x * o.k * o.gain + hasattr(o, "absent"), [
            (1, None, (x2, Thing())), (0, None, (x2, Thing())), (1, None, (x2, Thing(4.0))), (1, None, (x2, Sub())),
            (0, lambda: setattr(thing, "other", 5), (x2, thing)), (1, lambda: setattr(thing, "absent", 5), (x2, thing)),
            (1, lambda: setattr(Thing, "gain", 3.0), (x2, Thing())), (1, lambda: setattr(Thing, "gain", 2.0), (x2, Thing()))], static)],
    "function called": [
        (calls_helper, [(1, None, (x2, helper)), (1, None, (x2, other_helper)), (0, None, (x2, helper)),
                        (1, lambda: setattr(helper, "__defaults__", (5.0,)), (x2, helper)),
                        (0, lambda: setattr(helper, "__defaults__", (2.0,)), (x2, helper))], static),
        (calls_helper, [(1, None, (x2, closure_of(2.0)[0])), (0, None, (x2, closure_of(2.0)[0])),
                        (1, None, (x2, closure_of(3.0)[0]))], static)],
    "global name": [
        (lambda x: x * G_SCALE, [(1, None, (x2,)), (0, set_global("G_SCALE", 2.0), (x2,)), (1, set_global("G_SCALE", 3.0), (x2,)),
                                 (0, set_global("G_SCALE", 2.0), (x2,))], static),
        (lambda x: x * G_LIST[0], [(1, None, (x2,)), (0, set_global("G_LIST", [1.0, 2.0]), (x2,))], static)],
    "closure cell": [(cell_f, [(1, None, (x2,)), (0, lambda: cell_set(2.0), (x2,)), (1, lambda: cell_set(3.0), (x2,)),
                               (0, lambda: cell_set(2.0), (x2,))], static)],
    "Python module": [(lambda x, m: x * m.tau, [
        (1, None, (x2, math)), (0, None, (x2, math)), (1, None, (x2, __import__("cmath")))], static)],
    "class used as value": [(lambda x, c: x * 2 if c is Thing else x + 1, [
        (1, None, (x2, Thing)), (0, None, (x2, Thing)), (1, None, (x2, Sub))], static)],
    "backend": [(lambda x: x + 1, [(1, None, (x2,)), (0, lambda: kt.compile(GUARDS["backend"][0][0], backend="eager")(x2), (x2,))], {})],
}


@rows("18 guards", GUARDS)
def test_guards(row):
    for function, calls, settings in GUARDS[row]:
        dynamo.reset()
        checked(function, calls, **settings)


@rows("18 guards", ["module object of the runtime", "interpreter-wide state"])
def test_state(row):
    if row == "interpreter-wide state":
        if not hasattr(kt, "set_grad_enabled"):
            pytest.skip("there is no grad mode yet")
        try:
            checked(lambda x: x + 1, [(1, None, (x2,)), (1, lambda: kt.set_grad_enabled(False), (x2,)),
                                      (0, lambda: kt.set_grad_enabled(True), (x2,))])
        finally:
            kt.set_grad_enabled(True)
        return
    module = linear()
    fast = kt.compile(lambda x, m: m(x) + m.training)
    for change in (None, module.eval, module.train, lambda: module.register_forward_hook(lambda m, given, out: out * 3),
                   lambda: setattr(module, "weight", kt.nn.Parameter(kt.ones(2, 2) * 5)), lambda: linear(module)):
        if change is not None:
            change()
        assert shown(fast(x2, module)) == shown(module(x2) + module.training)


def linear(module=None):
    if not hasattr(kt, "nn"):
        pytest.skip("there are no modules yet")
    module = module or kt.nn.Linear(2, 2)
    module.extra = getattr(module, "extra", 0) + 1
    return module


# ---- Not guarded ---------------------------------------------------------------------------------------------------


def reads(x, n=2):
    return x * n


note = lambda *a: None  # noqa: E731
allowed = compiler.allow_in_graph(lambda x: x + 1)
answers = [2.0]


@compiler.assume_constant_result
def constant():
    return answers[0]


def _len(things):
    return 99


def same_entry(function, change, undo=lambda: None, **settings):
    """Compiled; then what is not guarded changes, and the entry is used all the same."""
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(function, backend=cnt, **settings)
    first = shown(fast(x2))
    change()
    try:
        assert shown(fast(x2)) == first and cnt.frame_count == 1
    finally:
        undo()


def unguarded_config():
    same_entry(reads, lambda: setattr(dynamo.config, "specialize_int", True), lambda: setattr(dynamo.config, "specialize_int", False))


def unguarded_stance():
    for stance in ("eager_on_recompile", "fail_on_recompile"):
        dynamo.reset()
        same_entry(reads, lambda: compiler.set_stance(stance), lambda: compiler.set_stance("default"))


def breaks(x):
    y = x * 2
    dynamo.graph_break()
    return y


def unguarded_flag():
    same_entry(breaks, lambda: _driver.set_error_on_graph_break(True), lambda: _driver.set_error_on_graph_break(False))


def unguarded_fullgraph():  # part of the key here: section 27
    assert kt.compile(breaks)(x2).tolist() == [2.0, 2.0]
    with pytest.raises(dynamo.exc.Unsupported):
        kt.compile(breaks, fullgraph=True)(x2)


def unguarded_marks():
    same_entry(lambda x: allowed(x), lambda: dynamo.disallow_in_graph(allowed), lambda: compiler.allow_in_graph(allowed))
    dynamo.reset()
    kind = lambda x: x * 3  # noqa: E731
    same_entry(lambda x: kind(x), lambda: compiler.allow_in_graph(kt.sin))


def unguarded_sets():
    same_entry(lambda x: (note("a"), x + 1)[1], lambda: dynamo.config.ignore_logging_functions.add(note),
               lambda: dynamo.config.ignore_logging_functions.discard(note))


def unguarded_constant():
    same_entry(lambda x: x * constant(), lambda: answers.__setitem__(0, 7.0), lambda: answers.__setitem__(0, 2.0))


def unguarded_data():
    fast = kt.compile(lambda x: x * 2, backend=(cnt := dynamo.testing.CompileCounter()))
    assert [fast(kt.ones(2) * n).tolist() for n in (1, 5, -3)] == [[2.0] * 2, [10.0] * 2, [-6.0] * 2] and cnt.frame_count == 1


def unguarded_builtins():  # guarded here: section 27
    fast = kt.compile(lambda x, things: x * len(things))
    assert fast(x2, [1, 2]).tolist() == [2.0, 2.0]
    globals()["len"] = _len
    try:
        assert fast(x2, [1, 2]).tolist() == [99.0, 99.0]
    finally:
        del globals()["len"]
    assert fast(x2, [1, 2]).tolist() == [2.0, 2.0]


NOT_GUARDED = {
    "config values": unguarded_config, "the stance": unguarded_stance, "error_on_graph_break": unguarded_flag,
    "fullgraph": unguarded_fullgraph, "allow marks": unguarded_marks, "logging sets": unguarded_sets,
    "results of assume_constant_result": unguarded_constant, "tensors' data": unguarded_data,
    "builtins shadowed later": unguarded_builtins,
}


@rows("18 not guarded", NOT_GUARDED)
def test_not_guarded(row):
    NOT_GUARDED[row]()


# ---- Section 20 ----------------------------------------------------------------------------------------------------


def count(function, calls, **settings):
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(function, backend=cnt, **settings)
    for arguments in calls:
        assert shown(fast(*arguments)) == shown(function(*arguments))
    return cnt.frame_count


INTS, FLOATS = (2, 3, 4, 0, 1, -5), (2.5, 3.5, -1.0, 0.0)


class Box:
    k = 2


def item(values):
    return [(x2, [value]) for value in values]


def attribute(values):
    out = []
    for value in values:
        box = Box()
        box.k = value
        out.append((x2, box))
    return out


def inputs_of_arguments():
    for values in (INTS, FLOATS):
        assert count(lambda x, n: x * n, [(x2, value) for value in values]) == 2
        assert count(lambda x, l: x * l[0], item(values)) == 2
        assert count(lambda x, o: x * o.k, attribute(values)) == 2
    assert count(lambda x, n: x * n, [(x2, n) for n in (1.5, 2.5, math.inf, -math.inf, 7.0)]) <= 4
    fast = kt.compile(lambda x, n: x * n)
    for n in (1.5, 2.5, math.nan, 3.5):
        assert repr(fast(x2, n)) == repr(x2 * n)
    for word in (True, "a", None, Color.RED):  # always exact
        assert count(lambda x, w: (x * 2, w), [(x2, word)]) == 1
    assert count(lambda x, w: x * 2 if w else x + 1, [(x2, True), (x2, False), (x2, True)]) == 2


def inputs_of_globals():
    function = lambda x: x * G_SCALE  # noqa: E731
    fast = kt.compile(function)
    try:
        for value in (2, 3, 4, 2.5, 3.5):
            globals()["G_SCALE"] = value
            assert fast(x2).tolist() == function(x2).tolist()
    finally:
        globals()["G_SCALE"] = 2.0


def inputs_of_modules():
    module = linear()
    fast = kt.compile(lambda x, m: x * m.extra)
    for value in (2, 3, 4, 2):
        module.extra = value
        assert shown(fast(x2, module)) == [value * 1.0] * 2


def inputs_of_defaults():
    def inlined(x, k=2):
        return x * k

    fast = kt.compile(lambda x: inlined(x))
    for value in (2, 3, 4):
        inlined.__defaults__ = (value,)
        assert fast(x2).tolist() == [float(value)] * 2


NUMBERS = {"argument, item or attribute of an argument, closure cell, class attribute": inputs_of_arguments,
           "module-level name": inputs_of_globals, "attribute of a module object": inputs_of_modules, "default argument of an inlined function": inputs_of_defaults}


@rows("20 numbers", NUMBERS)
def test_numbers(row):
    NUMBERS[row]()


def test_sizes():
    double = lambda x: x * 2  # noqa: E731
    sizes = [(t(n),) for n in (3, 4, 5, 6)]
    assert [count(double, sizes, dynamic=value) for value in (None, True, False)] == [2, 1, 4]
    dynamo.reset()
    # Only what has been seen to differ becomes dynamic; equal sizes may come to differ.
    assert count(lambda x, y: (x * 2, y * 2), [(t(a), t(b)) for a, b in ((3, 3), (4, 4), (5, 6), (1, 0), (7, 7))]) <= 3
    branch = lambda x: x + 1 if x.shape[0] > 5 else x - 1  # noqa: E731
    assert count(branch, [(t(n),) for n in (3, 4, 5, 8, 9, 4)]) <= 4
    assert count(lambda x: (type(x.shape[0]) is int, isinstance(x.shape[0], int), x + 1), sizes) == 2
    kept = kt.compile(lambda x: (x + 1, x.shape[0]))
    assert [type(kept(*each)[1]) for each in sizes] == [int] * 4


def marked(mark, n, *arguments, **more):
    tensor = t(n, 3)
    mark(tensor, *arguments, **more)
    return (tensor,)


def sizes_marked(mark):
    assert count(lambda x: x * 2, [marked(mark, n, 0) for n in (4, 5, 6)], dynamic=False) == 1
    assert count(lambda x: x * 2, [marked(mark, n, [0, 1]) for n in (4, 5, 6)]) == 1
    assert count(lambda x: x * 2, [(t(4, 3),), marked(mark, 4, 0), (t(5, 3),)], dynamic=False) == 2


def mark_static():
    assert count(lambda x: x * 2, [marked(dynamo.mark_static, n) for n in (4, 5, 6)], dynamic=True) == 3
    assert count(lambda x: x * 2, [marked(dynamo.mark_static, n, 0) for n in (4, 5)], dynamic=True) == 2
    assert kt.compile(lambda x: (dynamo.mark_static(x, 0), x + 1)[1], fullgraph=True)(t(2)).tolist() == [2.0, 2.0]
    both = t(4, 3)
    dynamo.mark_static(both)
    dynamo.mark_dynamic(both, 0)
    assert count(lambda x: x * 2, [(both,), *(marked(dynamo.mark_dynamic, n, 0) for n in (5, 6))]) <= 2


def mark_dynamic():
    sizes_marked(dynamo.mark_dynamic)
    assert count(lambda x: x * 2, [marked(dynamo.mark_dynamic, n, 0, min=2, max=8) for n in (4, 5)]) == 1
    with pytest.raises(dynamo.exc.ConstraintViolationError, match="min|8"):
        marked(dynamo.mark_dynamic, 9, 0, max=8)


MARKED = {"mark_dynamic": mark_dynamic, "maybe_mark_dynamic": lambda: sizes_marked(dynamo.maybe_mark_dynamic),
          "mark_static": mark_static, "mark_unbacked": lambda: sizes_marked(dynamo.mark_unbacked)}


@rows("20 marks", MARKED)
def test_marks(row):
    MARKED[row]()
    if row != "mark_static":
        with pytest.raises(AssertionError, match="forbidden callable"):
            kt.compile(lambda x: getattr(dynamo, row)(x, 0))(t(2))
