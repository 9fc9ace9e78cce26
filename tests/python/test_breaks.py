"""Breaks in every place where a program can have one: inlined callees, __init__, properties, context managers, comparisons,
comprehensions, closures, callbacks of builtins, loops with live iterators, handlers. Also with an exception in place of the
break. Compiled and plain runs must not differ, and the compiled ones must be native."""
import dataclasses
import functools
import types

import pytest

import kintsugi as kt
from comparing import Programs, compare, what_is_left

program = Programs()
graph_break = kt._dynamo.graph_break
opaque = kt._dynamo.testing.opaque


def three():
    return (kt.ones(3),)


def fail(*_):
    raise ValueError("instead of the break")


# Everything that ends a trace, as a function of a tensor.
BREAKS = {
    "graph_break": lambda y: graph_break(),
    "opaque": lambda y: opaque(y),
    "print": lambda y: print("p", y),
    "item": lambda y: y.sum().item(),
    "branch": lambda y: 1 if y.sum() > 4 else 0,
    "disabled": kt.compiler.disable(lambda y: y + 1),
    "nothing": lambda y: None,
    "exception": fail,
}
breaks = list(BREAKS.values())


# ---- Callees -----------------------------------------------------------------------------------------------------------


def deep(x, n, breaking):
    y = x + 1
    if n == 0:
        got = breaking(y)
        return y * 3 if got is None else y * 4
    inner = deep(y, n - 1, breaking)
    return inner + y


@program(*[lambda b=b, n=n: (kt.ones(3), n, b) for b in breaks for n in (0, 1, 4)], hand_overs=None)
def callee(x, n, breaking):
    a = x * 2
    try:
        b = deep(a, n, breaking)
    except ValueError as error:
        return str(error), a, x
    c = b + a
    return b, c


@program(*[lambda b=b, n=n: (kt.ones(3), n, b) for b in breaks for n in (0, 1, 4)], hand_overs=0)
def callee_uncaught(x, n, breaking):
    a = x * 2
    return deep(a, n, breaking) + a


def many(a, b=2, /, c=3, *rest, d, e=5, **named):
    y = a + b + c + d
    graph_break()
    return y * e, rest, named


@program(three, hand_overs=0)
def arguments_of_every_form(x):
    t, d = (1, 2, 3, 4), {"d": x, "z": 26}
    return (many(x, d=1), many(x, 1, 2, 3, d=4, f=5), many(*t, **d), many(*[x], 7, *t, **d, e=1), many(x, **{"d": 2}, k=x),
            (lambda *a, **k: (graph_break(), a, k))(1, x=x))


@program(*[lambda w=w: (kt.ones(3), w) for w in range(7)], hand_overs=0)
def arguments_that_do_not_bind(x, which):
    y = x + 1
    try:
        return [lambda: many(), lambda: many(x, b=1), lambda: many(x), lambda: many(*5), lambda: many(**5),
                lambda: many(x, d=1, **{"d": 2}), lambda: many(x, e=1)][which]()
    except TypeError as error:
        return str(error), y


# ---- Classes -----------------------------------------------------------------------------------------------------------


class Made:
    def __init__(self, x, breaking):
        self.x = x + 1
        breaking(self.x)
        self.y = self.x * 2

    def __repr__(self):
        return "Made"


@program(*[lambda b=b: (kt.ones(3), b) for b in breaks], hand_overs=None)
def init(x, breaking):
    z = x * 3
    try:
        made = Made(x, breaking)
    except ValueError as error:
        return str(error), x, z
    return made.x + made.y, made


class Answers:
    def __init__(self, x):
        graph_break()
        return x


@program(three, hand_overs=0)
def init_that_answers(x):
    return Answers(x + 1)


class Property:
    def __init__(self, value, breaking):
        self.held, self.log, self.breaking = value, [], breaking

    @property
    def value(self):
        a = self.held + 1
        self.breaking(a)
        self.log.append("get")
        return a * 2

    @value.setter
    def value(self, new):
        a = new + 1
        self.breaking(a)
        self.held = a
        self.log.append("set")
        return "ignored"

    @value.deleter
    def value(self):
        self.breaking(self.held)
        self.log.append("delete")


@program(*[lambda b=b: (kt.ones(3), Property(kt.ones(3), b)) for b in breaks], hand_overs=None)
def properties(x, p):
    y = x + 1
    try:
        a = p.value + x
        p.value = a
        p.value += x
        del p.value
        return p.value * a, p.log
    except ValueError as error:
        return str(error), y, p.log


@program(*[lambda b=b: (kt.ones(3), b) for b in breaks], hand_overs=None)
def properties_of_a_new_object(x, breaking):
    p = Property(x, breaking)
    try:
        p.value = p.value + x
    except ValueError as error:
        return str(error), p.log
    return p.value, p


class Manager:
    def __init__(self, log, breaking, where="", swallow=False):
        self.log, self.breaking, self.where, self.swallow = log, breaking, where, swallow

    def __enter__(self):
        self.log.append("enter")
        if self.where == "enter":
            self.breaking(kt.ones(1))
        return self

    def __exit__(self, kind, value, where):
        self.log.append(("exit", kind, str(value)))
        if self.where == "exit":
            self.breaking(kt.ones(1))
        self.log.append("exited")
        return self.swallow


@program(*[lambda b=b, w=w, body=body, s=s: (kt.ones(3), b, w, body, s) for b in breaks[:3] + breaks[-1:]
           for w in ("enter", "exit") for body in ("", "raises", "breaks") for s in (False, True)], hand_overs=None)
def context_managers(x, breaking, where, body, swallow):
    y, log = x + 1, []
    try:
        with Manager(log, breaking, where, swallow) as m, Manager(log, graph_break and (lambda t: opaque(t)), "enter"):
            y = y * 2
            if body == "raises":
                raise KeyError("body")
            if body == "breaks":
                graph_break()
            y = y + 3
    except Exception as error:
        return type(error).__name__, str(error), log, y
    return y, log


class Equal:
    def __init__(self, value, breaking):
        self.value, self.breaking, self.asked = value, breaking, 0

    def __eq__(self, other):
        self.asked += 1
        self.breaking(kt.ones(1))
        return self.value == other

    __hash__ = None


@program(*[lambda b=b: (kt.ones(3), [Equal(1, b), Equal(2, b)]) for b in breaks], hand_overs=None)
def comparison_in_contains(x, values):
    y = x + 1
    try:
        return 2 in values, 2 not in values, values[0] == 5, y, x * 2
    except ValueError as error:
        return str(error), y, values[0].asked


class Protocols:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        graph_break()
        return self.n

    def __bool__(self):
        graph_break()
        return self.n > 1

    def __getitem__(self, key):
        graph_break()
        if key > 3:
            raise IndexError(key)
        return key * self.n

    def __setitem__(self, key, value):
        graph_break()
        self.n += value

    def __delitem__(self, key):
        graph_break()
        self.n -= key

    def __contains__(self, key):
        graph_break()
        return key == self.n

    def __call__(self, value):
        graph_break()
        return value + self.n

    def __add__(self, other):
        graph_break()
        return self.n + other

    def __radd__(self, other):
        graph_break()
        return other * self.n

    def __iadd__(self, other):
        graph_break()
        self.n += other
        return self

    def __neg__(self):
        graph_break()
        return -self.n

    def __lt__(self, other):
        graph_break()
        return self.n < other

    def __getattr__(self, name):
        graph_break()
        if name == "bad":
            raise AttributeError(name)
        return name

    def __str__(self):
        graph_break()
        return f"P{self.n}"

    def __hash__(self):
        graph_break()
        return self.n

    def __index__(self):
        graph_break()
        return self.n


class Counting:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        graph_break()
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@program(lambda: (kt.ones(3), Counting(3), Protocols(2)), hand_overs=None)
def protocols(x, numbers, p):
    out = [x + v for v in numbers]
    out += [len(p), 1 if p else 0, p[2], 4 in p, 4 not in p, p(x), p + 1, 1 + p, -p, p < 3, not p, p.foo, str(p), f"{p}"]
    p[1] = 3
    del p[1]
    p += 5
    try:
        p.bad
    except AttributeError as error:
        out.append(str(error))
    a, b, c = Counting(3)
    return out, [*range(12)][p], {p: 1}[p], (a, b, c), p and x, [*p]


class Wrong:
    def __init__(self, answer):
        self.answer = answer

    def __bool__(self):
        return self.answer

    def __len__(self):
        return self.answer

    def __iter__(self):
        return self.answer

    def __hash__(self):
        return self.answer

    def __index__(self):
        return self.answer


WRONG = [lambda w: bool(w), lambda w: len(w), lambda w: 1 if w else 2, lambda w: not w, lambda w: any([w]), lambda w: iter(w),
         lambda w: {w: 1} and 0, lambda w: [1][w], lambda w: range(w), lambda w: w and 1]


@program(*[lambda f=f, a=a: (kt.ones(3), Wrong(a), f) for f in WRONG for a in (0, 1, -1, 2**70, "x", None, True)], hand_overs=None)
def methods_that_answer_wrongly(x, wrong, use):
    y = x + 1
    try:
        answer = use(wrong)
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        return type(error).__name__, str(error), y
    return (answer, y) if answer is not wrong else y


class Base:
    gain = 2

    def method(self, x):
        graph_break()
        return x * self.gain

    @classmethod
    def of_class(cls, x):
        graph_break()
        return x * cls.gain

    @staticmethod
    def of_none(x):
        graph_break()
        return x + 1


class Derived(Base):
    gain = 3

    def method(self, x):
        y = super().method(x)
        graph_break()
        return y + super().method(x)


@program(lambda: (kt.ones(3), Derived()), hand_overs=0)
def methods(x, old):
    new = Derived()
    bound = new.method
    return old.method(x) + bound(x), Derived.of_class(x), old.of_class(x), Base.of_none(x), new.of_none(x)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a
        graph_break()

    def get(self):
        graph_break()
        return self.a


@dataclasses.dataclass
class Record:
    a: object
    b: int = 3
    c: list = dataclasses.field(default_factory=list)


@program(three, hand_overs=0)
def slots_and_records(x):
    s = Slotted(x + 1)
    s.a = s.get() + 1
    try:
        s.b
    except AttributeError as error:
        text = str(error)
    s.b = 3
    r = Record(x)
    r.c.append(s.b)
    graph_break()
    t = Record(x + 1, 4, [1])
    return text, s.get(), r.a + t.a, r.b, r.c + t.c, r == t


@program(three, hand_overs=0)
def class_made_inside(x):
    class Inner:
        y = x + 1
        z = deep(y, 1, opaque)
        rows = [i for i in range(3)]

        def method(self):
            graph_break()
            return self.y + self.z + x

    graph_break()
    return Inner().method(), Inner.rows, Inner.__name__


# ---- Closures, lambdas, comprehensions, callbacks ----------------------------------------------------------------------


@program(three, hand_overs=0)
def comprehensions(x):
    a = [x + i + (graph_break() or 0) for i in range(3)]
    b = {i: opaque(x * i) for i in range(3)}
    c = [y for y in a if y.sum().item() > 5]
    d = [[j * i + len([graph_break()]) for j in range(2)] for i in range(2)]
    return a, b, c, d


@program(three, hand_overs=0)
def comprehension_raises(x):
    y, a = x + 1, []
    try:
        a = [x + i for i in range(3)]
        b = [1 // (2 - i) for i in range(4)]
    except ZeroDivisionError as error:
        return str(error), y, a
    return a, b


@program(three, hand_overs=0)
def lambda_made_in_the_trace(x):
    k = x + 1
    f = lambda z: (graph_break(), z + k)[1]  # noqa: E731
    k = k * 2
    a = f(x)
    k = k * 2
    return a, f(a), k, f.__name__


@program(*[lambda b=b: (kt.ones(3), b) for b in breaks], hand_overs=None)
def cells_written_before_and_after(x, breaking):
    n, s = 0, x + 1

    def grow(by):
        nonlocal n, s
        n += by
        s = s * 2 + n
        breaking(s)
        return s

    try:
        a = grow(1)
        b = grow(2)
        graph_break()
        n += 10
        c = grow(3)
    except ValueError as error:
        return str(error), n, s
    return a, b, c, n, s


@program(three, hand_overs=0)
def recursive_closure(x):
    def factorial(n):
        if n == 0:
            graph_break()
            return x
        return factorial(n - 1) * n

    return factorial(5), factorial(2)


class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following


@program(three, hand_overs=0)
def objects_that_hold_themselves(x):
    a = Node(x + 1)
    b = Node(x + 2, a)
    a.following = b
    numbers = [x]
    numbers.append(numbers)
    table = {"numbers": numbers}
    table["table"] = table
    graph_break()
    return a.following.following is a, a.value + b.value, numbers[1][1][0] + 1, table["table"]["numbers"] is numbers


@program(*[lambda b=b: (kt.ones(3), b) for b in breaks], hand_overs=None)
def callbacks(x, breaking):
    def key(v):
        breaking(x)
        return -v

    def add(v):
        breaking(x)
        return v + x

    y, done = x + 1, []
    try:
        done.append(list(map(add, [1, 2])))
        done.append(sorted([3, 1, 2], key=key))
        done.append((min([3, 1, 2], key=key), max(3, 1, 2, key=key)))
        done.append(sum(add(i) for i in range(3)))
        done.append(list(filter(key, [0, 1, 2])))
        done.append((any(key(i) for i in range(3)), all(key(i) for i in range(3))))
        done.append(functools.reduce(lambda p, q: (breaking(q), p + q)[1], [x, x, y]))
        done.append(dict((k, add(k)) for k in range(2)))
        done.append([*zip(map(key, [1, 2]), [5, 6, 7])])
    except ValueError as error:
        return str(error), y, done
    return done, y


CALLBACK_USERS = [
    lambda f: list(map(f, [1, 2, 3])), lambda f: sorted([3, 1, 2], key=f), lambda f: min([3, 1, 2], key=f),
    lambda f: max([3, 1, 2], key=f), lambda f: sum(f(i) for i in range(3)), lambda f: [*filter(f, [0, 1])],
    lambda f: functools.reduce(lambda p, q: f(p) + q, [1, 2, 3]), lambda f: any(map(f, [0, 0, 1])), lambda f: tuple(map(f, (1, 2))),
]


@program(*[lambda u=u, b=b: (kt.ones(3), u, b) for u in CALLBACK_USERS for b in breaks[:3] + breaks[-1:]], hand_overs=None)
def one_callback(x, user, breaking):
    y = x + 1
    turns = 0

    def callback(v):
        nonlocal turns
        turns += 1
        if turns == 2:
            breaking(y)
        return -v

    try:
        answer = user(callback)
    except ValueError as error:
        return str(error), turns, y
    return answer, turns, y


# ---- The tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, makes, expected", program, ids=program.names())
def test_same_as_plain(function, makes, expected):
    compare(function, *makes, **{name: value for name, value in expected.items() if value is not None})


@pytest.mark.parametrize("function, makes, expected", program[::6], ids=program.names()[::6])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_is_left(function, makes, expected, stress):
    if stress:
        pytest.skip("takes long, and the switches change nothing that is kept")
    blocks, buffers, layouts = what_is_left(function, *makes)
    assert blocks < 0.8 and buffers == layouts == 0


def test_code_replaced_between_and_during_calls():
    def first(x):
        y = x + 1
        swap()
        z = y * 2
        return z, y

    def second(x):
        a = x + 100
        swap()
        b = a
        return b, 7

    function = types.FunctionType(first.__code__, globals(), "function", None, first.__closure__)
    originals = first.__code__, second.__code__
    swap = lambda: setattr(function, "__code__", originals[1])  # noqa: E731
    compiled = kt.compile(function)
    for _ in range(4):
        function.__code__ = originals[0]
        assert [v.tolist() for v in compiled(kt.ones(2))] == [[4.0] * 2, [2.0] * 2]
        answer = compiled(kt.ones(2))
        assert answer[0].tolist() == [101.0] * 2 and answer[1] == 7
