"""Classes whose making calls code: __init_subclass__, __set_name__, metaclasses; and classes that change."""
import abc
import enum

import kintsugi as kt
from language_programs import effects, followed, x3


class Plugin:
    registry = {}

    def __init_subclass__(cls, /, kind=None, **named):
        super().__init_subclass__(**named)
        cls.kind = kind or cls.__name__.lower()
        Plugin.registry[cls.kind] = cls


@followed(lambda: (x3(),))
def subclass_that_registers(x):
    Plugin.registry.clear()

    class Scale(Plugin):
        def run(self, x):
            return x * 2

    class Shift(Plugin, kind="moved"):
        def run(self, x):
            return x + 1
    made = [Plugin.registry[name]().run(x) for name in ("scale", "moved")]
    return made, len(Plugin.registry), Scale.kind, Shift.kind, Plugin.registry["moved"] is Shift


@followed(lambda: (x3(),))
def subclass_of_a_class_made_here(x):
    seen = []

    class Base:
        def __init_subclass__(cls, factor=1):
            seen.append((cls.__name__, factor))
            cls.factor = factor

    class Child(Base, factor=3):
        pass

    class Grandchild(Child):
        pass
    return x * Child.factor, Grandchild.factor, seen


class Field:
    def __init__(self, default=0):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = "_" + name
        effects[name] = owner.__name__

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, self.default)

    def __set__(self, instance, value):
        setattr(instance, self.name, value)


@followed(lambda: (x3(),))
def descriptors_that_are_named(x):
    class Point:
        a = Field()
        b = Field(5)

        def total(self):
            return self.a + self.b
    p = Point()
    p.a = x
    return p.total(), Point.a.name, Point.b.name, hasattr(p, "_b"), type(Point.a) is Field


class Registry(type):
    classes = []

    def __new__(meta, name, bases, names, **named):
        names = {key.lower() if key[0] != "_" else key: value for key, value in names.items()}
        made = super().__new__(meta, name, bases, names)
        made.named = named
        meta.classes.append(made)
        return made


@followed(lambda: (x3(),))
def metaclass_that_makes(x):
    Registry.classes.clear()

    class Made(metaclass=Registry, word="w"):
        LIMIT = 3

        def Run(self, x):
            return x * self.limit

        def of(self):
            return __class__.__name__
    return Made().run(x), Made.named, Registry.classes[0] is Made, Made().of(), hasattr(Made, "LIMIT"), type(Made) is Registry


class Counted(type):
    def __init__(cls, name, bases, names):
        super().__init__(name, bases, names)
        cls.fields = [key for key in names if not key.startswith("_")]


@followed(lambda: (x3(),))
def metaclass_that_starts(x):
    class Made(metaclass=Counted):
        a = 1
        b = 2

    class Derived(Made):
        c = 3
    return x * len(Made.fields), Derived.fields, Derived().a


class Prepared(type):
    @classmethod
    def __prepare__(meta, name, bases, **named):
        return {"made_by": meta.__name__, "title": name.upper()}

    def __new__(meta, name, bases, names):
        return type.__new__(meta, name, bases, names)

    def __init__(cls, name, bases, names):
        cls.ready = True


@followed(lambda: (x3(),))
def metaclass_that_prepares(x):
    class Made(metaclass=Prepared):
        shown = title + "!"  # noqa: F821
        made_by = made_by + "?"  # noqa: F821
    return x + 1, Made.shown, Made.made_by, Made.ready


@followed(lambda: (x3(), []))
def body_that_registers(x, seen):
    def route(path):
        def keep(function):
            seen.append(path)
            return function
        return keep

    class App:
        @route("/a")
        def a(self):
            return x * 2
    return App().a(), seen


@followed(lambda: (x3(),))
def metaclass_called(x):
    Made = Counted("Made", (), {"a": 4, "f": lambda self, y: y * self.a})
    Other = Registry("Other", (Made,) if False else (), {"B": 2}, word=1)
    return Made().f(x), Made.fields, Other.b, Other.named, Made.__module__ == __name__


@followed(lambda: (x3(),))
def abstract_class_that_is_told(x):
    class Shape(abc.ABC):
        def __init_subclass__(cls):
            super().__init_subclass__()
            cls.sides = cls.count * 2

        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        count = 2

        def area(self):
            return x * self.sides
    return Square().area(), Square.sides


@followed(lambda: (x3(),))
def attributes_of_a_class_made_here(x):
    class Thing:
        n = 1
    t = Thing()
    Thing.n += 2
    Thing.double = lambda self, y: y * 2 + self.n
    setattr(Thing, "word", "w")
    del Thing.n
    Thing.n = 7
    return t.double(x), Thing.n, t.word, hasattr(Thing, "m")


class Counter:
    total = 0
    last = None
    scale = 2

    def __init__(self, x):
        self.x = x
        Counter.total += 1
        self.number = Counter.total

    def scaled(self):
        return self.x * self.scale

    @classmethod
    def count(cls, by):
        cls.total += by
        return cls.total


class Special(Counter):
    scale = 2


@followed(lambda: (x3(),))
def class_that_counts(x):
    first, second = Counter(x), Special(x)
    Counter.last = second
    result = second.scaled(), second.number, first.total, Counter.total, Counter.last is second, Special.last is second
    Counter.total, Counter.last = 0, None
    return result


@followed(lambda: (x3(),))
def class_method_that_counts(x):
    Counter.count(2)
    Special.scale = 5
    result = Special(x).scaled(), Counter(x).scaled(), Counter.total, Counter.count(1)
    Special.scale = 2
    Counter.total = 0
    return result


@followed(lambda: (x3(),))
def enum_in_a_function(x):
    class Color(enum.Enum):
        RED = 1
        GREEN = "g"
        ROUGE = 1

        def low(self):
            return self.name.lower()
    return x + Color.RED.value, Color.GREEN.low(), Color.ROUGE is Color.RED, Color(1) is Color.RED, Color["GREEN"].value, \
        len(Color), [m.name for m in Color], repr(Color.RED), str(Color.RED), isinstance(Color.RED, Color), Color.RED in Color, \
        Color.RED == Color.GREEN, {Color.RED: 2}[Color(1)]


@followed(lambda: (x3(),))
def enum_with_auto_in_a_function(x):
    class Level(enum.Enum):
        LOW = enum.auto()
        HIGH = enum.auto()

        @property
        def double(self):
            return self.value * 2

        @classmethod
        def first(cls):
            return cls.LOW

        def own_class(self):
            return __class__
    match Level(2):
        case Level.HIGH:
            x = x + 1
    return x * Level.HIGH.double, Level.first().name, {m.name: m.value for m in Level}, Level.LOW.own_class() is Level


@followed(lambda: (x3(),))
def flag_in_a_function(x):
    class Access(enum.Flag):
        READ = enum.auto()
        WRITE = enum.auto()
        BOTH = 3
    both = Access.READ | Access.WRITE
    return x + Access.READ.value, both is Access.BOTH, Access.READ in both, [m.name for m in Access], (both & Access.READ).name
