"""Stores to attributes of classes that existed before the call: what they may not hide from later calls, against plain runs."""
import abc
import gc
import weakref

import pytest

import kintsugi as kt
from comparing import STRESS, observe, snapshot
from language_programs import x3

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


def classes():
    class Meta(type):
        stored = []

        def __setattr__(cls, name, value):
            Meta.stored.append(name)
            super().__setattr__(name, value)

    class Counter:
        total = 0
        last = None
        items = ()

        def scale(self):
            return 2

        def __init__(self):
            type(self).total += 1

    class Child(Counter):
        pass

    class Watched(metaclass=Meta):
        total = 0

    class Shape(abc.ABC):
        total = 0
    return Counter, Child, Watched, Shape


def compare(function, between=None, calls=6, counts=True):
    """The same calls plain and compiled, on classes of their own; what `between(number, *classes)` does comes between."""
    outcomes = []
    for run in (function, kt.compile(function)):
        made = classes()
        outcomes.append([])
        for i in range(calls):
            outcomes[-1].append(observe(run, lambda: (x3(), *made)))
            outcomes[-1].append([[snapshot(each.__dict__.get(name)) for name in ("total", "last", "items")] for each in made])
            if between is not None:
                between(i, *made)
    assert outcomes[0] == outcomes[1]
    if counts and not STRESS:
        assert native["call_outs"] == 0 and native["fallbacks"] == 0, kt._dynamo.utils.counters["graph_break"]


def counts_up(x, Counter, Child, *others):
    Counter.total += 1
    return x * Counter.total, Child.total, Counter.scale(None)


def test_counting():
    compare(counts_up)


def test_nothing_is_compiled_again():
    made = classes()
    fast = kt.compile(counts_up)
    for _ in range(3):
        fast(x3(), *made)
    before = dict(native)
    for _ in range(20):
        fast(x3(), *made)
    assert made[0].total == 23
    if not STRESS:
        assert {key: native[key] - before[key] for key in ("segments", "fallbacks", "plain_calls") if key in before} == {
            key: 0 for key in ("segments", "fallbacks", "plain_calls") if key in before}


def test_of_a_subclass():
    def f(x, Counter, Child, *others):
        Child.total += 10
        Counter.total += 1
        c = Child()
        c.total += 1
        return c.total, Child.total, Counter.total, c.scale(), x + 1
    compare(f)


def test_through_instances():
    def f(x, Counter, Child, *others):
        made = [Counter(), Child(), Child()]
        type(made[1]).last = x * 2
        made[0].__class__.items += (len(made),)
        return [m.total for m in made], Child.last, Counter.last, made[0].items, made[2].last
    compare(f)


def test_kinds_of_values():
    def f(x, Counter, *others):
        for value in (1, 2.5, "text", None, (1, 2)):
            Counter.last = value
        for value in ([x], {"a": x}, x, True, Counter, 10**30):
            Counter.last = value
        last = Counter.last
        Counter.last = [last, x]
        Counter.last.append(3)
        return last, Counter.last
    compare(f)


def test_the_metaclass_has_a_say():
    def f(x, Counter, Child, Watched, Shape):
        Watched.total += 1
        Shape.total += 2
        return type(Watched).stored[-2:], Watched.total, Shape.total, x + 1
    compare(f)


def test_others_store_between():
    def between(i, Counter, Child, *others):
        if i % 2:
            Counter.total = 100 * i
    compare(counts_up, between)


def test_the_class_changes_between():
    def between(i, Counter, Child, *others):
        if i == 1:
            Counter.scale = lambda self: 7
        if i == 2:
            Child.total = 50
        if i == 3:
            del Child.total
        if i == 4:
            Counter.scale = lambda self: 9
    compare(counts_up, between)


def test_a_descriptor_comes_between():
    def f(x, Counter, Child, *others):
        Counter.total += 1
        c = Child.__new__(Child)
        return c.total, x + 1

    def between(i, Counter, Child, *others):
        if i == 2:
            Child.total = property(lambda self: "seen")
        if i == 4:
            Child.total = 4
    compare(f, between, counts=False)


def test_the_attribute_is_deleted_between():
    def f(x, Counter, *others):
        Counter.fresh = getattr(Counter, "fresh", 0) + 1
        return Counter.fresh, x + 1

    def between(i, Counter, *others):
        if i == 2:
            del Counter.fresh
    compare(f, between, counts=False)


def test_a_reader_that_was_compiled_before():
    made = classes()
    Counter, Child = made[:2]

    def reads(x):
        return x * Child.total + Counter.scale(None)

    def writes(x, n):
        Counter.total = n
        return x + n
    reader, writer = kt.compile(reads), kt.compile(writes)
    for n in (0, 0, 1, 2, 3, 3, 4):
        writer(x3(), n)
        assert reader(x3()).tolist() == reads(x3()).tolist()
    Counter.scale = lambda self: 100
    writer(x3(), 5)
    assert reader(x3()).tolist() == reads(x3()).tolist() == [105.0, 110.0, 115.0]


def test_the_class_of_an_argument():
    def f(x, made):
        type(made).total += 1
        made.x = x * made.total
        return made.x, made.scale()
    made, other = classes()[0](), classes()[1]()
    fast = kt.compile(f)
    for i in range(5):
        product, scale = fast(x3(), made)
        assert product.tolist() == [2.0 + i, 2 * (2.0 + i), 3 * (2.0 + i)] and scale == 2
        assert fast(x3(), other)[1] == 2
    made.total = 9
    assert fast(x3(), made)[0].tolist() == [9.0, 18.0, 27.0] and type(made).total == 7


def test_what_ends_changes_the_class():
    def f(x, Counter, made):
        Counter.last = made.pop()
        Counter.last = None
        return Counter.scale(None), x + 1
    for run in (f, kt.compile(f)):
        Counter = classes()[0]

        class Last:
            def __del__(self):
                Counter.scale = lambda self: 5
        assert [run(x3(), Counter, [None])[0] for _ in range(2)] == [2, 2]
        assert run(x3(), Counter, [Last()])[0] == 5
        assert run(x3(), Counter, [None])[0] == 5


def test_what_cannot_be_stored_plainly():
    def f(x, Counter, *others):
        Counter.total = property(lambda self: 3)
        Counter.scale = lambda self: 11
        Counter.__doc__ = "words"
        c = Counter.__new__(Counter)
        Counter.total, kept = 0, c.total
        return kept, c.scale(), Counter.__doc__, x + 1
    compare(f, counts=False)


def test_refusals():
    def f(x, Counter, *others):
        said = []
        for cls, name in ((int, "total"), (Counter, "__dict__"), (Counter, "__mro__")):
            try:
                setattr(cls, name, 1)
            except (TypeError, AttributeError) as error:
                said.append(str(error))
        return said, x + 1
    compare(f, counts=False)


def test_an_exception_after_a_store():
    def f(x, Counter, *others):
        Counter.total += 1
        if Counter.total % 2:
            raise ValueError(Counter.total)
        return x + Counter.total
    compare(f, counts=False)


def test_in_loops_and_generators():
    def f(x, Counter, Child, *others):
        def walk(n):
            for i in range(n):
                Child.total += i
                yield Child.total
        for i in range(30):
            Counter.total += i
        return list(walk(3)), Counter.total, x * Child.total
    compare(f, counts=False)


def test_classes_come_and_go():
    def f(x, cls):
        cls.total += 1
        return x * cls.total
    fast = kt.compile(f)
    gone = []
    for i in range(12):
        cls = classes()[i % 2]
        assert fast(x3(), cls).tolist() == [1.0, 2.0, 3.0] and fast(x3(), cls).tolist() == [2.0, 4.0, 6.0]
        gone.append(weakref.ref(cls))
        del cls
    gc.collect()
    assert not any(ref() for ref in gone)


def test_classes_whose_dict_is_of_a_class_of_its_own():
    """Those of ctypes: found by CPython's test_threading, which imports it."""
    ctypes = pytest.importorskip("ctypes")
    pointer, plain = (ctypes.POINTER(type(name, (ctypes.Structure,), {})) for name in "ab")

    def store(x, target, value):
        target.told = value
        return x + target.told

    compiled = kt.compile(store)
    for value in (1.0, 2.0, 2.0, 3.0):
        assert compiled(kt.ones(1), pointer, value).tolist() == store(kt.ones(1), plain, value).tolist()
        assert pointer.told == plain.told == value
