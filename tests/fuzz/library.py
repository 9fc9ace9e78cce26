"""What random programs may use. Read as text: a program gets the definitions that it names, and theirs."""
import abc
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from functools import reduce
from itertools import islice
from typing import NamedTuple

import kintsugi as kt

opaque = kt._dynamo.testing.opaque
disabled = kt.compiler.disable(lambda x: x)
total = 0
NOTES = []
TABLE = {"p": 1, "q": 5}


class Box:
    def __init__(self, value, count=0):
        self.value, self.count = value, count

    def grow(self, by=1):
        self.count += by
        return self.count

    @property
    def twice(self):
        return self.value * 2


class Noting:
    def __init__(self, log, swallows=False):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, error, traceback):
        self.log.append(kind.__name__ if kind else "exit")
        return self.swallows


def scale(x, by=2, *rest, plus=0):
    y = x * by + plus
    for r in rest:
        y = y + r
    return y


def pick(x, wanted):
    if (x > 0).any():
        return x if wanted else x - 1
    return -x


def count_calls():
    global total
    total += 1


def must_be_small(n):
    if n > 3:
        raise ValueError(f"{n} is not small")
    return n


def make(shape, dtype, seed, layout):
    count = 1
    for size in shape:
        count *= size
    values = [(seed * 7 + i * i * 5 + i * 3) % 17 / 4 - 2 for i in range(count)]
    if dtype != "float32" and dtype != "float64":
        values = [int(value * 2) for value in values]
    if dtype == "bool":
        values = [value > 0 for value in values]
    flat = kt.tensor(values, dtype=getattr(kt, dtype))
    if layout == "transposed" and len(shape) == 2:
        return flat.reshape(shape[1], shape[0]).T
    if layout == "strided" and count:
        return kt.stack([flat, flat], 1).reshape(2 * count)[::2].reshape(shape)
    return flat.reshape(shape)


# ---- Exceptions ------------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


class Numbered(Refused):
    def __init__(self, number, hint=None):
        super().__init__(number, hint)
        self.number = number

    def __str__(self):
        return f"number {self.number}"


def refuse(n, kind=ValueError):
    if n % 2:
        raise kind(n)
    return n + 1


def refuse_from(n):
    try:
        return refuse(n)
    except ValueError as error:
        raise Numbered(n) from error


def refuse_later(n, log):
    try:
        log.append("tried")
        return refuse(n, Refused)
    finally:
        log.append("at last")


def answer_anyway(n):
    try:
        return 10 // n
    except ZeroDivisionError:
        return -1
    finally:
        count_calls()


# ---- Managers --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def noted(log, value, swallows=()):
    log.append(("in", value))
    try:
        yield value
    except swallows as error:
        log.append(("swallowed", type(error).__name__))
    finally:
        log.append(("out", value))


class Restoring(contextlib.ContextDecorator):
    def __enter__(self):
        self.before = total
        return self

    def __exit__(self, *error):
        global total
        total = self.before


# ---- Generators ------------------------------------------------------------------------------------------------------


def count_to(stop, step=1):
    i = 0
    while i < stop:
        yield i
        i += step
    return i


def echo(log):
    got = None
    try:
        while True:
            got = yield got
            log.append(got)
            if got == 3:
                return "three"
    except ValueError as error:
        log.append(str(error))
        yield -1
    finally:
        log.append("echo ends")


def chained(*parts):
    for part in parts:
        got = yield from part
        if got is not None:
            yield got


def pairs_of(values):
    previous = None
    for value in values:
        if previous is not None:
            yield previous, value
        previous = value


class Countdown:
    def __init__(self, start):
        self.left = start

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration(self.left)
        self.left -= 1
        return self.left


class Walkable:
    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        for value in self.values:
            yield value * 2

    def __len__(self):
        return len(self.values)

    def __contains__(self, value):
        return value in self.values

    def __reversed__(self):
        return reversed(self.values)


class Indexed:
    def __init__(self, stop):
        self.stop = stop

    def __getitem__(self, i):
        if isinstance(i, slice):
            return i.start, i.stop, i.step
        if i >= self.stop:
            raise IndexError(i)
        return i * i


# ---- Classes ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    """Documented, or dataclass() spends most of its time on a text about the parameters."""
    x: int
    y: int = 0
    seen: list = dataclasses.field(default_factory=list, compare=False)

    def moved(self, by):
        return dataclasses.replace(self, x=self.x + by)


@dataclasses.dataclass(frozen=True, order=True)
class Fixed:
    """As Point is."""
    rank: int
    name: str = "fixed"


@dataclasses.dataclass(slots=True)
class Slim:
    """As Point is."""
    v: int
    w: float = 0.5

    def __post_init__(self):
        self.w += self.v


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 5

    @property
    def next(self):
        return Colour.GREEN if self is Colour.RED else Colour.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


Pair = collections.namedtuple("Pair", "left right", defaults=(7,))


class Row(NamedTuple):
    key: str
    value: int = 3

    def doubled(self):
        return self._replace(value=self.value * 2)


class Slotted:
    __slots__ = ("v", "extra")

    def __init__(self, v):
        self.v = v


class Base:
    kind = "base"
    made = 0

    def __init__(self, v):
        self.v = v
        type(self).made += 1

    def describe(self):
        return f"{self.kind}:{self.v}"

    @classmethod
    def build(cls, v):
        return cls(v)

    @staticmethod
    def twice(v):
        return v * 2

    def __repr__(self):
        return f"{type(self).__name__}({self.v})"


class Left(Base):
    kind = "left"

    def describe(self):
        return "<" + super().describe()


class Right(Base):
    def describe(self):
        return super().describe() + ">"


class Both(Left, Right):
    def __init__(self, v, more=1):
        super().__init__(v)
        self.more = more


class Clamped:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        if value < 0:
            raise ValueError(f"{self.name} {value}")
        setattr(instance, self.name, value)


class Gauge:
    level = Clamped()

    def __init__(self, level):
        self.level = level


class Proxy:
    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __setattr__(self, name, value):
        setattr(self.inner, name, value)


class Registry(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.__name__.lower()
        return made


class Registered(metaclass=Registry):
    def __init__(self, v=0):
        self.v = v


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...

    def larger(self, other):
        return self.area() > other.area()


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2


class Filling(dict):
    def __missing__(self, key):
        self[key] = value = len(self)
        return value


class Stack(list):
    @property
    def top(self):
        return self[-1] if self else None

    def append(self, value):
        super().append(value)
        return self


class Vector:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vector(self.v + other.v) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, other):
        return Vector(other + self.v)

    def __sub__(self, other):
        return Vector(self.v - other)

    def __mul__(self, other):
        return Vector(self.v * other)

    def __rmul__(self, other):
        return Vector(other * self.v * 10)

    def __neg__(self):
        return Vector(-self.v)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.v == other.v

    def __lt__(self, other):
        return self.v < other.v if isinstance(other, Vector) else NotImplemented

    def __hash__(self):
        return hash(self.v)

    def __bool__(self):
        return self.v != 0


# ---- Functions -------------------------------------------------------------------------------------------------------


def spread(p, /, q=1, *rest, k=2, **named):
    return p, q, rest, k, sorted(named.items())


def only(p, /, *, k):
    return p * 10 + k


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def counter(start):
    def step(by=1):
        nonlocal start
        start += by
        return start
    return step


def kept(value, seen=[]):
    seen.append(value)
    return len(seen)


def logged(function):
    @functools.wraps(function)
    def inner(*args, **named):
        NOTES.append((function.__name__, len(args)))
        return function(*args, **named)
    return inner


@logged
def plus_one(n):
    return n + 1


@functools.lru_cache(maxsize=None)
def remembered(n):
    NOTES.append(n)
    return n * 3


@functools.singledispatch
def named(value):
    return "any"


@named.register
def _named_int(value: int):
    return f"int {value}"


@named.register(str)
def _named_str(value):
    return f"str {value}"
