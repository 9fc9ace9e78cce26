"""Classes whose making calls code: programs that press on the order, the errors and what is left behind, against plain runs.
What is followed without a break is in language_making.py."""
import abc
import functools
import gc
import operator
import pickle
import sys
import typing
import weakref

import pytest

import kintsugi as kt
from language_programs import x3
from test_definitions import log, outcome

pytestmark = pytest.mark.usefixtures("fresh")


class Told:
    wants = ()

    def __init_subclass__(cls, /, fail=False, **named):
        log.append(("told", cls.__name__, sorted(vars(cls)) if False else cls.__qualname__, named))
        if fail:
            raise ValueError("told to fail")
        super().__init_subclass__(**named)


class Named:
    def __init__(self, fail=False):
        self.fail = fail

    def __set_name__(self, owner, name):
        log.append(("named", owner.__name__, name))
        if self.fail:
            raise KeyError(name)
        self.name = name

    def __repr__(self):
        return "Named()"


class Loud(type):
    def __new__(meta, name, bases, names, /, **named):
        log.append(("new", name, named))
        made = super().__new__(meta, name, bases, names, **named)
        log.append(("made", made.__name__))
        return made

    def __init__(cls, name, bases, names, **named):
        log.append(("init", cls.__name__, named))
        super().__init__(name, bases, names)

    def __call__(cls, *arguments):
        log.append(("call", cls.__name__))
        return super().__call__(*arguments)


class Other(type):
    pass


# ---- Programs --------------------------------------------------------------------------------------------------------


def in_order(x):
    class Made(Told, metaclass=Loud):
        a = Named()
        b = Named()

        def me(self):
            return __class__
    return Made.a.name, Made.b.name, Made().me() is Made, x + 1


def in_order_of_a_class_made_here(x):
    class Meta(type):
        def __new__(meta, name, bases, names, **named):
            log.append("new")
            return type.__new__(meta, name, bases, names, **named)

    class Base(metaclass=Meta):
        def __init_subclass__(cls, **named):
            log.append((cls.__name__, named, super().__init_subclass__()))

    class Child(Base, k=1):
        pass
    return type(Child) is Meta, Child, x + 1


def told_fails(x):
    class Made(Told, fail=True):
        pass
    return Made


def told_fails_and_is_caught(x):
    try:
        class Made(Told, fail=True):
            pass
    except ValueError as error:
        return str(error), x + 1


def named_fails(x):
    class Made:
        a = Named()
        b = Named(fail=True)
    return Made


def named_fails_and_is_caught(x):
    try:
        class Made:
            b = Named(True)
    except RuntimeError as error:
        return str(error), repr(error.__cause__), x + 1


def metaclass_fails(x):
    class Bad(type):
        def __new__(meta, name, bases, names):
            made = super().__new__(meta, name, bases, names)
            log.append(made.__name__)
            raise OSError("no")

    class Made(metaclass=Bad):
        pass


def body_fails_after_a_change(x):
    class Made(Told):
        log.append("in the body")
        log.append("again")
        raise LookupError("body")


def object_refuses_keywords(x):
    try:
        class Made(word=1):
            pass
    except TypeError as error:
        return str(error), x + 1


def told_refuses_keywords(x):
    try:
        class Made(Told, word=1):
            pass
    except TypeError as error:
        return str(error), x + 1


def metaclasses_in_conflict(x):
    class A(metaclass=Loud):
        pass

    class B(metaclass=Other):
        pass
    try:
        class C(A, B):
            pass
    except TypeError as error:
        return str(error), x + 1


def metaclass_of_a_base_wins(x):
    class A(metaclass=Loud):
        pass

    class B(A, metaclass=type):
        pass
    return type(B) is Loud, x + 1


def metaclass_that_is_a_function(x):
    def make(name, bases, names, **named):
        log.append((name, named))
        return type(name, bases, dict(names))

    class Made(metaclass=make, k=1):
        a = 2
    return Made.a, x + 1


def metaclass_that_forgets_the_cell(x):
    class Bad(type):
        def __new__(meta, name, bases, names):
            return super().__new__(meta, name, bases, {k: v for k, v in names.items() if k != "__classcell__"})
    try:
        class Made(metaclass=Bad):
            def me(self):
                return __class__
    except RuntimeError as error:
        return str(error).split(" as ")[0], x + 1


def metaclass_that_answers_another(x):
    class Bad(type):
        def __new__(meta, name, bases, names):
            type.__new__(meta, name, bases, names)
            return Told
    try:
        class Made(metaclass=Bad):
            def me(self):
                return __class__
    except TypeError as error:
        log.append(str(error).replace("test_class_making.", ""))

    class Plain(metaclass=Bad):
        pass

    class Number(metaclass=lambda *arguments: 3):
        pass
    return Plain is Told, Number, x + 1


def metaclass_that_breaks(x):
    class Meta(type):
        def __new__(meta, name, bases, names):
            made = super().__new__(meta, name, bases, names)
            kt._dynamo.graph_break()
            log.append(made.__name__)
            return made

        def __init__(cls, name, bases, names):
            kt._dynamo.graph_break()
            cls.started = True

    class Made(metaclass=Meta):
        def me(self):
            return __class__
    return Made().me() is Made, Made.started, x + 1


def told_breaks(x):
    class Base:
        def __init_subclass__(cls):
            kt._dynamo.graph_break()
            cls.told = True

    class Made(Base):
        def me(self):
            return super().__init__
    return Made.told, Made.__mro__[1] is Base, Made().me() is not None, x + 1


def new_breaks_with_a_cell(x):
    class Meta(type):
        def __new__(meta, name, bases, names):
            kt._dynamo.graph_break()
            return super().__new__(meta, name, bases, names)

    class Made(metaclass=Meta):
        def me(self):
            return __class__
    return Made().me() is Made, x + 1


def new_breaks_and_forgets_the_cell(x):
    class Meta(type):
        def __new__(meta, name, bases, names):
            kt._dynamo.graph_break()
            names.pop("__classcell__", None)
            return super().__new__(meta, name, bases, names)

    class Made(metaclass=Meta):
        def me(self):
            return __class__


def prepared_with_a_mapping(x):
    class Names(dict):
        def __setitem__(self, key, value):
            log.append(key)
            super().__setitem__(key, value)

    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return Names()

        def __new__(meta, name, bases, names):
            return super().__new__(meta, name, bases, dict(names))

    class Made(metaclass=Meta):
        a = 1
        a = 2
    return Made.a, x + 1


def prepared_outside(x):
    names = {"a": 1}

    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return names

    class Made(metaclass=Meta):
        b = a + 1  # noqa: F821
    return sorted(k for k in names if k[0] != "_"), Made.b, x + 1


def names_changed_after(x):
    class Meta(type):
        def __new__(meta, name, bases, names):
            made = super().__new__(meta, name, bases, names)
            names["late"] = 1
            made.early = names
            return made

    class Made(metaclass=Meta):
        a = [1]
    Made.early["a"].append(2)
    return hasattr(Made, "late"), Made.a, Made.early["late"], x + 1


def told_changes_the_class(x):
    class Base:
        def __init_subclass__(cls):
            cls.f = lambda self: x * 3
            cls.__doc__ = "told"
            for name in ("p", "q"):
                setattr(cls, name, property(lambda self, name=name: name))
            if "gone" in cls.__dict__:
                del cls.gone

    class Made(Base):
        gone = 1
    return Made().f(), Made.__doc__, Made().p, Made().q, hasattr(Made, "gone")


def told_of_annotations(x):
    class Base:
        def __init_subclass__(cls):
            cls.fields = tuple(cls.__annotations__)
            cls.__slots__ = ()

    class Made(Base):
        a: int
        b: str = "b"
    return Made.fields, Made.b, x + 1


def descriptor_that_counts(x):
    class Typed:
        def __init__(self, kind):
            self.kind = kind

        def __set_name__(self, owner, name):
            self.slot = f"_{name}"

        def __get__(self, one, owner=None):
            return self if one is None else one.__dict__[self.slot]

        def __set__(self, one, value):
            if not isinstance(value, self.kind):
                raise TypeError(f"{self.slot[1:]} must be {self.kind.__name__}")
            one.__dict__[self.slot] = value

    class Made:
        a = Typed(int)
        b = Typed(str)

        def __init__(self, a, b):
            self.a, self.b = a, b
    m = Made(1, "b")
    try:
        m.b = 2
    except TypeError as error:
        return m.a, m.b, str(error), Made.a.slot, x + 1


@functools.lru_cache(maxsize=None)
def remembered(n):
    return n * 3


getter = operator.itemgetter(1)


def objects_of_builtin_classes(x):
    class Base:
        def __init_subclass__(cls, flag=remembered, **more):
            cls.flag = flag
            cls.more = more

    class Made(Base, other=getter):
        kept = functools.partial(remembered, 3)
        get = getter
    return Made.flag(2), Made.more["other"]((1, 2)), Made.kept(), Made.get((3, 4)), x + 1


def cached_property_in_a_class(x):
    class Made:
        @functools.cached_property
        def p(self):
            log.append("once")
            return x * 2
    m = Made()
    return m.p, m.p, Made.p.attrname


def class_as_a_decorator_of_methods(x):
    class Keep:
        def __init__(self, function):
            self.function = function

        def __set_name__(self, owner, name):
            log.append((owner.__name__, name))
            setattr(owner, name, self.function)

    class Made:
        @Keep
        def f(self):
            return x * 4
    return Made().f(), type(Made.__dict__["f"]).__name__


def leaves_no_class_behind(x):
    class Base:
        def __init_subclass__(cls):
            log.append(cls.__name__)

    class A(Base):
        a = Named()

    class B(Base):
        pass
    return [each.__name__ for each in Base.__subclasses__()], x + 1


def subclasses_of_before(x):
    class Made(Told):
        a = Named()
    name = Made.__name__
    del Made
    return name, x + 1


def weak_references(x):
    class Made(Told):
        a = Named()
    kept = weakref.ref(Made)
    same = kept() is Made
    del Made
    gc.collect()
    return same, kept() is None, x + 1


def bodies_that_change(x):
    seen, table = [], {}

    class Made:
        seen.append(1)
        table["a"] = 2
        for i in range(2):
            seen.append(i)
        log.append("body")
        n = len(seen)
    return seen, table, Made.n, x + 1


def body_that_changes_and_computes(x):
    class Made:
        log.append(1)
        y = x * 2
        log.append(y.sum().item() > 3)
    return Made.y


def made_in_a_comprehension(x):
    def make(i):
        class Made(Told, metaclass=Loud):
            n = i
        return Made
    return [c.n for c in map(make, range(2))], sorted((make(i) for i in (2, 1)), key=lambda c: c.n)[0].n, x + 1


def abstract_with_a_metaclass(x):
    class Meta(abc.ABCMeta):
        def __new__(meta, name, bases, names, **named):
            made = super().__new__(meta, name, bases, names, **named)
            made.tag = name
            return made

    class Shape(metaclass=Meta):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def area(self):
            return x * 2
    try:
        Shape()
    except TypeError as error:
        log.append(str(error))
    return Square().area(), Square.tag, isinstance(Square(), Shape), Shape.__abstractmethods__


class ToldOfAbstract(abc.ABC):
    def __init_subclass__(cls):
        log.append((hasattr(cls, "__abstractmethods__"), "__abstractmethods__" in cls.__dict__))
        if "more" in cls.__dict__:
            cls.f = abc.abstractmethod(lambda self: 0)
        if "less" in cls.__dict__:
            del cls.less
            cls.made = cls()


class NamesAbstract:
    def __set_name__(self, owner, name):
        log.append("__abstractmethods__" in owner.__dict__)


def abstract_after_it_is_told(x):
    class Made(ToldOfAbstract):
        @abc.abstractmethod
        def f(self): ...
    return sorted(Made.__abstractmethods__), x + 1


def abstract_by_what_it_is_told(x):
    class Made(ToldOfAbstract):
        more = 1
    return sorted(Made.__abstractmethods__), Made()


def abstract_no_more(x):
    class Made(ToldOfAbstract):
        @abc.abstractmethod
        def less(self): ...
    return sorted(Made.__abstractmethods__), type(Made.made) is Made


def abstract_and_told_fails(x):
    class Base(abc.ABC):
        def __init_subclass__(cls, **named):
            log.append(named)
            raise ValueError(cls.__name__)
    try:
        class Made(Base, a=1):
            pass
    except ValueError as error:
        return str(error), [each.__name__ for each in Base.__subclasses__()], x + 1


def abstract_and_told_fails_for_good(x):
    class Made(ToldOfAbstract):
        more = less = abc.abstractmethod(lambda self: 1 // 0)


def abstract_after_it_is_named(x):
    class Made(abc.ABC):
        a = NamesAbstract()
    return sorted(Made.__abstractmethods__), x + 1


def generic_and_protocol(x):
    class Box(typing.Generic[typing.TypeVar("T")]):
        pass

    class Sized(typing.Protocol):
        def size(self): ...

    class Impl(Sized):
        def size(self):
            return x
    return Impl().size(), Box[int].__origin__ is Box


def singleton(x):
    class Single(type):
        made = {}

        def __call__(cls, *arguments):
            if cls not in cls.made:
                cls.made[cls] = super().__call__(*arguments)
            return cls.made[cls]

    class One(metaclass=Single):
        def __init__(self, v):
            self.v = v
    return One(x) is One(2), One(3).v


def getattr_of_a_metaclass(x):
    class Meta(type):
        def __getattr__(cls, name):
            return name + "!"

        def __setattr__(cls, name, value):
            log.append(name)
            super().__setattr__(name, value)

        def __len__(cls):
            return 4

        def __iter__(cls):
            return iter(("a", "b"))

    class Made(metaclass=Meta):
        pass
    Made.b = 3
    return Made.a, Made.b, len(Made), list(Made), x + 1


def type_new_by_hand(x):
    Made = type.__new__(Loud, "Made", (Told,), {"a": 1}, k=2)
    Two = type("Two", (Told,), {"b": Named()})
    return Made.a, Made.__module__, type(Made) is Loud, Two.b.name, x + 1


def not_the_most_derived(x):
    class Meta(Loud):
        pass

    class Base(metaclass=Meta):
        pass
    Made = type.__new__(type, "Made", (Base,), {})
    Again = type("Again", (Base,), {})
    return type(Made) is Meta, type(Again) is Meta, x + 1


PROGRAMS = [each for each in list(globals().values())
            if getattr(each, "__code__", None) is not None and each.__module__ == __name__]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program(program):
    gc.collect()
    want = outcome(program, x3())
    fast = kt.compile(program)
    for _ in range(3):
        assert outcome(fast, x3()) == want


def test_no_model_is_left():
    def program(x):
        class Made(Told):
            a = Named()
        return x + 1
    fast = kt.compile(program)
    gc.collect()
    before = len(Told.__subclasses__())
    for _ in range(3):
        fast(x3())
    assert len(Told.__subclasses__()) == before + 3
    gc.collect()
    assert len(Told.__subclasses__()) == before


def test_classes_are_pickled_and_told_apart():
    def program(x):
        class Made(Told):
            pass
        globals()["Made"] = Made
        Made.__qualname__ = "Made"
        return Made
    fast = kt.compile(program)
    first, second = fast(x3()), fast(x3())
    assert first is not second and second is globals()["Made"]
    assert pickle.loads(pickle.dumps(second)) is second and type(pickle.loads(pickle.dumps(second()))) is second
    assert sys.getrefcount(first) < 20
    del globals()["Made"]
