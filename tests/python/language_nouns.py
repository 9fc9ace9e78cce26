"""What the parts of the language are called, where no other file here has it: see language_programs.py."""
import collections
import contextlib
import dataclasses
import itertools
import math
import operator

import kintsugi as kt
from language_programs import effects, followed, x3


@dataclasses.dataclass
class Point:
    x: object
    y: int = 2


@dataclasses.dataclass(frozen=True)
class Fixed:
    a: int


@followed(lambda: (x3(),))
def dataclass_fields(x):
    try:
        Fixed(1).a = 2
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return x + 1, [f.name for f in dataclasses.fields(Point)], len(dataclasses.fields(Point(x))), text


@followed(lambda: (x3(),))
def exit_stack_that_suppresses(x):
    log = []
    with contextlib.ExitStack() as outer:
        outer.enter_context(contextlib.suppress(ValueError))
        outer.callback(log.append, 1)
        with contextlib.ExitStack() as inner:
            inner.callback(log.append, 2)
            x = x + 1
            raise ValueError
    return x, log


@followed(lambda: (x3(),))
def deque_operators(x):
    d = collections.deque([1, 2, 3])
    d.reverse()
    d += [1]
    d.extend(d)
    e = d * 2
    d *= 0
    return x + 1, d, e, 1 in e, bool(d), e.index(1), e + e, [*e][:2]


@followed(lambda: (x3(), collections.deque([1, x3()])))
def deque_of_before_repeated(x, d):
    d *= 2
    return x + len(d), d * 1 == d


@followed(lambda: (x3(),))
def unions_of_other_dicts(x):
    a, b = collections.OrderedDict(a=1), collections.defaultdict(int, {"a": 1})
    a |= {"b": 2}
    b |= {"d": 3}
    c, d = a | {"q": 1}, b | {"c": 2}
    return x + 1, a, b, c, d, type(c).__name__, d.default_factory is int, d["no"]


@followed(lambda: (x3(),))
def counters_with_operators(x):
    c = collections.Counter(a=3, b=1)
    c |= collections.Counter(b=2)
    c += collections.Counter(z=1)
    c -= collections.Counter(a=1)
    return x + 1, +c, -c, c, c <= c, c == c.copy(), c.most_common(1), list(c.elements()), collections.ChainMap({"a": 1}, {"b": 2})["b"]


@followed(lambda: (x3(),))
def views_with_operators(x):
    d, e = {"a": 1, "b": 2}, {"a": 1, "b": 3}
    return x + 1, d.items() & e.items(), d.keys() ^ {"a"}, d.keys() == {"a", "b"}, d.keys() - {"a"}, d.keys() | {"z"}, ("a", 1) in d.items()


@followed(lambda: (lambda shared: (shared, shared, x3()))([1, 2]))
def aliases_in_two_arguments(a, b, x):
    a.append(3)
    return x + len(b), a is b


@followed(lambda: (x3(), 12345, 3.14159))
def numbers_formatted(x, n, f):
    return (x + 1, f"{n:,} {n:_} {n:+d} {n:b} {n:o} {n:X} {n:>10} {n:<10}| {f:.2f} {f:10.3e} {f:%} {f!r:>10} {'a':*^5} {n=} {f:{5}.{2}}",
            "{0} {1!r} {a[0]} {b.real}".format(1, "x", a=[1], b=2), format(1234.5, ",.1f"), "%5.1f|%-5s|%05d|%x" % (1.25, "a", 3, 255))


def strict(a, b=1, /, c=2, *, d, e=3):
    return a


class Made:
    def __init__(self, n):
        self.n = n


@followed(lambda: (x3(),))
def calls_that_do_not_bind(x):
    def inner(p, *, q):
        return p
    texts = []
    for call in (lambda: strict(), lambda: strict(1), lambda: strict(1, 2, 3, 4, d=1), lambda: strict(a=1, d=2), lambda: strict(1, d=1, z=2),
                 lambda: strict(1, 2, 3, c=3, d=1), lambda: inner(1, 2)):
        try:
            call()
        except TypeError as error:
            texts.append(str(error))
    for call in (lambda: Made(), lambda: Made(1, 2, 3), lambda: Made(1).n.missing if False else inner(q=1)):
        try:
            call()
        except TypeError as error:
            texts.append((str(error), error.args))
    return x + 1, texts


@followed(lambda: (x3(),))
def names_that_modules_lack(x):
    return x + hasattr(math, "nothing"), hasattr(itertools, "nothing_here"), hasattr(math, "pi"), getattr(operator, "nothing", 5), \
        getattr(math, "tau", None)


@dataclasses.dataclass
class Node:
    value: int
    below: object = None


@followed(lambda: (x3(), Node(7)))
def dataclass_as_text(x, given):
    @dataclasses.dataclass
    class Local:
        a: int
        b: str = "b"
    node = Node(1)
    node.below = node
    return x + 1, repr(given), repr(Node(1)), f"{Fixed(2)} {Node(3, Fixed(4))!r:>5}", str(node), repr(Local(1)), f"{Local(2, 'c')}"
