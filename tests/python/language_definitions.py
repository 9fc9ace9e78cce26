"""Classes made in the trace: class statements, type() with three arguments."""
import abc
import collections
import dataclasses
import functools
import typing

import kintsugi as kt
from language_programs import effects, followed, x3


class Base:
    factor = 2

    def __init__(self, x):
        self.x = x

    def scaled(self):
        return self.x * self.factor


@followed(lambda: (x3(),))
def class_in_a_function(x):
    class Point:
        "A point."
        origin = 1

        def __init__(self, a, b=2):
            self.a, self.b = a, b

        def moved(self, by):
            return Point(self.a + by, self.b)
    p = Point(x).moved(Point.origin)
    return p.a * p.b, isinstance(p, Point), type(p) is Point, Point.__name__, Point.__qualname__, Point.__doc__, Point.__module__


@followed(lambda: (x3(), 3))
def class_over_captured_names(x, n):
    scale = x * 2

    class Scaler:
        start = n + 1
        table = [start, n]

        def __call__(self, y):
            nonlocal n
            n = n + 1
            return y * scale + len(self.table) + n
    s = Scaler()
    Scaler.table.append(5)
    return s(x), s(x), n, Scaler.start, s.table


@followed(lambda: (x3(),))
def class_that_derives(x):
    class Child(Base):
        factor = 3

        def scaled(self):
            return super().scaled() + 1

        @property
        def twice(self):
            return self.scaled() * 2

        @twice.setter
        def twice(self, value):
            self.x = value / 2

        @staticmethod
        def plain(y):
            return y - 1

        @classmethod
        def made(cls, x):
            return cls(cls.plain(x))

    class Grandchild(Child):
        __slots__ = ("extra",)
    c = Child.made(x)
    c.twice = c.twice
    g = Grandchild(x)
    g.extra = 4
    return c.x, g.scaled() * g.extra, issubclass(Grandchild, Base), isinstance(g, Child), Child.plain(x)


@followed(lambda: (x3(),))
def class_with_operators(x):
    class Vector:
        def __init__(self, *items):
            self.items = items

        def __add__(self, other):
            return Vector(*[a + b for a, b in zip(self.items, other.items)])

        def __eq__(self, other):
            return self.items[1:] == other.items[1:]

        def __len__(self):
            return len(self.items)

        def __iter__(self):
            yield from self.items

        def __getitem__(self, i):
            return self.items[i]

        def __repr__(self):
            return f"Vector{self.items[1:]}"
    v = Vector(x, 1, 2) + Vector(x, 3, 4)
    return v[0], len(v), v == Vector(x, 4, 6), repr(v), [i for i in v][1:], bool(v)


@followed(lambda: (x3(),))
def class_that_leaves(x):
    class Record:
        kind = "record"

        def __init__(self, x):
            self.x = x

        def total(self):
            return self.x + 1
    r = Record(x * 2)
    effects["kind"] = Record.kind
    effects["name"] = Record.__name__
    effects["record"] = r
    return r, r.total(), [Record(x)]


@followed(lambda: (x3(),))
def exception_class_in_a_function(x):
    class Wrong(ValueError):
        def __init__(self, code):
            super().__init__("wrong", code)
            self.code = code
    try:
        raise Wrong(3)
    except KeyError:
        return x
    except Wrong as error:
        return x * error.code, str(error), repr(error)


@followed(lambda: (x3(),))
def abstract_class_in_a_function(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        def twice(self):
            return self.area() * 2

    class Square(Shape):
        def __init__(self, side):
            self.side = side

        def area(self):
            return self.side * self.side
    return Square(x).twice(), isinstance(Square(x), Shape), issubclass(Square, Shape)


@followed(lambda: (x3(),))
def class_with_a_manager(x):
    log = []

    class Section:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)
            return self

        def __exit__(self, kind, value, traceback):
            log.append(kind.__name__ if kind else None)
            return kind is ValueError
    with Section("a") as section:
        x = x + 1
    with Section("b"):
        raise ValueError(section.name)
    return x, log


@followed(lambda: (x3(),))
def class_body_that_computes(x):
    base = 10

    class Table:
        sizes = {}
        for i in range(3):
            sizes[i] = base + i
        del i
        count: int = len(sizes)
        if count > 2:
            big = True
        else:
            small = True
        double = lambda self, y: y * Table.count  # noqa: E731
    return Table().double(x), Table.sizes, hasattr(Table, "i"), hasattr(Table, "small"), Table.big, base


@followed(lambda: (x3(),))
def class_decorated(x):
    seen = []

    def register(cls):
        seen.append(cls.__name__)
        return cls

    @register
    class Thing:
        def f(self, y):
            return y * len(seen)
    return Thing().f(x), seen


@followed(lambda: (x3(),))
def type_of_three(x):
    def area(self):
        return self.side * 2
    Square = type("Square", (Base,), {"area": area, "factor": 5})
    s = Square(x)
    s.side = x + 1
    return s.area(), s.scaled(), Square.__name__, isinstance(s, Base), Square.__module__ == __name__


@followed(lambda: (x3(),))
def class_that_derives_from_a_container(x):
    class Stack(list):
        def push(self, item):
            self.append(item)
            return self

    class Defaults(dict):
        def __missing__(self, key):
            return x * key
    return Stack().push(x).push(1), Defaults(a=1)["a"], Defaults()[3]


@followed(lambda: (x3(),))
def class_with_slots_and_descriptor(x):
    class Both:
        __slots__ = ["a", "b"]

        def __init__(self, a):
            self.a = a
    b = Both(x * 2)
    had = hasattr(b, "b")
    b.b = 2
    return b.a * b.b, had, hasattr(b, "b")


@followed(lambda: (x3(),))
def named_tuple_in_a_function(x):
    Pair = collections.namedtuple("Pair", "left right", defaults=[3])
    p = Pair(x)
    left, right = p
    return left * p.right, p[1], p._replace(right=5).right, Pair._fields, p == (left, 3), isinstance(p, tuple), right, Pair.__name__


@followed(lambda: (x3(),))
def named_tuple_that_leaves(x):
    Pair = collections.namedtuple("Pair", ["left", "right"])
    effects["fields"] = Pair._fields
    return Pair(x + 1, 2), Pair.__module__, [Pair(1, 2)]


@followed(lambda: (x3(), 4))
def dataclass_in_a_function(x, n):
    @dataclasses.dataclass
    class Pair:
        a: object
        b: int = 2
        sizes = (1, n)

        def total(self):
            return self.a * self.b + len(self.sizes)
    p, q = Pair(x), Pair(x, b=3)
    return p.total(), q.b, Pair(1, 2) == Pair(1, 2), Pair(1) == Pair(2), Pair.sizes


@followed(lambda: (x3(),))
def frozen_dataclass_in_a_function(x):
    @dataclasses.dataclass(frozen=True, order=True)
    class Place:
        row: int
        column: int = 1
    places = {Place(1, 2): x, Place(2, 2): x + 1}
    return places[Place(1, 2)] * 2, Place(1) < Place(2), hash(Place(1)) == hash(Place(1, 1)), Place(3).column


@followed(lambda: (x3(),))
def typed_named_tuple_in_a_function(x):
    class Reading(typing.NamedTuple):
        "One reading."
        value: object
        weight: int = 2
        unit: str = "m"

        def scaled(self):
            return self.value * self.weight

        @property
        def short(self):
            return self.unit[:1]
    r = Reading(x)
    value, weight, unit = r
    return (r.scaled(), r.short, value * weight, r._replace(weight=5).scaled(), Reading._fields, Reading.__name__, Reading.__qualname__, Reading.__doc__,
            Reading(1, 3) == (1, 3, "m"), isinstance(r, tuple), Reading(1) < Reading(2), r[2], len(r))


@followed(lambda: (x3(),))
def typed_named_tuple_that_leaves(x):
    class Step(typing.NamedTuple):
        a: int
        b: float = 0.5
    effects["fields"] = Step._fields
    return Step(x + 1, 1), [Step(1)], Step.__module__


@followed(lambda: (x3(), 4))
def dataclass_with_fields_in_a_function(x, n):
    def three():
        return [1, 2, 3]

    @dataclasses.dataclass
    class Track:
        start: object
        points: list = dataclasses.field(default_factory=list)
        more: list = dataclasses.field(default_factory=three)
        gain: int = dataclasses.field(default=3, repr=False, compare=False)
        total: int = dataclasses.field(init=False, default=n)
        names: tuple = dataclasses.field(default=(), kw_only=True)

        def __post_init__(self):
            self.total = self.gain + len(self.points)
    t = Track(x)
    t.points.append(1)
    return (t.start * t.gain, t.points, Track(1).points, t.more, t.total, Track(1, gain=5) == Track(1, gain=6) if n < 0 else t.gain,
            Track(1, [2], names=("q",)).names, Track.gain)


class Told(type):
    def __call__(cls, *arguments):
        made = super().__call__(*arguments)
        made.told = cls.__name__
        return made

    @property
    def title(cls):
        return cls.__name__.upper()


@followed(lambda: (x3(),))
def class_with_a_metaclass(x):
    class Thing(metaclass=Told):
        def __init__(self, k):
            self.k = k

    class Child(Thing):
        pass

    class Shape(metaclass=abc.ABCMeta):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def area(self):
            return x * 2
    t = Child(3)
    return x * t.k, t.told, Thing.title, type(Thing) is Told, type(Child) is Told, Square().area(), isinstance(Square(), Shape)


@followed(lambda: (x3(),))
def classes_within_classes(x):
    class Outer:
        class Inner:
            k = 2

            def f(self, y):
                return y * self.k

        class Failed(ValueError):
            pass
        made = Inner()
        twice = Inner.k * 2

        def go(self):
            raise Outer.Failed("no")
    try:
        Outer().go()
    except Outer.Failed as error:
        text = str(error)
    return Outer.Inner().f(x), Outer.made.f(x), Outer.twice, Outer.Inner.__qualname__, text, Outer.Inner.__name__


@functools.lru_cache
def by_name(n, *, by=1):
    return [n * by]


@functools.lru_cache(maxsize=None, typed=True)
def typed_cache(n, k=0):
    return n + k


for _number in (1, 1.0):
    typed_cache(_number)
typed_cache(2, k=3)
by_name(1, by=2)
by_name(n=3, by=4)


@followed(lambda: (x3(),))
def cache_hits_by_keyword(x):
    return x * by_name(1, by=2)[0], by_name(n=3, by=4)[0], typed_cache(1), typed_cache(1.0), typed_cache(2, k=3), by_name(1, by=2) is by_name(1, by=2)
