"""The followed part of Python, plain against compiled: the programs of language_programs.py with all that they read and change,
and programs that press on one rule each. What must be followed without a break is in test_expected_native.py."""
import functools
import math

import pytest

import kintsugi as kt
import language_programs
from comparing import STRESS
from language_programs import x3
from test_expected_native import outcome

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


def check(function, *makers, rounds=3):
    """Calls with arguments made anew, several times: value, arguments afterwards, effects and output are those of plain calls."""
    fast = kt.compile(function)
    for _ in range(rounds):
        for make in makers:
            language_programs.effects.clear()
            want = outcome(function, make)
            language_programs.effects.clear()
            assert outcome(fast, make) == want
    assert native["fallbacks"] == 0 or STRESS == "tiny_code_memory"  # there, what finds no room runs plain


@pytest.mark.parametrize("name", language_programs.PROGRAMS)
def test_program(name):
    check(*language_programs.PROGRAMS[name])


# ---- Binding of arguments ------------------------------------------------------------------------------------------


def parameters(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, more


CALLS = [
    lambda x: parameters(x, d=1), lambda x: parameters(x, 1, 2, 3, 4, d=x, f=7), lambda x: parameters(1, c=x, d=2, b=9),
    lambda x: parameters(*[x, 1], **{"d": 4, "z": x}), lambda x: parameters(x), lambda x: parameters(d=1),
    lambda x: parameters(x, 1, 2, c=3, d=4), lambda x: parameters(x, d=1, **{"d": 2}), lambda x: parameters(a=x, d=1),
    lambda x: parameters(x, d=1, e=x, **{}), lambda x: (lambda *, k: k)(k=x), lambda x: (lambda *a, **k: (a, k))(x, y=x),
    lambda x: functools.partial(parameters, x, d=1)(4), lambda x: (lambda: x)(1),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_arguments_bind_as_in_python(number):
    call = CALLS[number]

    def f(x):
        y = x * 2
        return call(y), y + 1
    check(f, lambda: (x3(),))


# ---- Rules of single features --------------------------------------------------------------------------------------


def nested_closures(x):
    made = []
    for i in range(3):
        def add(y, i=i):
            return y + i + len(made)
        made.append(add)
    late = [lambda y: y * i for _ in range(2)]  # sees the last i
    return [f(x) for f in made], [f(x) for f in late]


def shared_cell(x):
    total = x * 0

    def add(y):
        nonlocal total
        total = total + y
        return get

    def get():
        return total
    return add(x)() + add(x)(), total


def deep_recursion(x):
    def down(n, y):
        return y if n == 0 else down(n - 1, y + n) * 1.0
    return down(30, x)


def mutual_recursion(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)
    return x * even(4) + odd(3)


class Base:
    count = 0
    registry = {}

    def __init__(self, x):
        self.x = x
        type(self).registry.setdefault(type(self).__name__, 0)

    def value(self):
        return self.x

    @property
    def size(self):
        return len(self.x)

    def __getattr__(self, name):
        if name.startswith("lazy_"):
            return self.x + len(name)
        raise AttributeError(name)

    def __contains__(self, item):
        return item == self.size

    def __bool__(self):
        return self.size > 2

    def __iter__(self):
        return iter([self.x, 1])


class Middle(Base):
    def value(self):
        return super().value() * 2


class Other(Base):
    def value(self):
        return super().value() + 10


class Both(Middle, Other):
    pass


def diamond(x):
    both = Both(x)
    return both.value(), both.size, both.lazy_one, 3 in both, bool(both), list(both), [c.__name__ for c in (Both, Base)]


def attribute_missing(x):
    return Base(x).nothing


def getattr_with_default(x):
    return getattr(Base(x), "nothing", x * 2), hasattr(Base(x), "lazy_a"), hasattr(Base(x), "nope")


def augmented(x):
    box, holder = [x, 1], Base(x)
    box[0] += 1
    box[1] <<= 3
    holder.x *= 2
    holder.count += 5
    a = b = [1]
    b += [2]
    t = (1,)
    u = t
    u += (2,)
    return box, holder.x, holder.count, Base.count, a, t, u, x


def chained(x, n):
    order = []

    def note(v):
        order.append(v)
        return v
    result = note(1) < note(n) < note(5), note(0) or note(n), note(3) and note(0), not note(n)
    return result, order, x if 0 < n < 3 else -x


def slices_of_lists(items):
    x = items[0]
    return items[1:], items[::-1], items[-2:], items[5:1], items[1:3][0] * x, (1, 2, 3, 4)[::2], "abcdef"[1:4][::-1]


def dict_order(x):
    d = {"a": 1, "b": x}
    d["c"] = 2
    d["a"] = 9
    del d["b"]
    d["b"] = 3
    d.update({"z": 1, "c": 0})
    return list(d), list(d.values()), d.pop("z"), d.get("q", x), {**d, "a": 0}, {True: 1, 1: 2, 1.0: 3}


def loops_with_else(x, n):
    for i in range(n):
        if i == 3:
            x = x * 10
            break
        x = x + i
    else:
        x = -x
    k = n
    while k > 0:
        k -= 2
        if k == 1:
            break
    else:
        x = x + 100
    return x, i, k


def long_loop(x, n):
    total = 0
    for i in range(n):
        x = x * 0.5 + i
        total += i if i % 3 else -i
    return x, total


def nested_loops(x):
    out = []
    for i, row in enumerate(x.reshape(3, 1)):
        for j, k in zip(range(3), (2.0, 3.0)):
            if j == i:
                continue
            out.append(row * k + j)
    return out


def list_grows_while_walked(x):
    items = [x]
    for item in items:
        if len(items) < 4:
            items.append(item + 1)
    return items


def dict_grows_while_walked(x):
    d = {"a": x}
    for key in d:
        d[key + "b"] = x
    return d


def try_finally(x, log):
    try:
        try:
            x = x + 1
            log.append("body")
        finally:
            log.append("inner")
        return x
    finally:
        log.append(x * 2)


def raises_inside(x, log):
    try:
        log.append(x * 2)
        [][0]
    except IndexError as error:
        log.append(str(error))
        return x + 1
    finally:
        log.append("end")


class Ordered:
    def __init__(self):
        super().__setattr__("log", [])

    def __setattr__(self, name, value):
        self.log.append((name, value))


class Plain:
    pass


def effects_in_order(x, a, b, log, table, plain, ordered):
    log.append(a)
    log.append(b)
    table["p"] = a
    table["q"] = b
    table["p"] = b
    plain.one = a
    plain.two = b
    plain.one = b
    log[0] = x
    log[0] = a
    ordered.one = a
    ordered.two = b
    return x + 1


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(kind.__name__ if kind else "out")
        return self.swallow


def managers(x, log):
    with Manager(log) as outer, Manager(outer.log, swallow=True) as inner:
        x = x * 2
        if len(log) == 2:
            raise ValueError("swallowed")
    for _ in range(2):
        with Manager(log):
            continue
    with inner:
        return x


def text(x, name, n):
    return f"{name:>8}|{n:03d}|{n!r:>5}|{len(x)}", name.replace("a", "b").split("-"), "%s=%d" % (name, n), name.encode(), \
        ",".join([name, str(n)]), name < "b", "a" in name, name * 2 + name[::-1], x * n


def unpack(x, pairs):
    (a, b), *rest = pairs
    [c, *d], e = rest[0], rest[-1]
    *f, g = "xyz"
    for i, (h, j) in enumerate(pairs):
        x = x + i * h - j
    return a, b, rest, c, d, e, f, g, x


def builtins_mixed(x, items):
    return (sum(items), sum(items, 0.5), min(items), max(items, key=abs), min(3, 1, 2), sorted(items, reverse=True), list(reversed(items)),
            any(i > 2 for i in items), all([i < 9 for i in items]), [*map(lambda i: i * 2, items)], [*zip()], list(enumerate(items, 2)),
            round(2.567, 2), divmod(-7, 3), abs(-x), isinstance(x, (int, kt.Tensor)), int("12"), float("1.5"), type(x) is kt.Tensor,
            math.hypot(3, 4), math.pi, callable(len), getattr(x, "ndim"), tuple(i for i in items))


def errors(x, which):
    if which == 0:
        return x + (1 // 0)
    if which == 1:
        return undefined_name + x  # noqa: F821
    if which == 2:
        return {}["key"]
    if which == 3:
        a, b = (1, 2, 3)
    if which == 4:
        return x.reshape(2, 2)
    if which == 5:
        return min([])
    if which == 6:
        return sum(["a"], "")
    if which == 7:
        return len(5)
    if which == 8:
        return None + x
    if which == 9:
        del y  # noqa: F821
    if which == 10:
        return int("x")
    if which == 11:
        return "a" + 1
    if which == 12:
        return enumerate([1], begin=2)
    if which == 13:
        return max(1)
    return x


TESTS = [
    (nested_closures, lambda: (x3(),)), (shared_cell, lambda: (x3(),)), (deep_recursion, lambda: (x3(),)),
    (mutual_recursion, lambda: (x3(),)), (diamond, lambda: (x3(),)), (attribute_missing, lambda: (x3(),)),
    (getattr_with_default, lambda: (x3(),)), (augmented, lambda: (x3(),)),
    (chained, lambda: (x3(), 2), lambda: (x3(), 7), lambda: (x3(), 0)),
    (slices_of_lists, lambda: ([x3(), 1, 2, 3],), lambda: ([x3(), 2.0, "b"],)), (dict_order, lambda: (x3(),)),
    (loops_with_else, *[lambda n=n: (x3(), n) for n in (1, 2, 3, 4, 6)]),
    (long_loop, *[lambda n=n: (x3(), n) for n in (0, 1, 7, 8, 9, 40, 200)]), (nested_loops, lambda: (x3(),)),
    (list_grows_while_walked, lambda: (x3(),)), (dict_grows_while_walked, lambda: (x3(),)),
    (try_finally, lambda: (x3(), [])), (raises_inside, lambda: (x3(), [])), (managers, lambda: (x3(), [])),
    (effects_in_order, lambda: (x3(), 1.5, "b", [], {}, Plain(), Ordered())),
    (text, lambda: (x3(), "ab-a", 7), lambda: (x3(), "z", -1)), (unpack, lambda: (x3(), [(1, 2), (3, 4), (5, 6)])),
    (builtins_mixed, lambda: (x3(), [1, -5, 2]), lambda: (x3(), (1.5, 2, 0))),
    *[(errors, lambda which=which: (x3(), which)) for which in range(15)],
]


@pytest.mark.parametrize("row", TESTS, ids=[f"{row[0].__name__}-{i}" for i, row in enumerate(TESTS)])
def test_rule(row):
    check(*row)
