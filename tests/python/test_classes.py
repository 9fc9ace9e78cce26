"""Classes and objects in the trace: each rule pressed by what programs do to classes between calls, and by what they raise. Plain
and compiled runs are compared; what has to be followed without a break is in language_classes.py."""
import abc
import collections.abc
import dataclasses
import enum
import gc
import types
import typing
import weakref

import pytest

import kintsugi as kt
from comparing import STRESS
from language_programs import x3
from test_expected_native import outcome

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


def result_of(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error), str(error), getattr(error, "name", None)


# ---- What changes between calls ------------------------------------------------------------------------------------
# make() answers a fresh (function, arguments, changes): each change is made before a further call.


def patched_method():
    class A:
        def f(self, x):
            return x + 1
    a = A()

    def other(self, x):
        return x * 10

    def restore():
        del a.f
    return (lambda x, o: o.f(x)), (x3(), a), [lambda: setattr(A, "f", other), lambda: setattr(a, "f", lambda x: x - 1), restore,
                                              lambda: setattr(A, "f", staticmethod(lambda x: x + 100)), lambda: delattr(A, "f")]


def attributes_come_and_go():
    class A:
        k = 1

        def __getattr__(self, name):
            return "dynamic " + name
    a = A()
    return (lambda x, o: (x + 1, o.k, o.gone, hasattr(o, "k"), getattr(o, "z", 5))), (x3(), a), [
        lambda: setattr(a, "k", 2), lambda: setattr(a, "gone", 3), lambda: delattr(a, "k"), lambda: delattr(A, "k"),
        lambda: delattr(A, "__getattr__"), lambda: setattr(a, "k", 4), lambda: setattr(A, "z", 6)]


def class_assigned():
    class A:
        def f(self):
            return "A"

    class B:
        def f(self):
            return "B"
    a = A()
    return (lambda x, o: (o.f(), x + 1, type(o).__name__, isinstance(o, A), o.__class__ is B)), (x3(), a), [
        lambda: setattr(a, "__class__", B), lambda: setattr(B, "__name__", "C"), lambda: setattr(B, "__bases__", (A,)) if 0 else None,
        lambda: setattr(a, "__class__", A)]


def bases_assigned():
    class Base1:
        def f(self):
            return 1

    class Base2:
        def f(self):
            return 2

    class A(Base1):
        def f(self):
            return super().f() * 10
    return (lambda x, o: (o.f() + x, A.__mro__[1].__name__, issubclass(A, Base2))), (x3(), A()), [
        lambda: setattr(A, "__bases__", (Base2,)), lambda: setattr(Base2, "f", lambda self: 3)]


def dict_replaced():
    class A:
        pass
    a = A()
    a.x, a.y = 1, 2
    return (lambda x, o: (o.x + x, o.y)), (x3(), a), [lambda: setattr(a, "__dict__", {"x": 5, "y": 6}), lambda: a.__dict__.pop("y"),
                                                       lambda: a.__dict__.update(y=9)]


def descriptor_appears():
    class D:
        def __init__(self, v):
            self.v = v

    class A:
        d = D(1)
    a = A()
    a.__dict__["d"] = "own"
    return (lambda x, o: (x + 1, o.d if isinstance(o.d, str) else o.d.v)), (x3(), a), [
        lambda: delattr(a, "d"), lambda: setattr(D, "__get__", lambda self, o, t: "got"), lambda: a.__dict__.update(d="own"),
        lambda: setattr(D, "__set__", lambda self, o, v: None), lambda: delattr(D, "__get__")]


def getattribute_appears():
    class A:
        k = 1
    return (lambda x, o: (x + 1, o.k)), (x3(), A()), [lambda: setattr(A, "__getattribute__", lambda self, name: "any " + name),
                                                       lambda: delattr(A, "__getattribute__")]


def operator_appears():
    class A:
        def __add__(self, other):
            return NotImplemented if other is None else "add"

    class B(A):
        pass
    return (lambda x, a, b: (x + 1, a + b, a == b, bool(a))), (x3(), A(), B()), [
        lambda: setattr(B, "__radd__", lambda self, other: "radd"), lambda: setattr(A, "__radd__", lambda self, other: "radd A"),
        lambda: delattr(B, "__radd__"), lambda: setattr(A, "__eq__", lambda self, other: "equal"),
        lambda: setattr(B, "__eq__", lambda self, other: NotImplemented), lambda: setattr(A, "__len__", lambda self: 0),
        lambda: setattr(A, "__bool__", lambda self: True)]


def slot_emptied():
    class A:
        __slots__ = ("x", "y")
    a = A()
    a.x = 1
    return (lambda x, o: (hasattr(o, "y"), o.x + x, getattr(o, "y", 3))), (x3(), a), [lambda: setattr(a, "y", 4), lambda: delattr(a, "y"),
                                                                                    lambda: delattr(a, "x")]


def subclass_arrives():
    class Base(collections.abc.Sized):
        pass

    class Late:
        def __len__(self):
            return 1

    class Odd:
        pass
    late = Late()
    return (lambda x, o: (isinstance(o, Base), isinstance(o, collections.abc.Sized), isinstance(o, Odd), x + 1)), (x3(), late), [
        lambda: Base.register(Late), lambda: setattr(late, "__class__", Odd), lambda: collections.abc.Sized.register(Odd)]


def hook_appears():
    class Base(abc.ABC):
        pass

    class A:
        pass
    return (lambda x, o: (isinstance(o, Base), x + 1)), (x3(), A()), [
        lambda: setattr(Base, "__subclasshook__", classmethod(lambda cls, sub: True)), lambda: Base.register(A)]


def members_added():
    class Kind(enum.IntFlag):
        A = 1
        B = 2
    return (lambda x, k: (k | Kind.B, x + 1, Kind(1), (k | Kind.B).value, k & Kind.B)), (x3(), Kind.A), [lambda: Kind(3), lambda: Kind(7)]


def function_changed():
    def f(x, k=1):
        return x + k
    f.extra = 1
    g = types_of(f)
    return (lambda x: (f(x), f.extra, f.__name__, f.__defaults__, f.__doc__, x + 1)), (x3(),), [
        lambda: setattr(f, "extra", 2), lambda: setattr(f, "__name__", "other"), lambda: setattr(f, "__defaults__", (5,)),
        lambda: setattr(f, "__doc__", "doc"), lambda: setattr(f, "__code__", g.__code__), lambda: delattr(f, "extra")]


def types_of(f):
    def g(x, k=1):
        return x * k
    return g


def metaclass_changed():
    class Meta(type):
        @property
        def p(cls):
            return "p"

    class A(metaclass=Meta):
        q = 1

        def __init__(self, x):
            self.x = x
    return (lambda x: (A(x).x + 1, A.p, A.q)), (x3(),), [
        lambda: setattr(Meta, "q", property(lambda cls: "meta")),
        lambda: setattr(Meta, "__call__", lambda cls, x: type.__call__(cls, x * 2)), lambda: setattr(Meta, "__getattr__", lambda cls, n: n),
        lambda: delattr(Meta, "q"), lambda: delattr(A, "q")]


def new_changed():
    class A:
        def __init__(self, x):
            self.x = x
    return (lambda x: A(x).x + 1), (x3(),), [lambda: setattr(A, "__new__", lambda cls, x: object.__new__(cls)),
                                              lambda: setattr(A, "__init__", lambda self, x: setattr(self, "x", x * 2)),
                                              lambda: delattr(A, "__init__")]


def metaclass_assigned():
    class First(type):
        tag = 1

        def __len__(cls):
            return 2

        def __iter__(cls):
            return iter("ab")

        def __call__(cls):
            return "first"

        def __instancecheck__(cls, other):
            return True

    class Second(type):
        tag, more = 2, 3

        def __eq__(cls, other):
            return True

        def __hash__(cls):
            return 3

        def __or__(cls, other):
            return "or"

    class A(metaclass=First):
        pass

    class B(metaclass=First):
        pass

    class Holder:
        held = A

    def f(x):
        try:
            size = len(A), list(A), *A
        except TypeError as error:
            size = str(error)
        return (x + 1, A.tag, hasattr(A, "more"), size, bool(A), type(A()).__name__, isinstance(3, A), A == B, {A: 1}.get(B),
                type(A | B).__name__, Holder.held is A, Holder().held is A)
    return f, (x3(),), [lambda: setattr(A, "__class__", Second), lambda: setattr(B, "__class__", Second),
                        lambda: setattr(A, "__class__", First), lambda: setattr(First, "__get__", lambda *_: "got")]


def metaclass_of_a_base_assigned():
    class First(type):
        def __init__(cls, *rest):
            cls.made_by = 1

    class Second(type):
        def __new__(meta, *rest):
            made = super().__new__(meta, *rest)
            made.made_by = 2
            return made

    class A(metaclass=First):
        pass

    def f(x):
        class B(A):
            pass
        return x + 1, B.made_by, type(B).__name__
    return f, (x3(),), [lambda: setattr(A, "__class__", Second), lambda: setattr(A, "__class__", First)]


def module_class_assigned():
    class Kind(types.ModuleType):
        a = property(lambda self: 5)

        def __getattr__(self, name):
            return name
    m = types.ModuleType("m")
    m.a = 1
    return (lambda x: (x * m.a, hasattr(m, "b"), getattr(m, "b", 0))), (x3(),), [
        lambda: setattr(m, "__class__", Kind), lambda: setattr(m, "__class__", types.ModuleType)]


def class_renamed():
    class A:
        def __eq__(self, other):
            return True

    class E(Exception):
        pass

    def f(x, a):
        texts = []
        for act in (lambda: a.lacks, lambda: A.lacks, lambda: delattr(a, "lacks"), lambda: {a: 1}):
            try:
                act()
            except (AttributeError, TypeError) as error:
                texts.append(str(error))
        try:
            raise E(3)
        except E as error:
            return x + 1, texts, repr(error)
    return f, (x3(), A()), [lambda: setattr(A, "__name__", "Renamed"), lambda: setattr(E, "__name__", "Other")]


def property_gets_other_parts():
    class Odd(property):
        @property
        def fget(self):
            asked.append("fget")
            return lambda self: "odd"

    class A:
        p = property(lambda self: 1, lambda self, value: setattr(self, "set", value))
        q = Odd(lambda self: 2)
    asked, p = [], A.p

    def f(x, o):
        o.p = 5
        return x + 1, o.p, o.q, vars(o), asked
    return f, (x3(), A()), [lambda: p.__init__(lambda self: 3, p.fset),
                            lambda: p.__init__(p.fget, lambda self, value: setattr(self, "other", value)),
                            lambda: p.__init__(lambda self: 4)]


CHANGES = [patched_method, attributes_come_and_go, class_assigned, bases_assigned, dict_replaced, descriptor_appears, getattribute_appears,
           operator_appears, slot_emptied, subclass_arrives, hook_appears, members_added, function_changed, metaclass_changed, new_changed,
           metaclass_assigned, metaclass_of_a_base_assigned, module_class_assigned, class_renamed, property_gets_other_parts]


@pytest.mark.parametrize("make", CHANGES, ids=lambda make: make.__name__)
def test_changes_between_calls(make):
    def run(compiling):
        function, arguments, changes = make()
        if compiling:
            function = kt.compile(function)
        results = [result_of(function, *arguments) for _ in range(2)]
        for change in changes:
            change()
            results += [result_of(function, *arguments) for _ in range(2)]
        return results
    assert run(True) == run(False)
    assert native["fallbacks"] == 0


# ---- What raises, what breaks --------------------------------------------------------------------------------------


class Base:
    def __init__(self, x=None):
        self.x = x

    @property
    def breaks(self):
        kt._dynamo.graph_break()
        return self.x * 2

    @breaks.setter
    def breaks(self, value):
        kt._dynamo.graph_break()
        self.x = value

    @property
    def fails(self):
        raise ValueError("from a getter")

    @property
    def misses(self):
        return self.nothing

    @property
    def only(self):
        return 1

    def __add__(self, other):
        kt._dynamo.graph_break()
        return NotImplemented if other == "no" else self.x + 1

    def __lt__(self, other):
        return NotImplemented

    def __sub__(self, other):
        return NotImplemented

    __mul__ = None
    __hash__ = None

    def __len__(self):
        return -1

    def __getitem__(self, key):
        kt._dynamo.graph_break()
        return key


class Fallback(Base):
    def __getattr__(self, name):
        if name == "deep":
            raise AttributeError("no deep")
        return name

    def __radd__(self, other):
        return "reflected"

    def __rsub__(self, other):
        return "reflected"


class Strict:
    __slots__ = ("a",)


class Initialized:
    def __init__(self):
        return 3


class Newer:
    def __new__(cls, x):
        return super().__new__(cls)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self):
        ...


class Wrong:
    def __bool__(self):
        return 3

    def __str__(self):
        return 5

    def __index__(self):
        return "x"

    def __float__(self):
        return 1

    def __contains__(self, item):
        return "yes" if item else []

    def __eq__(self, other):
        return "equal"

    def __ne__(self, other):
        return ""


class Faulty:
    def __get__(self, instance, owner):
        raise KeyError("descriptor")

    def __set__(self, instance, value):
        raise TypeError("set")


class WithFaulty:
    f = Faulty()


class Cyclic:
    def __init__(self):
        self.self = self


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1


class Color(enum.Enum):
    RED = 1


class Row(typing.NamedTuple):
    a: int
    b: int = 2


def cyclic(x):
    c = Cyclic()
    c.x = x + 1
    return c.self.self.x, c.self is c


def shadowed_by_alias(x, o):
    alias = o
    o.x = 1
    alias.x += 1
    o.y = alias.x
    del alias.x
    return hasattr(o, "x"), o.y, x + 1


def dict_of_instance(x, o):
    d = o.__dict__
    o.x = 5
    d["y"] = 6
    return o.x, o.y, d, vars(o) is d, x + 1


def order_of_effects(x, log):
    class_ = Logger(log)
    class_["a"] = class_["b"]
    class_.v = class_ + class_
    return log, x + 1


class Logger:
    def __init__(self, log):
        object.__setattr__(self, "log", log)

    def __getitem__(self, key):
        self.log.append(("get", key))
        return key

    def __setitem__(self, key, value):
        self.log.append(("set", key, value))

    def __setattr__(self, name, value):
        self.log.append(("attr", name, value))

    def __add__(self, other):
        self.log.append("add")
        return 1


RULES = [
    lambda x: Base(x).breaks + 1, lambda x: setattr(Base(x), "breaks", 3), lambda x: Base(x).fails, lambda x: Base(x).misses,
    lambda x: Fallback(x).misses, lambda x: Fallback(x).deep, lambda x: getattr(Fallback(x), "deep", x), lambda x: hasattr(Fallback(x), "deep"),
    lambda x: hasattr(Base(x), "misses"), lambda x: getattr(Base(x), "misses", 3), lambda x: getattr(Base(x), "fails", 3),
    lambda x: Base(x) + x, lambda x: Base(x) + "no", lambda x: Base(x) + Fallback(x), lambda x: Fallback(x) + Base(x), lambda x: x + Fallback(x),
    lambda x: Base(x) - 1, lambda x: Base(x) - Fallback(x), lambda x: Base(x) * 2, lambda x: 2 * Base(x), lambda x: Base(x) < Base(x),
    lambda x: Base(x) < 1, lambda x: Base(x) @ Base(x), lambda x: Base(x) ** 2, lambda x: -Base(x), lambda x: Base(x) | None, lambda x: Base(x)[x],
    lambda x: len(Base(x)), lambda x: bool(Base(x)), lambda x: {Base(x): 1}, lambda x: hash(Base(x)), lambda x: Base(x)(1), lambda x: abs(Base(x)),
    lambda x: int(Base(x)), lambda x: float(Base(x)), lambda x: [1][Base(x)], lambda x: 1 in Base([1]), lambda x: setattr(Base(x), "only", 1),
    lambda x: delattr(Base(x), "only"), lambda x: delattr(Base(x), "y"), lambda x: Base.nothing, lambda x: Base(x, 1, 2), lambda x: Base(y=x),
    lambda x: Strict().a, lambda x: setattr(Strict(), "b", 1), lambda x: delattr(Strict(), "a"), lambda x: Strict(1), lambda x: Strict().__dict__,
    lambda x: Initialized(), lambda x: Newer(), lambda x: Newer(x), lambda x: Newer(x, 1), lambda x: Abstract(), lambda x: object(1),
    lambda x: object.__new__(int), lambda x: object.__new__(Abstract), lambda x: object.__new__(Strict, 1), lambda x: tuple.__new__(Row, (1, 2, x)),
    lambda x: bool(Wrong()), lambda x: 1 if Wrong() else 2, lambda x: str(Wrong()), lambda x: f"{Wrong()}", lambda x: [1][Wrong()],
    lambda x: float(Wrong()), lambda x: (1 in Wrong(), 0 in Wrong(), 0 not in Wrong()), lambda x: (Wrong() == 1, Wrong() != 1, 1 == Wrong()),
    lambda x: [Wrong()] == [1], lambda x: f"{Base(x):>3}", lambda x: WithFaulty().f, lambda x: WithFaulty.f, lambda x: setattr(WithFaulty(), "f", 1),
    lambda x: hasattr(WithFaulty(), "f"), lambda x: super(Base, x), lambda x: super(int, Base(x)).x, lambda x: super(Fallback, Fallback(x)).zip,
    lambda x: super(Fallback, Fallback(x)).only, lambda x: isinstance(x, 3), lambda x: isinstance(1, (int, 3)), lambda x: isinstance("", (int, 3)),
    lambda x: issubclass(1, int), lambda x: isinstance(1, list[int]), lambda x: int | 3, lambda x: isinstance(None, int | None),
    lambda x: setattr(Frozen(), "a", 2), lambda x: delattr(Frozen(), "a"), lambda x: dataclasses.replace(Frozen(), a=3).a,
    lambda x: dataclasses.replace(Frozen(), b=3), lambda x: dataclasses.asdict(Frozen(2)), lambda x: repr(Frozen(1)), lambda x: Color(2),
    lambda x: Color["BLUE"], lambda x: Color.BLUE, lambda x: Color.RED.nothing, lambda x: setattr(Color.RED, "name", "b"), lambda x: Color(),
    lambda x: [c.name for c in Color], lambda x: Color.RED < Color.RED, lambda x: Row(), lambda x: Row(1)._replace(b=5), lambda x: Row(1)._replace(c=5),
    lambda x: Row(1)._asdict(), lambda x: Row(1)[3], lambda x: Row(1).c, lambda x: setattr(Row(1), "a", 3), lambda x: Row(x, 2)[0] + 1,
    lambda x: (Row(1) is Row(1), Row(1) == Row(1), Row(1) == (1, 2), Row(1)[:], Row(1)[0:2] == Row(1), Row(1) + (), Row(1) * 1),
    lambda x: type(Row(1)[:]).__name__, lambda x: cyclic(x), lambda x: [].append, lambda x: [1].__len__, lambda x: int | str, lambda x: x.nothing,
    lambda x: int | str | None, lambda x: [getattr(None, name, 5) for name in ("__dir__", "__bool__", "__class__", "gone")], lambda x: (int | int) is int, lambda x: Base.__init__, lambda x: Base(x).__init__, lambda x: super(Fallback, Fallback(x)),
    lambda x: [m() for m in (Row(1).count,)] if 0 else Row(1).count(2), lambda x: Row(1).index(2), lambda x: type(x)(),
]


@pytest.mark.parametrize("number", range(len(RULES)))
def test_rule(number):
    rule = RULES[number]

    def f(x):
        y = x * 2
        return y, rule(y), y + 1

    def shown(function):
        try:
            y, got, z = function(x3())
            text = repr(got)
            return repr(y), repr(z), type(got), text.split(" at 0x")[0]
        except Exception as error:
            frames, place = [], error.__traceback__
            while place is not None:
                frames.append((place.tb_frame.f_code.co_name, place.tb_lineno))
                place = place.tb_next
            return type(error), str(error).split(" at 0x")[0], getattr(error, "name", None), frames[1:]
    want = shown(f)
    fast = kt.compile(f)
    for _ in range(3):
        assert shown(fast) == want
    assert native["fallbacks"] == 0


MUTATIONS = [
    (shadowed_by_alias, lambda: (x3(), Base())), (dict_of_instance, lambda: (x3(), Base())), (order_of_effects, lambda: (x3(), [])),
]


@pytest.mark.parametrize("row", MUTATIONS, ids=lambda row: row[0].__name__)
def test_mutation(row):
    function, make = row
    want = outcome(function, make)
    fast = kt.compile(function)
    for _ in range(3):
        assert outcome(fast, make) == want


def test_an_object_and_its_dict_are_one():
    def by_dict(x, o, d):
        d["x"] = x
        return o.x + 1

    def by_object(x, o, d):
        o.x = x
        return d["x"] + 1
    for f in (by_dict, by_object):
        fast = kt.compile(f)
        for _ in range(2):
            for shared in (False, True, False, True):
                o = Base(x3() * 0)
                d = o.__dict__ if shared else {"x": x3() * 7}
                o2 = Base(x3() * 0)
                d2 = o2.__dict__ if shared else {"x": x3() * 7}
                assert repr(fast(x3(), o, d)) == repr(f(x3(), o2, d2))


class Dying:
    log = []

    def __init__(self, x, name):
        self.x, self.name = x, name

    def __del__(self):
        self.log.append(self.name)


def test_finalizers_run_where_plain_code_runs_them():
    def f(x, log):
        a = Dying(x, "a")
        log.append("made")
        a = Dying(x + 1, "b")
        log.append("again")
        y = a.x
        del a
        log.append("deleted")
        return y * 2

    def run(function):
        Dying.log = log = []
        return repr(function(x3(), log)), log
    want = run(f)
    fast = kt.compile(f)
    for _ in range(3):
        assert run(fast) == want


def test_objects_of_the_trace_are_seen_by_weak_references():
    def f(x, keep):
        a = Base(x * 2)
        keep.append(weakref.ref(a))
        alive = keep[0]() is a
        return a.x + 1, alive
    fast = kt.compile(f)
    for _ in range(3):
        keep = []
        y, alive = fast(x3(), keep)
        assert alive and keep[0]() is None and y.tolist() == [3.0, 5.0, 7.0]


def test_a_class_that_dies_takes_its_segments():
    def make():
        class Local:
            def __init__(self, x):
                self.x = x
        return Local
    holder = {}

    def f(x):
        made = holder["class"](x)
        holder["class"] = None  # the last name of the class goes while an instance is still to be made
        holder["made"] = made
        return x + 1
    fast = kt.compile(f)
    for _ in range(4):
        holder["class"] = make()
        watch = weakref.ref(holder["class"])
        assert fast(x3()).tolist() == [2.0, 3.0, 4.0]
        assert type(holder["made"]).__name__ == "Local" and holder["made"].x.tolist() == [1.0, 2.0, 3.0]
        del holder["made"]
        gc.collect()
        assert watch() is None


def test_bound_builtin_outlives_its_list():
    def f(x, box):
        append = box.pop()
        append(x * 2)
        return append.__self__ if False else x + 1
    fast = kt.compile(f)
    for _ in range(4):
        out = []
        assert fast(x3(), [out.append]).tolist() == [2.0, 3.0, 4.0]
        assert out[0].tolist() == [2.0, 4.0, 6.0]

    def g(x, box):
        made = box[0]
        box[0] = None
        return made, x + 1
    fast = kt.compile(g)
    for _ in range(4):
        method, _ = fast(x3(), [[5].copy])
        assert method() == [5] and type(method) is type(len)


def test_an_import_in_a_function_made_in_the_trace():
    def f(x):
        def inner(y):
            import math
            return y + math.pi
        return inner(x * 2)
    fast = kt.compile(f)
    assert repr(fast(x3())) == repr(f(x3()))


@pytest.mark.skipif(STRESS == "break_everywhere", reason="there the reason is another")
def test_reasons_name_what_was_disabled():
    @kt.compiler.disable(reason="reads a sensor")
    def sensor(x):
        return x

    def f(x):
        return sensor(x * 2) + 1
    (reason,) = kt._dynamo.explain(f)(x3()).break_reasons
    assert "sensor is wrapped with kt.compiler.disable, reason: reads a sensor" in str(reason.reason)
