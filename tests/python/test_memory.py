"""Memory stays flat: many lengths, many breaks and exceptions, many modules made and dropped. The sizes here are samples; the
full ones run with KINTSUGI_FULL=1."""
import gc
import os
import sys
import weakref

import pytest

import kintsugi as kt
from comparing import SANITIZED, native, runtime

FULL = os.environ.get("KINTSUGI_FULL") == "1"
graph_break = kt._dynamo.graph_break


@pytest.fixture(autouse=True)
def fresh(stress):
    if stress:
        pytest.skip(f"{stress} changes how much is compiled")
    kt._dynamo.reset()
    kt._dynamo.utils.counters.clear()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def is_flat(marks, spread):
    if SANITIZED:  # it keeps freed memory aside to catch late uses
        return True
    return max(marks[len(marks) // 2:]) - min(marks[len(marks) // 2:]) <= spread


@pytest.mark.parametrize("kind", ["whole", "views"])
def test_every_call_has_another_length(kind):
    """The tensors are (n, 0): a million lengths, and no time spent in elements."""
    calls = 1_000_000 if FULL else 20_000
    compiled = kt.compile(lambda x: x * 2.0 + 1.0)
    base = kt.ones(2 * calls + 10, 0)
    segments, layouts, marks = native["segments"], runtime._live()[1], []
    for n in range(2, calls + 2):
        answer = compiled(base[:n] if kind == "whole" else base[n % 7:2 * n:2])
        assert answer.shape[0] > 0 and answer.shape[1] == 0
        if n % (calls // 10) == 0:
            marks.append(resident())
    del answer
    assert native["segments"] - segments < 3
    assert native["fallbacks"] == 0 or not kt._dynamo.utils.counters["fallback"]
    assert runtime._live()[1] - layouts < 600  # what caches keep
    assert is_flat(marks, 1 << 20), marks


def test_lengths_with_elements():
    compiled = kt.compile(lambda x: (x[1:] * x[:-1]).sum())
    segments = native["segments"]
    for n in range(3, 3000):
        assert compiled(kt.ones(n)).item() == n - 1
    assert native["segments"] - segments < 3


class Odd(Exception):
    pass


def callee(x, k):
    y = x + k
    if k == 2:
        raise Odd(k)
    graph_break()
    return y


def breaking(x, k, log):
    y = x + 1
    try:
        z = callee(y, k)
        kt._dynamo.testing.opaque(z)
        if z.sum() > 5:
            z = z + 1
        for i in range(2):
            z = z + i
            graph_break()
        if k == 1:
            raise KeyError(k)
    except Odd:
        log.append(1)
        z = y
    finally:
        log.clear()
    return z


def test_breaks_and_exceptions():
    compiled, x, log = kt.compile(breaking), kt.ones(3), []

    def once(k):
        try:
            compiled(x, k, log)
        except KeyError:
            pass

    for k in range(40):
        once(k % 4)
    watched = [x, log, compiled, breaking, breaking.__code__, callee, callee.__code__, Odd, graph_break, True, kt, native]
    gc.collect()
    before, live, marks = [sys.getrefcount(each) for each in watched], runtime._live(), []
    calls = 100_000 if FULL else 4_000
    for k in range(calls):
        once(k % 4)
        if k % (calls // 10) == 0:
            marks.append(resident())
    gc.collect()
    after = [sys.getrefcount(each) for each in watched]
    assert [now - then for now, then in zip(after, before)] == [0] * len(watched)
    assert runtime._live() == live
    assert is_flat(marks, 256 << 10), marks


MODULE = """
class C:
    def __init__(self, x):
        self.w = x * {i}
    def m(self, x):
        return self.w + x
c = C(kt.ones(3))
def g(x):
    return c.m(x) + {i} if x.shape[0] < 9 else f(x)
def f(x):
    y = g(x)
    kt._dynamo.graph_break()
    l = [y, lambda: y]
    try:
        1 // 0
    except ZeroDivisionError:
        return C(y), l
class Linked:  # what classes hold leads back to them, and takes no weak reference
    table = {{}}
    shared = []
    @property
    def twice(self):
        return len(self.table) * 2.0
    @classmethod
    def made(cls, x):
        return cls.table["it"].twice * x + len(cls.shared)
    @staticmethod
    def same(x):
        return x
Linked.table["it"] = Linked()
Linked.shared.append(Linked)
module = type(kt)("m")
module.names, module.linked = Linked.shared, Linked
def k(x):
    return Linked.same(Linked().made(x)) + len(module.names)
k(kt.ones(3)).tolist() == kt.compile(k)(kt.ones(3)).tolist() == kt.compile(k)(kt.ones(3)).tolist() == [4.0] * 3 or 1 / 0
h = kt.compile(f)
answers = [h(kt.ones(3)) for _ in range(3)], kt.compile(C.m)(c, c.w), kt.compile(g)(kt.ones(3))
"""


def test_modules_made_and_dropped():
    marks, blocks = [], []
    rounds = 1000 if FULL else 60
    segments = native["segments"]
    for i in range(rounds):
        module = {"kt": kt}
        exec(MODULE.format(i=i), module)
        things = [module[name] for name in ("C", "c", "g", "f", "h", "Linked", "module", "k")]
        watched = [weakref.ref(each) for each in things + [module["c"].w, module["f"].__code__, module["g"].__code__]]
        del things, module
        gc.collect()
        assert [each() for each in watched] == [None] * len(watched)
        if i % (rounds // 10) == 0:
            marks.append(resident())
            blocks.append(sys.getallocatedblocks())
    assert native["segments"] - segments > rounds
    assert is_flat(marks, 1280 << 10), marks  # Python takes memory by the megabyte
    assert blocks[-1] - min(blocks[len(blocks) // 2:]) <= max(100, rounds // 4), blocks


def test_failing_compiles_leave_nothing():
    strict = kt.compile(lambda x: (graph_break(), x + 1), fullgraph=True)
    marks = []
    for _ in range(3):
        for _ in range(100):
            with pytest.raises(kt._dynamo.exc.Unsupported):
                strict(kt.ones(3))
        gc.collect()
        marks.append((sys.getallocatedblocks(), *runtime._live()))
    assert marks[2][0] - marks[1][0] < 80 and marks[2][1:] == marks[1][1:]


def test_a_builtin_function_of_no_module_dies():
    make = pytest.importorskip("_testcapi").create_cfunction

    @kt.compile
    def watched():
        made = make()
        watch = weakref.ref(made)
        assert watch() is made
        del made
        return watch

    for _ in range(3):
        assert watched()() is None


@pytest.mark.parametrize("how", ["call", "value"])
def test_functions_of_a_module_that_was_imported_once_more_die(how):
    import _bisect

    def fresh():
        del sys.modules["_bisect"]
        module = __import__("_bisect")
        sys.modules["_bisect"] = _bisect
        return module

    calls = kt.compile(lambda x, module: x * module.bisect_right([1, 2, 3], 2))
    reads = kt.compile(lambda x, module: (x, module.bisect_right, graph_break())[1]([1, 2, 3], 2) * x)
    for _ in range(3):
        module = fresh()
        watch = weakref.ref(module)
        for _ in range(2):
            assert (calls if how == "call" else reads)(kt.ones(1), module).tolist() == [2.0]
        del module
        gc.collect()
        assert watch() is None


@pytest.mark.parametrize("marked", [False, True])
def test_what_dies_at_the_recursion_limit_is_noticed(marked):
    """CPython refuses calls of builtin functions there, also those that tell of a death."""
    def call(x, function):
        return function(x)

    compiled = kt.compile(call)
    segments = native["segments"]

    def deep():
        def dies(x):
            return x + 1

        if marked:
            kt._dynamo.allow_in_graph(dies)
        assert compiled(kt.ones(1), dies).tolist() == [2.0]
        dies.itself = dies
        watch = weakref.ref(dies)
        del dies

        def down():
            try:
                down()
            except RecursionError:
                collect()

        collect = gc.collect
        down()
        assert watch() is None

    gc.disable()
    try:
        for _ in range(4):
            deep()
            assert compiled(kt.ones(1), lambda x: x + 2).tolist() == [3.0]
    finally:
        gc.enable()
    assert native["segments"] > segments
