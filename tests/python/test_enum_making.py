"""Enums made in compiled functions, against plain runs. What is followed without a break is in language_making.py."""
import enum
import gc
import pickle

import pytest

import kintsugi as kt
from language_programs import x3

pytestmark = pytest.mark.usefixtures("fresh")


def leaves(x):
    class Color(enum.Enum):
        RED = (1, 2)
        BLUE = None
    c = Color.RED
    return c, Color, [Color.BLUE], x + c.value[0], Color.__members__


def one_auto_twice(x):
    kept = []

    class Level(enum.Enum):
        LOW = BOTTOM = enum.auto()
        HIGH = enum.auto()

    class Other(enum.Enum):
        kept.append(0)
        A = enum.auto()
        B = kept[0] + 7
        C = enum.auto()
    outside = enum.auto()

    class Third(enum.Enum):
        A = outside
        B = enum.auto()
    return x + len(Level), list(Level), Level.BOTTOM is Level.LOW, [m.value for m in Other], outside.value, Third.A.value


def flags_out_of_order(x):
    class Access(enum.Flag):
        WRITE = 2
        READ = 1
        BOTH = 3
    return x + Access.READ.value, [m.name for m in Access], Access(3).name, ~Access.READ is Access.WRITE, list(Access.BOTH)


def missing(x):
    class Color(enum.Enum):
        RED = 1
    try:
        Color(7)
    except ValueError as e:
        return str(e), x + 1


def again(x):
    class Color(enum.Enum):
        RED = 1
        RED = 2


def keys(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2
    d = {Color.RED: x, Color.BLUE: 2}
    return d[Color.RED] + d[Color.BLUE], Color.RED in d, {Color.RED, Color.BLUE, Color.RED} == set(Color)


def matched(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2
    match Color(2):
        case Color.RED:
            return x
        case Color.BLUE:
            return x + 2


def odd(x):
    class A(enum.Enum):
        x = enum.auto()
        y = x
    class B(enum.Enum):
        name = 1
    class C(enum.Enum):
        a = [1]

        def __init__(self, v):
            self.v = v
    class D(enum.IntEnum):
        a = 1
    class E(enum.Enum):
        _ignore_ = ["z"]
        z = 2
        q = 1
    class F(enum.Enum):
        def __new__(cls, v):
            made = object.__new__(cls)
            made._value_ = v * 2
            return made
        t = 1
    try:
        class G(B):
            pass
    except TypeError as e:
        err = str(e)
    return A.y.value, B.name, C.a.v, D.a + 1, list(E), F.t.value, err


def shown(value):
    if isinstance(value, kt.Tensor):
        return value.tolist()
    if isinstance(value, enum.Enum):
        return type(value).__qualname__, value.name, shown(value.value), list(value.__dict__)
    if isinstance(value, type):
        return value.__qualname__, value.__module__, [shown(member) for member in value], list(vars(value))
    if isinstance(value, (list, tuple)):
        return [shown(each) for each in value]
    return [(key, shown(each)) for key, each in value.items()] if hasattr(value, "items") else value


def outcome(function):
    try:
        return shown(function(x3()))
    except Exception as error:
        return repr(error)


PROGRAMS = [each for each in list(globals().values()) if getattr(each, "__code__", None) is not None
            and each.__module__ == __name__ and each.__code__.co_varnames[:1] == ("x",)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program(program):
    want = outcome(program)
    fast = kt.compile(program)
    for _ in range(3):
        assert outcome(fast) == want


def test_each_call_makes_another():
    def program(x):
        class Color(enum.Enum):
            RED = 1
        Color.__qualname__ = "Color"
        globals()["Color"] = Color
        return Color
    fast = kt.compile(program)
    first, second = fast(x3()), fast(x3())
    assert first is not second and first.RED is not second.RED and type(first.RED) is first
    assert pickle.loads(pickle.dumps(second.RED)) is second.RED
    assert second["RED"] is second(1) is second.RED and second.RED in second
    del globals()["Color"], first, second
    gc.collect()
    assert not [each for each in enum.Enum.__subclasses__() if each.__module__ == __name__]


@pytest.mark.parametrize("happens", ["interrupt", "change"])
def test_what_happens_while_the_library_makes_one(happens, monkeypatch):
    """Signals and other threads get their turn in its code, while tracing too."""
    class Settings:
        sizes = None

    settings, calls = Settings(), []
    settings.sizes = [1, 2]
    store = enum._EnumDict.__setitem__

    def disturbed(self, name, value):
        calls.append(name)
        if len(calls) == 1 and happens == "interrupt":
            raise KeyboardInterrupt
        if len(calls) == 1:
            settings.sizes = [3]
        store(self, name, value)

    def program(x):
        n = len(settings.sizes)

        class Color(enum.Enum):
            RED = 1
        return n, Color.RED.value

    monkeypatch.setattr(enum._EnumDict, "__setitem__", disturbed)
    fast = kt.compile(program)
    if happens == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            fast(x3())
    else:
        assert fast(x3()) in ((1, 1), (2, 1))
    assert fast(x3()) == (len(settings.sizes), 1)
