"""Classes, exception groups and caches in compiled functions: programs that press on one rule each, against plain runs.
What is followed without a break is in language_definitions.py, language_groups.py and language_keys.py."""
import abc
import collections
import dataclasses
import enum
import functools
import gc
import traceback
import weakref

import pytest

import kintsugi as kt
from comparing import STRESS
from language_programs import x3

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


log = []


class Base:
    def f(self):
        return "base"


class Noticed:
    def __init_subclass__(cls, **named):
        log.append((cls.__name__, named))


class Field:
    def __set_name__(self, owner, name):
        log.append((owner.__name__, name))
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__[self.name]


class Meta(type):
    def __new__(meta, name, bases, names, **named):
        log.append((name, sorted(key for key in names if not key.startswith("__")), named))
        return super().__new__(meta, name, bases, names)


class Group(ExceptionGroup):
    def derive(self, exceptions):
        log.append(len(exceptions))
        return Group(self.message, exceptions)


def shown(value):
    if isinstance(value, kt.Tensor):
        return value.tolist()
    if isinstance(value, BaseExceptionGroup):
        return type(value).__name__, value.message, [shown(e) for e in value.exceptions], lines(value)
    if isinstance(value, BaseException):
        return type(value).__name__, [shown(a) for a in value.args], lines(value), shown(value.__context__), shown(value.__cause__)
    if isinstance(value, type):
        return value.__qualname__, value.__module__, value.__doc__, [b.__name__ for b in value.__mro__], list(vars(value))
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return [(shown(key), shown(each)) for key, each in value.items()]
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__, value.__module__
    return value if isinstance(value, (int, float, str, type(None))) else (type(value).__name__, shown(getattr(value, "__dict__", None)))


def lines(error):
    return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__) if entry.name != "outcome"]


def outcome(function, x):
    del log[:]
    try:
        result = function(x)
    except BaseException as error:
        result = error
    return shown(result), list(log)


# ---- Programs --------------------------------------------------------------------------------------------------------


def class_as_it_is(x):
    class Thing(Base):
        "Some words."
        count: int = 3
        other: "str"

        def method(self, a: int = 2) -> float:
            "More words."
            return super().f()

        @property
        def p(self):
            "What p is."
            return 1

        @p.deleter
        def p(self):
            log.append("deleted")
        s = staticmethod(lambda: 4)
        x = x * 2
    del Thing().p
    return (Thing, Thing.method, Thing.__annotations__, Thing.p.__doc__, Thing.method.__doc__, Thing.method.__annotations__,
            Thing().method(), Thing.s(), Thing.x)


def raises_in_the_body(x):
    class Broken:
        a = 1
        b = missing  # noqa: F821
    return x


def caught_in_the_body(x):
    try:
        class Broken:
            a = [1][4]
    except IndexError as error:
        return x, str(error), len(traceback.extract_tb(error.__traceback__))


def raises_in_a_method(x):
    class Thing:
        def method(self, n):
            if n == 0:
                raise ValueError(n)
            return self.method(n - 1)
    return Thing().method(2)


def prints_in_the_body(x):
    class Loud:
        log.append("body")
        a = x + 1
    return Loud.a, Loud.__name__


def break_after_the_statement(x):
    class Thing(Base):
        def __init__(self, x):
            self.x = x * 2
    made = Thing(x)
    kt._dynamo.graph_break()
    other = Thing(made.x)
    return other.x, type(made) is type(other), isinstance(made, Thing), Thing.__name__


def recursive_class(x):
    class Node:
        def __init__(self, value, rest=None):
            self.value, self.rest = value, rest

        def prepend(self, value):
            return Node(value, self)

        def total(self):
            return self.value if self.rest is None else self.value + self.rest.total()
    nodes = Node(x).prepend(1).prepend(2)
    return nodes.total(), nodes.rest.value, [Node]


def class_in_a_loop(x):
    classes = []
    for i in range(3):
        class Each:
            number = i

            def f(self, y):
                return y * self.number + i
        classes.append(Each)
    return [each().f(x) for each in classes], [each.number for each in classes], len(set(classes))


def noticed_class(x):
    class Child(Noticed, key=1):
        pass
    return x + 1, Child


def class_with_a_field(x):
    class Owner:
        a = Field()

        def __init__(self):
            self.__dict__["a"] = x * 2
    return Owner().a


def class_with_a_metaclass(x):
    class Made(metaclass=Meta, word="w"):
        a = 1

        def f(self):
            return x
    return Made().f(), Made.a, type(Made).__name__


def enum_in_a_function(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        def scaled(self, x):
            return x * self.value
    return Color.BLUE.scaled(x), [c.name for c in Color], Color(1).name


def dataclass_in_a_function(x):
    @dataclasses.dataclass
    class Pair:
        a: int
        b: object = None

        def total(self):
            return self.a + 1
    return Pair(x, 2).total(), Pair(1, 2) == Pair(1, 2), repr(Pair(1)), Pair.__match_args__


def dataclass_with_fields(x):
    @dataclasses.dataclass
    class Pair:
        a: object
        b: list = dataclasses.field(default_factory=list)
        c: int = dataclasses.field(default=4, compare=False)
    p = Pair(x)
    p.b.append(p.c)
    return p.b, Pair(1).b, Pair(1, c=2) == Pair(1), repr(Pair(2)), [f.name for f in dataclasses.fields(Pair)]


def dataclass_of_all_kinds(x):
    made = []
    for frozen in (False, True):
        @dataclasses.dataclass(frozen=frozen, order=True)
        class Place(Base):
            row: int
            column: int = x.shape[0]

            def far(self):
                return self.row + self.column
        made.append(Place)
    try:
        made[1](1).row = 2
    except dataclasses.FrozenInstanceError as error:
        log.append(str(error))
    return [(m(1).far(), m(1) < m(2), m(1) == m(1), repr(m(3)), m.__doc__, m(1).f()) for m in made], made[0].__hash__, made


def dataclass_with_odd_defaults(x):
    try:
        @dataclasses.dataclass
        class Bad:
            a: int
            b: list = []
    except ValueError as error:
        log.append(str(error))

    @dataclasses.dataclass
    class Good:
        a: int
        b: object = x.shape
    return Good(1).b, Good.__doc__


class Told(type):
    def __set_name__(cls, owner, name):
        log.append((owner.__name__, name))


class Part(metaclass=Told):
    pass


def attribute_that_is_told(x):
    class Owner:
        part = Part
    return x + 1, Owner.part is Part


def wrapped_abstract(x):
    @abc.abstractmethod
    def area(self): ...

    class Shape(abc.ABC):
        @functools.wraps(area)
        def area(self):
            return 2
    try:
        return Shape().area()
    except TypeError as error:
        return x, str(error)


def slotted_dataclass(x):
    @dataclasses.dataclass(slots=True)
    class Slim:
        a: object = 1
        b: int = 2
    s = Slim(x)
    s.b += 1
    return s.a * s.b, hasattr(s, "__dict__"), Slim.__slots__, Slim


def named_tuples_of_all_kinds(x):
    a = collections.namedtuple("A", "p q", defaults=(x.shape[0],))
    b = collections.namedtuple("B", ["p", "class", "p"], rename=True)
    c = collections.namedtuple("C", "p", module="elsewhere")
    try:
        collections.namedtuple("D", "p p")
    except ValueError as error:
        log.append(str(error))
    one = a(1)
    return (one, a._make([1, 2]), one._asdict(), repr(one), b._fields, c.__module__, a._field_defaults, a.__doc__, a.p.__doc__,
            one == (1, 3), hash(one) == hash((1, 3)), one < a(2), [a, b, c], one._replace(p=5), a.__new__.__name__)


def fields_are_each_class_own(x):
    made = [collections.namedtuple("P", "a b") for _ in range(2)]
    fields = [m._fields for m in made]
    log.append((fields[0] is fields[1], fields[0] is made[0]._fields, made[0].__match_args__ is fields[0]))
    return made[0](1, 2), fields, made


def named_tuple_that_derives(x):
    class Point(collections.namedtuple("Point", "a b")):
        def total(self):
            return self.a + self.b
    return Point(x, 1).total(), Point(1, 2), Point.__mro__[1].__name__


def class_attributes_made_here(x):
    n = x.shape[0]

    class Sizes:
        pair = (n, n + 1)
        several = [n, pair]
        frozen = frozenset((n, 2))
        text = f"{n}"
    return Sizes.pair, Sizes().several, Sizes.frozen, Sizes.text, Sizes


def class_with_del(x):
    class Ending:
        def __del__(self):
            log.append("end")
    e = Ending()
    del e
    log.append("after")
    return x + 1


def body_with_locals(x):
    class Odd:
        a = 1
        names = sorted(key for key in locals() if not key.startswith("_"))
        locals()["b"] = 2
    return x, Odd.names, Odd.b


def nested_classes(x):
    class Outer:
        class Inner:
            n = 2

        def f(self):
            return self.Inner.n * x
    return Outer().f(), Outer.Inner.__qualname__


def global_in_a_body(x):
    class G:
        global made_global
        made_global = 5
        here = made_global + 1
    return x, G.here, hasattr(G, "made_global"), made_global


def class_that_shows_itself(x):
    class Self:
        me = None
    Self.me = Self
    return x, Self.me is Self


def class_over_bad_bases(x):
    try:
        class Bad(int, str):
            pass
    except TypeError as error:
        return x + 1, str(error)


def bad_slots(x):
    try:
        class Bad:
            __slots__ = ("a",)
            a = 1
    except ValueError as error:
        return x + 1, str(error)


def type_calls(x):
    made = [type("T", (), {"a": x}), type("U", (Base,), dict(f=lambda self: 3, __doc__="d"))]
    return made, made[1]().f(), made[0].a


def abstract_in_a_function(x):
    class Shape(abc.ABC):
        @property
        @abc.abstractmethod
        def size(self): ...

    class Square(Shape):
        size = 3
    try:
        return Shape()
    except TypeError as error:
        return str(error), Square().size * x, sorted(Shape.__abstractmethods__), Square()


def eq_without_hash(x):
    class Eq:
        def __eq__(self, other):
            return True
    try:
        {Eq(): 1}
    except TypeError as error:
        return x + 1, str(error), Eq() == 3, Eq.__hash__


def group_that_goes_on(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        log.append("value")
    return x


def group_raised_in_handlers(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2), OSError(3)])])
    except* ValueError as e:
        raise TypeError("new") from e
    except* KeyError:
        log.append("key")
        raise


def naked_goes_on(x):
    try:
        raise KeyError(x.shape[0])
    except* ValueError:
        log.append("no")


def naked_raised_again(x):
    try:
        raise KeyError(x.shape[0])
    except* KeyError as e:
        log.append(str(e))
        raise


def derived_group(x):
    try:
        raise Group("g", [ValueError(1), KeyError(2)])
    except* KeyError as e:
        log.append(type(e).__name__)


def group_with_notes(x):
    try:
        error = ExceptionGroup("g", [ValueError(1), KeyError(2)])
        error.add_note("n")
        raise error
    except* KeyError as e:
        log.append(e.__notes__)


def group_in_a_callee(x):
    def inner(n):
        raise ExceptionGroup("g", [ValueError(n), inner_error(n)])

    def inner_error(n):
        try:
            raise OSError(n)
        except OSError as error:
            return error
    try:
        inner(x.shape[0])
    except* OSError as e:
        log.append([str(i) for i in e.exceptions])
    except* ValueError as e:
        kt._dynamo.graph_break()
        log.append(len(lines(e)))
    return x * 2


def group_and_return(x):
    for i in range(3):
        try:
            if i:
                raise ExceptionGroup("g", [ValueError(i)])
        except* ValueError as e:
            x = x + i
            log.append(e.exceptions[0].args)
        finally:
            log.append(i)
    return x


def star_with_bad_class(x):
    try:
        raise ValueError(1)
    except* (ValueError, 3):
        pass


PROGRAMS = [each for name, each in list(globals().items())
            if callable(each) and getattr(each, "__code__", None) is not None and each.__code__.co_varnames[:1] == ("x",)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program(program):
    want = outcome(program, x3())
    fast = kt.compile(program)
    for _ in range(3):
        assert outcome(fast, x3()) == want


def test_fields_that_leave_are_those_of_the_class():
    def make(x):
        P = collections.namedtuple("P", "a b")
        return P, P._fields, P(x, 1)._fields
    fast = kt.compile(make)
    for _ in range(3):
        made, fields, same = fast(x3())
        assert made._fields is fields is same and made.__match_args__ is fields


# ---- What stays behind -----------------------------------------------------------------------------------------------


def test_each_call_makes_its_own_class_and_leaves_no_other():
    def make(x):
        class Child(Base):
            def f(self):
                return x
        return Child
    fast = kt.compile(make)
    gc.collect()
    before = len(Base.__subclasses__())
    made = [fast(x3()) for _ in range(4)]
    assert len(set(made)) == 4 and all(each().f().tolist() == [1, 2, 3] for each in made)
    assert len(Base.__subclasses__()) == before + 4  # no model is left among them
    watch = [weakref.ref(each) for each in made]
    del made
    gc.collect()
    assert [each() for each in watch] == [None] * 4


# ---- Caches and iterators from before --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 2, 0])
def test_cache_from_before(size):
    @functools.lru_cache(maxsize=size)
    def cached(a, b="b"):
        log.append(("computed", a))
        return [a, b]

    @functools.lru_cache(maxsize=size)
    def plain(a, b="b"):
        log.append(("computed", a))
        return [a, b]

    def f(x, cached):
        first, second, third = cached(1), cached(2, "c"), cached(1)
        return x * len(first), first is third, first is cached(1), second, cached("t"), cached(1.0), cached(True)
    fast = kt.compile(f)
    for _ in range(4):
        del log[:]
        want = shown(f(x3(), plain)), list(log)
        del log[:]
        assert (shown(fast(x3(), cached)), list(log)) == want
        assert cached.cache_info() == plain.cache_info()


def test_a_cache_that_builtins_call():
    @functools.cache
    def cached(n):
        log.append(n)
        return n * 2

    def f(x):
        found = list(filter(cached, range(3))), list(map(cached, range(3))), sorted([2, 0, 1], key=cached), any(map(cached, (0, 1)))
        return found, max([1, 2], key=cached), x * cached(2)
    want = outcome(f, x3())[0]
    cached.cache_clear()
    fast = kt.compile(f)
    for _ in range(3):
        assert outcome(fast, x3())[0] == want
    assert native["fallbacks"] == 0 or STRESS == "tiny_code_memory"


def test_a_hit_is_no_break():
    @functools.cache
    def cached(n):
        return n * 10
    cached(3)

    @kt.compile(fullgraph=True)
    def f(x):
        return x * cached(3)
    assert f(x3()).tolist() == [30, 60, 90] and f(x3()).tolist() == [30, 60, 90]
    assert cached.cache_info().hits == 2
    cached.cache_clear()
    with pytest.raises(kt._dynamo.exc.Unsupported):
        f(x3())


@pytest.mark.parametrize("make", [dict.fromkeys, set, lambda names: {n: n for n in names}.values(),
                                  lambda names: {n: len(n) for n in names}.items(), lambda names: enumerate({n: n for n in names})])
def test_iterators_from_before(make):
    def f(x, it):
        first = next(it)
        log.append(first)
        for each in it:
            log.append(each)
            if each == "stop":
                break
            x = x + 1
        return x, list(it)
    fast = kt.compile(f)
    for names in (["a", "b", "c"], ["a"], ["a", "b", "c"], ["q", "stop", "r", "s"], ["z"] * 2):
        want = outcome(lambda x: f(x, iter(make(names))), x3())
        assert outcome(lambda x: fast(x, iter(make(names))), x3()) == want


def test_a_dict_that_changes_under_its_iterator():
    def f(x, it, d):
        first = next(it)
        d[first + "!"] = 1
        try:
            next(it)
        except RuntimeError as error:
            return x + 1, str(error)
    fast = kt.compile(f)
    for _ in range(3):
        d, e = {"a": 1, "b": 2}, {"a": 1, "b": 2}
        assert shown(f(x3(), iter(d), d)) == shown(fast(x3(), iter(e), e)) and d == e


# ---- Keys ------------------------------------------------------------------------------------------------------------


class Counted:
    def __init__(self, name, number):
        self.name, self.number = name, number

    def __hash__(self):
        calls.append(("hash", self.name))
        return self.number

    def __eq__(self, other):
        calls.append(("eq", self.name, getattr(other, "name", other)))
        return self.name == getattr(other, "name", other)


calls = []


def keyed_calls(x):
    d = {Counted("a", 1): x, Counted("b", 1): x + 1, 1: "one"}
    d[Counted("a", 1)] = 5
    found = [Counted("c", 1) in d, d.get(Counted("b", 1)) is None, d.pop(Counted("zz", 4), None), 1 in d, 2 in d]
    d.setdefault(Counted("d", 9), 3)
    del d[Counted("b", 1)]
    return found, len(d), list(d.values())[:1], dict(d) == d, d.copy().keys() == d.keys()


def keyed_results(x):
    d = {}
    d[Counted("a", -1)] = 1
    d[Counted("b", -2)] = 2
    d[Counted("c", 2 ** 61 - 1)] = 3
    d[Counted("e", 2 ** 64)] = 4
    return [k.name for k in d], x + 1, 0 in d, d


@pytest.mark.parametrize("program", [keyed_calls, keyed_results])
def test_calls_of_hash_and_eq(program):
    def run(function):
        del calls[:]
        result = outcome(function, x3())
        return result, list(calls)
    want = run(program)
    fast = kt.compile(program)
    for _ in range(3):
        assert run(fast) == want
