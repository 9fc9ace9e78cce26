"""copy.copy and copy.deepcopy of what has a say in it, or is not modelled: as plain."""
import collections
import copy
import copyreg
import dataclasses
import enum

import pytest

import kintsugi as kt
from comparing import snapshot
from test_language import x3


class Plain:
    def __init__(self, a):
        self.a = a


class Copied(Plain):
    def __copy__(self):
        return Copied(("copied", self.a))

    def __deepcopy__(self, memo):
        made = Copied(None)
        memo[id(self)] = made
        made.a = copy.deepcopy(self.a, memo)
        return made


class Reduced(Plain):
    def __reduce_ex__(self, protocol):
        return Reduced, (("reduced", protocol, self.a),)


class Told(Plain):
    def __reduce__(self):
        return "Told"


class Stated(Plain):
    def __getstate__(self):
        return {"a": ("state", self.a)}

    def __setstate__(self, state):
        self.b = state


class Newly(Plain):
    def __new__(cls, a=7):
        made = super().__new__(cls)
        made.fresh = a
        return made


class Arguments(Plain):
    def __getnewargs__(self):
        return (self.a,)

    def __new__(cls, a):
        return super().__new__(cls)


class Answers(Plain):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Guarded(Plain):
    def __setattr__(self, name, value):
        super().__setattr__(name, ("set", value))


class Slots:
    __slots__ = ("a", "__b")

    def __init__(self, a):
        self.a = a
        self.__b = [a]


class Both(Slots):
    def __init__(self, a):
        super().__init__(a)
        self.c = [a]


class Meta(type):
    def __copy__(cls, instance):
        return "by the metaclass"

    def __deepcopy__(cls, *rest):
        return "never asked"


class Classed(Plain, metaclass=Meta):
    pass


class Dicts(dict):
    pass


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: object


class Registered(Plain):
    pass


copyreg.pickle(Registered, lambda self: (Plain, (("registered", self.a),)))
Pair = collections.namedtuple("Pair", "a b")
CLASSES = [Plain, Copied, Reduced, Told, Stated, Newly, Arguments, Answers, Guarded, Slots, Both, Frozen, Registered, Classed]
MAKERS = {
    **{each.__name__: each for each in CLASSES},
    "list": lambda a: [a, (a, 1), {"k": a}], "set": lambda a: {1, 2}, "frozenset": lambda a: (frozenset([1]), 2),
    "pair": lambda a: Pair(a, 1), "enum": lambda a: [Color.RED], "dict of objects": lambda a: {(1, 2): a, Color.RED: 2},
    "slice": lambda a: [slice(1, 2)], "range": lambda a: [range(3)], "bytearray": lambda a: bytearray(b"ab"),
    "method": lambda a: Plain(Plain(a).__init__), "function": lambda a: [x3, len, Plain, int], "subclass": lambda a: Dicts(k=a),
    "ordered": lambda a: collections.OrderedDict(k=a), "deque": lambda a: collections.deque([a]),
    "exception": lambda a: ValueError(a), "generator": lambda a: (i for i in [a]), "module": lambda a: [copy],
    "tensor": lambda a: Plain(kt.ones(2)), "atoms": lambda a: (1, 2.5, "a", b"b", None, ..., True, 2 ** 70, 1j),
}


def shallow(x, make):
    first = make([1, [2]])
    second = copy.copy(first)
    return x * 2, first, second, second is first


def deep(x, make):
    first = make([1, [2]])
    second = copy.deepcopy(first)
    return x * 2, first, second, second is first


def holding(x, make):
    part = make([1])
    second = copy.deepcopy([part, {"k": part}, (part, part)])
    return x * 2, part, second, second[0] is second[2][0]


def seen(function, *arguments):
    try:
        return snapshot(function(*arguments))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("function", [shallow, deep, holding])
def test_as_plain(function, name):
    kt._dynamo.reset()
    fast = kt.compile(function)
    for _ in range(3):
        assert seen(fast, x3(), MAKERS[name]) == seen(function, x3(), MAKERS[name])


def test_given():
    """Objects from before the call, which the copy must not share."""
    kt._dynamo.reset()

    def given(x, thing, memo):
        return x * 2, copy.copy(thing), copy.deepcopy(thing), copy.deepcopy(thing, memo), len(memo)

    fast = kt.compile(given)
    loop = [1]
    loop.append(loop)
    for thing in (Plain([1]), [Plain(1)], loop, {"a": [1]}, (1, [2]), Copied([1]), Slots(1), [[1]] * 2):
        for _ in range(2):
            found, plain = fast(x3(), thing, {}), given(x3(), thing, {})
            assert snapshot(found) == snapshot(plain)
            assert (found[2] is thing) == (plain[2] is thing)


def test_a_class_learns_to_copy():
    kt._dynamo.reset()

    class Learning(Plain):
        pass

    def learns(x):
        return x * 2, copy.deepcopy(Learning([1])).a, copy.copy(Learning([1])).a

    fast = kt.compile(learns)
    for change in (None, "__deepcopy__", "__reduce_ex__", "registered"):
        if change == "registered":
            del Learning.__deepcopy__, Learning.__reduce_ex__
            copyreg.pickle(Learning, lambda self: (Plain, ("registered",)))
        elif change == "__deepcopy__":
            Learning.__deepcopy__ = lambda self, memo: Plain("known")
        elif change == "__reduce_ex__":
            Learning.__reduce_ex__ = lambda self, protocol: (Plain, ("reduced",))
        for _ in range(2):
            assert snapshot(fast(x3())) == snapshot(learns(x3()))


@pytest.mark.parametrize("name", ["__deepcopy__", "__copy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_instance_has_its_own_hook(copied, name):
    kt._dynamo.reset()

    def hooked(x):
        thing = Plain([1])
        setattr(thing, name, lambda *arguments: {"b": 5})
        made = copied(thing)
        return x * 2, sorted(made if type(made) is dict else vars(made))

    fast = kt.compile(hooked)
    for _ in range(2):
        assert seen(fast, x3()) == seen(hooked, x3())


@pytest.mark.parametrize("kind", [Plain, list, tuple, dict])
def test_the_module_learns_to_copy(kind, monkeypatch):
    kt._dynamo.reset()

    def learns(x):
        made = [[1], ([2],), {"k": 3}, Plain(4)]
        return x * 2, [str(copy.deepcopy(each))[:20] for each in made[:3]], [
            type(each(made[3])).__name__ for each in (copy.copy, copy.deepcopy)]

    fast = kt.compile(learns)
    for table in (None, copy._deepcopy_dispatch, copy._copy_dispatch):
        if table is not None:
            monkeypatch.setitem(table, kind, lambda *arguments: {"another": 1})
        for _ in range(2):
            assert snapshot(fast(x3())) == snapshot(learns(x3()))
