"""functools and sorting under attack: what is cached, dispatched and compared is what Python would have, in its order."""
import functools
import threading

import pytest

import kintsugi as kt
from language_programs import x3


class Kept(functools.cached_property):
    def __set__(self, instance, value):
        raise AttributeError("kept")


class Lazy:
    calls = 0

    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def value(self):
        return self.x * 2

    @functools.cached_property
    def counted(self):
        Lazy.calls += 1
        return Lazy.calls

    @functools.cached_property
    def failing(self):
        raise ValueError("none")

    @Kept
    def kept(self):
        Lazy.calls += 1
        return Lazy.calls

    def add(self, a, b=0):
        return self.x + a + b

    add_one = functools.partialmethod(add, 1)


class Frozen(Lazy):
    def __setattr__(self, name, value):
        if name != "x":
            raise AttributeError("frozen")
        super().__setattr__(name, value)


class Ordered:
    log = []

    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        Ordered.log.append((self.n, other.n))
        if self.n == 13:
            raise ValueError("unlucky")
        return self.n < other.n


class Silent(Ordered):
    def __lt__(self, other):
        return self.n < other.n


@functools.singledispatch
def kind(value):
    return "object"


@kind.register
def _(value: int):
    return "int"


def cached(x, made):
    first = made.value
    try:
        made.failing
    except ValueError as error:
        first = first + len(str(error))
    return first, made.value is made.value, made.counted, made.counted, sorted(vars(made))


def kept(x, made):
    return x + 1, made.kept, made.kept, vars(made)


def partial(x, made):
    method = made.add_one
    return method(b=2), made.add_one(), method.args, method.__self__ is made


class Equal(type):
    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(int)


class Alike(metaclass=Equal):
    pass


def dispatched(x, values):
    return [kind(value) for value in values], x + 1


def sorts(x, numbers, cls, reverse):
    items = [cls(n) for n in numbers]
    try:
        found = [v.n for v in sorted(items, reverse=reverse)]
    except ValueError as error:
        found = str(error)
    items[:1] = []
    items.sort(key=lambda v: (v.n % 2, v))
    return found, [v.n for v in items], sorted(numbers, key=functools.cmp_to_key(lambda a, b: b % 3 - a % 3), reverse=reverse), x + 1


PROGRAMS = [
    (cached, lambda: (x3(), Lazy(x3()))), (cached, lambda: (x3(), Frozen(x3()))), (partial, lambda: (x3(), Lazy(x3()))),
    (kept, lambda: (x3(), Lazy(2.0))),
    (dispatched, lambda: (x3(), [1, "a", True, None, 2.5])), (dispatched, lambda: (x3(), [Alike()])),
    (sorts, lambda: (x3(), [3, 1, 2, 5, 4], Silent, False)),
    (sorts, lambda: (x3(), [3, 1, 2, 2, 4, 9, 0, 7], Silent, True)), (sorts, lambda: (x3(), [3, 1, 2], Ordered, False)),
    (sorts, lambda: (x3(), [1, 13, 2], Ordered, False)), (sorts, lambda: (x3(), [13, 1, 2, 4], Ordered, True)),
]


def outcome(function, make):
    Lazy.calls = 0
    Ordered.log.clear()
    try:
        result = repr([each.tolist() if isinstance(each, kt.Tensor) else each for each in function(*make())])
    except Exception as error:
        result = type(error).__name__, str(error)
    return result, Lazy.calls, list(Ordered.log)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program(number):
    function, make = PROGRAMS[number]
    kt._dynamo.reset()
    fast = kt.compile(function)
    for _ in range(4):
        assert outcome(fast, make) == outcome(function, make)


def test_what_is_registered_later_is_seen():
    @functools.singledispatch
    def own(value):
        return "object"

    class Base:
        pass

    class Derived(Base):
        pass

    def f(x, value):
        return own(value), x + 1
    fast = kt.compile(f)
    made = Derived()
    assert [fast(x3(), made)[0] for _ in range(3)] == ["object"] * 3
    own.register(Base, lambda value: "base")
    assert [fast(x3(), made)[0] for _ in range(3)] == ["base"] * 3
    own.register(Base, lambda value: "again")
    assert [fast(x3(), made)[0] for _ in range(3)] == ["again"] * 3
    own.register(Derived, lambda value: "derived")
    assert [fast(x3(), made)[0] for _ in range(3)] == ["derived"] * 3


def test_a_cached_property_waits_for_its_lock():
    order = []
    lock = Lazy.__dict__["value"].lock
    fast = kt.compile(lambda made: made.value + 1)
    for _ in range(3):
        fast(Lazy(x3()))
    lock.acquire()

    def other():
        fast(Lazy(x3()))
        order.append("computed")
    thread = threading.Thread(target=other)
    thread.start()
    thread.join(0.05)
    order.append("released")
    lock.release()
    thread.join()
    assert order == ["released", "computed"]


def test_a_sort_that_looks_at_its_list():
    def f(x):
        items = []

        class Looking:
            def __lt__(self, other):
                seen.append(len(items))
                return False
        seen = []
        items.extend([Looking(), Looking(), Looking()])
        items.sort()
        sorted(items)
        return seen
    fast = kt.compile(f)
    assert [fast(x3()) for _ in range(3)] == [f(x3())] * 3


class Countdown:
    def __init__(self, left):
        self.left = left

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration(*[self.left, "more"][:1 - self.left])
        self.left -= 1
        return self.left


def test_yield_from_goes_on_with_what_an_iterator_ends_with():
    def through(*parts):
        for part in parts:
            yield "end", (yield from part)

    def f(x):
        return list(through(Countdown(2), iter([1]), Countdown(-1), Countdown(1))), x + 1
    fast = kt.compile(f)
    for _ in range(3):
        assert fast(x3())[0] == f(x3())[0]
