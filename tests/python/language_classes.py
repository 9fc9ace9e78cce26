"""Of classes and objects: see language_programs.py."""
import abc
import collections
import collections.abc
import dataclasses
import enum
import functools
import operator
import typing

import kintsugi as kt

from language_programs import followed, x3

# ---- Construction --------------------------------------------------------------------------------------------------


class Counted:
    made = 0

    def __new__(cls, x, *rest, gain=1.0):
        self = super().__new__(cls)
        self.gain = gain
        self.rest = len(rest)
        return self

    def __init__(self, x, *rest, gain=2.0):
        self.x = x * self.gain + gain


class Half(Counted):
    def __init__(self, x, *rest, gain=0.5):
        super().__init__(x, *rest, gain=gain)
        self.half = True


class Instead:
    def __new__(cls, x):
        return Half(x)

    def __init__(self, x):
        self.never = x


class Bare:
    def __new__(cls):
        return object.__new__(cls)


@followed(lambda: (x3(),))
def construction_by_new(x):
    a, b, c = Counted(x), Half(x, 1, 2, gain=3.0), Instead(x)
    return a.x, a.gain, a.rest, b.x, b.rest, b.half, c.half, c.x, type(c) is Half, isinstance(Bare(), Bare), hasattr(c, "never")


class Meta(type):
    def __call__(cls, x, *args):
        made = super().__call__(x * 2)
        made.through = (cls.__name__, len(args))
        return made

    @property
    def title(cls):
        return cls.__name__.upper()

    def plain(cls, k):
        return k * len(cls.names)

    def __len__(cls):
        return len(cls.names)

    def __contains__(cls, name):
        return name in cls.names

    def __getitem__(cls, index):
        return cls.names[index]


class Made(metaclass=Meta):
    names = ("a", "b")

    def __init__(self, x):
        self.x = x


@followed(lambda: (x3(),))
def construction_by_metaclass(x):
    made = Made(x, 1, 2)
    return made.x, made.through, Made.title, Made.plain(3), len(Made), "a" in Made, "c" in Made, Made[1], bool(Made), type(Made) is Meta


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...

    @property
    @abc.abstractmethod
    def name(self):
        ...

    def double(self):
        return self.area() * 2


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side

    @property
    def name(self):
        return "square"


@followed(lambda: (x3(),))
def construction_of_abstract(x):
    s = Square(x)
    return s.double(), s.name, isinstance(s, Shape), issubclass(Square, Shape), isinstance(x, Shape)


class A:
    def __init__(self, x):
        self.trace = ["A"]
        self.x = x

    def value(self):
        return self.x + 1

    @classmethod
    def build(cls, x):
        return cls(x)

    @staticmethod
    def twice(x):
        return x * 2

    @property
    def size(self):
        return len(self.x)


class B(A):
    def __init__(self, x):
        super().__init__(x)
        self.trace.append("B")

    def value(self):
        return super().value() * 2

    @classmethod
    def build(cls, x):
        return super().build(x * 3)

    @property
    def size(self):
        return super().size + 10


class C(A):
    def __init__(self, x):
        super(C, self).__init__(x)
        self.trace.append("C")

    def value(self):
        return super(C, self).value() + 5


class D(B, C):
    def value(self):
        inner = [super(D, self).value() for _ in range(1)]
        return inner[0] - 1

    def names(self):
        return [each.__name__ for each in type(self).__mro__[:-1]], type(self).__bases__ == (B, C), self.__class__.__qualname__


@followed(lambda: (x3(),))
def super_everywhere(x):
    d = D.build(x)
    return d.value(), d.trace, d.size, d.twice(x), D.twice(1), d.names(), type(d) is D, super(B, d).value(), super(B, d).size


# ---- Attributes ----------------------------------------------------------------------------------------------------


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, value * 2)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Lazy:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        return (owner.__name__, self.function(instance)) if instance is not None else self


class Holder:
    mass = Typed()
    shared = 5
    shadow = 1

    def __init__(self, x):
        self.mass = x
        self.shadow = 2

    @Lazy
    def lazy(self):
        return self.mass + 1


@followed(lambda: (x3(),))
def descriptors_user(x):
    h = Holder(x)
    first = h.mass, h.lazy, h.shadow, Holder.shadow, h.shared, Holder.mass.name, Holder.lazy.function is Holder.lazy.function
    h.shared = 7
    h.lazy = 3
    del h.shadow
    found = h.shared, h.lazy, h.shadow, hasattr(h, "_mass")
    del h.mass
    return first, found, hasattr(h, "_mass"), getattr(h, "_mass", None), Holder.shared


class Managed:
    def __init__(self, x):
        self._x = x
        self.log = []

    @property
    def x(self):
        self.log.append("get")
        return self._x

    @x.setter
    def x(self, value):
        self.log.append("set")
        self._x = value

    @x.deleter
    def x(self):
        self.log.append("delete")
        self._x = None


class MoreManaged(Managed):
    @Managed.x.getter
    def x(self):
        return super().x + 1


@followed(lambda: (x3(), Managed(1.0)))
def properties_managed(x, outside):
    m = MoreManaged(x)
    m.x = m.x * 2
    m.x += 1
    value = m.x
    del m.x
    setattr(outside, "x", x)
    outside.x = getattr(outside, "x") + 1
    delattr(outside, "x")
    return value, m.log, m._x, outside.log, hasattr(MoreManaged, "x")


class Slotted:
    __slots__ = ("x", "y", "z")

    def __init__(self, x):
        self.x = x
        self.y = 1

    def __eq__(self, other):
        return self.y == other.y

    __hash__ = None


class MoreSlots(Slotted):
    __slots__ = ("w", "__dict__")


@followed(lambda: (x3(), Slotted(2.0), MoreSlots(3.0)))
def slots_mixed(x, a, b):
    s = MoreSlots(x)
    s.w, s.free = 4, 5
    a.y += 1
    a.z = b.x
    b.other = a.y
    del b.y
    has = [hasattr(each, name) for each in (s, a, b) for name in ("x", "y", "z")]
    return s.x * s.w + s.free, has, a.y, a.z, b.other, s.y


class Watched:
    def __init__(self, x):
        object.__setattr__(self, "data", {"x": x})
        object.__setattr__(self, "seen", [])

    def __getattr__(self, name):
        if name.startswith("no"):
            return "none"
        return self.data[name]

    def __setattr__(self, name, value):
        self.seen.append(name)
        self.data[name] = value

    def __delattr__(self, name):
        self.seen.append("-" + name)
        del self.data[name]


class Intercepted:
    def __init__(self, x):
        self.x = x

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value * 2 if name == "x" else value

    def raw(self):
        return super().__getattribute__("x")


@followed(lambda: (x3(), Watched(2.0)))
def attribute_hooks(x, outside):
    w = Watched(x)
    w.y = w.x + 1
    w.y *= 2
    del w.x
    outside.x += 1
    outside.y = w.y
    i = Intercepted(x)
    return w.y, w.nothing, w.seen, outside.seen, i.x, i.raw(), getattr(w, "novalue", 3), hasattr(outside, "now"), getattr(w, "y", 1)


class Plain:
    kind = "plain"

    def method(self, k=1):
        return self.x * k

    def other(self):
        return 0


def decorate(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    wrapper.extra = 3
    return wrapper


@decorate
def decorated(x, k=1):
    return x + k


@followed(lambda: (x3(), Plain()))
def methods_bound(x, p):
    p.x = x
    q = Plain()
    q.x = x + 1
    m, n = p.method, q.method
    calls = [f(k=2) for f in (m, n)]
    return calls, m == p.method, m == n, m != p.other, m is p.method, m.__self__ is p, m.__func__ is Plain.method, m.__name__, callable(m), \
        callable(p), Plain.method(q, 3), Plain.method.__qualname__


@followed(lambda: (x3(),))
def functions_with_attributes(x):
    return decorated(x, k=2), decorated.extra, decorated.__name__, decorated.__wrapped__(x), decorated.__defaults__, decorated.__doc__


@followed(lambda: (x3(), Plain()))
def builtins_of_attributes(x, p):
    setattr(p, "x", x)
    got = getattr(p, "x"), getattr(p, "gone", x * 2), getattr(p, "kind"), getattr(p, "method", None)(2), getattr(Plain, "kind", 0)
    delattr(p, "x")
    return got, hasattr(p, "x"), hasattr(p, "kind"), hasattr(Plain, "nope"), hasattr(1, "real"), hasattr([], "append"), hasattr("a", "x")


@followed(lambda: (x3(), Plain()))
def identity_of_objects(x, p):
    a, b = Plain(), Plain()
    c = a
    known = {a: 1, b: 2} if False else [a, b]
    return a is b, a is c, a == b, a == c, a != b, p is a, p == p, a in known, p in known, [a, b] == [c, b], x + len(known)


# ---- Operators -----------------------------------------------------------------------------------------------------


class V:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        if not isinstance(other, (V, int, float)):
            return NotImplemented
        return V(self.x + getattr(other, "x", other))

    __radd__ = __add__

    def __sub__(self, other):
        return V(self.x - other.x) if isinstance(other, V) else NotImplemented

    def __rsub__(self, other):
        return V(other - self.x)

    def __mul__(self, k):
        return V(self.x * k)

    def __rmul__(self, k):
        return V(k * self.x)

    def __matmul__(self, other):
        return self.x @ other.x

    def __iadd__(self, other):
        self.x = self.x + other
        return self

    def __neg__(self):
        return V(-self.x)

    def __pos__(self):
        return self

    def __invert__(self):
        return V(self.x * 0)

    def __abs__(self):
        return V(abs(self.x))

    def __pow__(self, k):
        return V(self.x ** k)

    def __getitem__(self, i):
        return self.x[i]

    def __call__(self, k, *, bias=0):
        return self.x * k + bias


class W(V):
    def __radd__(self, other):
        return "W first"

    def __rsub__(self, other):
        return NotImplemented


class Right:
    def __rsub__(self, other):
        return "right", other

    def __rlshift__(self, other):
        return "shift"


@followed(lambda: (x3(), V(x3())))
def operators_arithmetic(x, v):
    a = V(x)
    plus = (a + v).x, (a + 1).x, (2.0 + a).x, a + W(x), (W(x) + a).x, (a - W(1.0)).x
    more = (3 - a).x, (a * 2).x, (2 * a).x, a @ v, (-a).x, (+a) is a, (~a).x, abs(a).x, (a ** 2).x, a[0], a(2, bias=1)
    v += 1
    b = a
    b += x
    v *= 2
    return plus, more, v.x, b is a, a.x, a - Right(), 1 << Right(), [1] << Right(), "s" - Right()


class Ordered:
    def __init__(self, key, x=None):
        self.key, self.x = key, x

    def __lt__(self, other):
        return self.key < other.key if isinstance(other, Ordered) else NotImplemented

    def __eq__(self, other):
        return self.key == other.key if isinstance(other, Ordered) else NotImplemented


class Sub(Ordered):
    def __gt__(self, other):
        return "sub first"


@functools.total_ordering
class Total(Ordered):
    def __eq__(self, other):
        return self.key == other.key

    def __le__(self, other):
        return not other < self


@followed(lambda: (x3(), Ordered(2), Ordered(3)))
def operators_comparison(x, a, b):
    c = Ordered(2)
    return a < b, a > b, a == c, a != c, a == 2, a != None, c == a, a < Sub(1), Sub(4) == a, None == a, a in [b, c], b in (a, c), \
        sorted([b, a, c], key=lambda o: o.key)[0] is a, max(a, b) is b, Total(1) <= Total(2), Total(1) >= Total(2), x + 1  # noqa: E711


class Bag:
    def __init__(self, items):
        self.items = items
        self.deleted = []

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        self.deleted.append(key)


class Truth:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value

    def __index__(self):
        return 1

    def __int__(self):
        return 7

    def __float__(self):
        return 2.5

    def __str__(self):
        return f"<{self.value}>"

    def __repr__(self):
        return f"Truth({self.value!r})"


class Formatted:
    def __format__(self, spec):
        return "spec:" + spec

    def __repr__(self):
        return "repr"


@followed(lambda: (x3(), Bag([1, 2, 3]), Truth(False)))
def operators_containers(x, bag, no):
    bag[0] = 8
    bag[1] += 5
    del bag[2]
    yes = Truth(True)
    flags = len(bag), 5 in bag, 2 in bag, 7 not in bag, bool(bag), not no, yes and 1, no or 2, 1 if yes else 0
    return x * bag[0] + bag[1], bag.deleted, flags, [10, 20, 30][yes], int(yes), float(no), range(3)[1]


@followed(lambda: (x3(), Truth(3)))
def operators_text(x, t):
    f = Formatted()
    return f"{t} {t!r} {t!s:>9} {f} {f:>5} {f!s}", str(t), repr(t), format(f, "a"), str(f), "%d" % 3, x + len(str(t))


@followed(lambda: (x3(), [Bag([1]), 3]))
def operator_effects(x, items):
    bag = items[0]
    bag[0] = x
    return operator.getitem is not None, bag.items[0] + items[1]


# ---- isinstance ----------------------------------------------------------------------------------------------------

Number = int | float


class Sized:
    def __len__(self):
        return 3


class Answering(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "x")

    def __subclasscheck__(cls, other):
        return other is int


class Duck(metaclass=Answering):
    pass


@followed(lambda: (x3(), 3, 2.5, "s", [1], Plain()))
def isinstance_kinds(x, i, f, s, items, p):
    here = int | str
    return isinstance(i, Number), isinstance(s, Number), isinstance(s, here), isinstance(f, int | None), isinstance(None, int | None), \
        isinstance(items, (tuple, (dict, list))), issubclass(bool, int), issubclass(bool, (str, Number)), isinstance(p, Plain), \
        isinstance(True, int), isinstance(x, kt.Tensor), isinstance(Plain, type), isinstance(isinstance_kinds, type(len)), isinstance(p, Duck), \
        issubclass(int, Duck), issubclass(str, Duck), x + 1, type(p) is Plain, type(i) == int, p.__class__ is Plain  # noqa: E721


@followed(lambda: (x3(), {"a": 1}, Sized()))
def isinstance_abc(x, d, sized):
    abcs = collections.abc
    return isinstance(d, abcs.Mapping), isinstance(sized, abcs.Sized), isinstance(sized, abcs.Sequence), isinstance([], abcs.Sequence), \
        isinstance("s", abcs.Iterable), isinstance(3, abcs.Hashable), issubclass(dict, abcs.MutableMapping), isinstance(len, abcs.Callable), x + 1


# ---- dataclass, enum, namedtuple -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: object
    y: float = 2.0
    tags: list = dataclasses.field(default_factory=list)
    total: object = dataclasses.field(init=False, default=None)
    kind: typing.ClassVar[str] = "point"

    def __post_init__(self):
        self.total = self.x * self.y


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: float = 0.5

    def shifted(self, k):
        return dataclasses.replace(self, a=self.a + k)


@dataclasses.dataclass(slots=True)
class Packed:
    x: object
    n: int = 1


@dataclasses.dataclass
class Derived(Point):
    z: int = 9


@followed(lambda: (x3(), Frozen(1), Packed(2.0)))
def dataclasses_made(x, frozen, packed):
    p, q, d = Point(x), Point(x, y=3.0, tags=[1]), Derived(x, z=1)
    p.tags.append(2)
    packed.n += 1
    packed.x = p.y
    return p.total, p.tags, q.total, q.tags, p.kind, d.total * d.z, Packed(x).n, packed.n, packed.x, Packed(1) == Packed(1, 1), \
        Frozen(1) == frozen, Frozen(1) != frozen, Frozen(1, 2.0) > frozen, Frozen(0) <= frozen, frozen.a, Frozen(2) == 2, x + 1


@followed(lambda: (x3(), Frozen(1, 0.25)))
def dataclasses_replaced(x, frozen):
    more = dataclasses.replace(frozen, b=4.0)
    return more.a, more.b, more == frozen, frozen.shifted(5).a, dataclasses.is_dataclass(more), dataclasses.is_dataclass(int), x * more.b


class Color(enum.Enum):
    RED = 1
    GREEN = "green"
    ROUGE = 1

    def describe(self):
        return self.name.lower(), self.value

    @property
    def loud(self):
        return self.name + "!"

    @classmethod
    def first(cls):
        return cls.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


@followed(lambda: (x3(), Color.GREEN, Level.HIGH))
def enums_used(x, color, level):
    if color is Color.GREEN and color != Color.RED and level == 3 and level > Level.LOW:
        x = x * level
    return x, color.name, color.value, Color.RED.describe(), color.loud, Color.first() is Color.ROUGE, Color["RED"] is Color.RED, Color(1), \
        Color("green") is color, Color(color) is color, level + 1, 2 * level, level < 2, [1, 2, 3, 4][level], int(level), Level(1).name, \
        isinstance(color, Color), isinstance(level, int), len(Color), color in (Color.RED, color), color in Color, bool(color), -level


@followed(lambda: (x3(), Access.READ))
def enum_flags(x, access):
    both = access | Access.WRITE
    return both is Access.BOTH, (both & Access.READ) is access, both.value, access in both, both in access, Access.READ | Access.READ, x + 1


class Pair(typing.NamedTuple):
    left: object
    right: float = 2.0

    def mixed(self):
        return self.left * self.right

    @property
    def swapped(self):
        return Pair(self.right, self.left)


Row = collections.namedtuple("Row", "a b c", defaults=[3])


@followed(lambda: (x3(), Pair(1.5, 0.5), Row(1, 2)))
def namedtuples_used(x, outside, row):
    p = Pair(x)
    left, right = p
    a, *rest = row
    return p.left, p.right, p.mixed(), p.swapped.left, left * right, p[0], p[-1], p[::-1], len(p), outside.left + outside[1], \
        outside.mixed(), row.a, rest, row == (1, 2, 3), row == Row(1, 2, c=3), row < (1, 3), 3 in row, row + (4,), Row(1, b=2).c, \
        isinstance(row, tuple), row._fields, Pair._fields, [i for i in row], Row._make([4, 5, 6]).b, type(p) is Pair, p
