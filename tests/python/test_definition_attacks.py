"""Classes, groups and keys of a function's own once more: programs that try what may not be followed, against plain runs."""
import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import gc
import pickle
import sys
import typing
import weakref

import pytest

import kintsugi as kt
from language_programs import x3
from test_definitions import Base, log, outcome


def methods_that_builtins_call(x):

    class K:

        def __init__(s, n):
            s.n = n

        def __lt__(s, o):
            return s.n < o.n

        def __hash__(s):
            return s.n

        def __eq__(s, o):
            return s.n == o.n
    ks = sorted([K(3), K(1)], key=lambda k: k.n)
    return ([k.n for k in ks], list(map(lambda k: k.n * x, ks)), max(ks).n, min(ks, key=lambda k: -k.n).n, {k: 1 for k in ks}[K(3)])


def a_class_that_a_closure_keeps(x):

    class K:
        n = 3

    def use(y):
        return (y * K.n, K)
    return use


def a_class_that_is_told_of_subclasses(x):

    class B:

        def __init_subclass__(cls, **k):
            log.append((cls.__name__, k))
            super().__init_subclass__()

        def __new__(cls, *a):
            log.append("new")
            return super().__new__(cls)

        def __init__(self, v):
            self.v = v

    class C(B, k=2):

        def __init__(self, v):
            super().__init__(v + 1)
    return (C(x).v, B(1).v)


def generators_and_managers_of_a_class(x):

    class K:

        def gen(self, n):
            for i in range(n):
                yield (i * x)

        async def co(self):
            return 5

        def __iter__(self):
            return self.gen(2)

        def __enter__(self):
            return self

        def __exit__(self, *a):
            return True
    with K() as k:
        total = sum((v for v in k))
        raise ValueError
    c = k.co()
    try:
        c.send(None)
    except StopIteration as e:
        r = e.value
    return (total, r)


def classes_in_recursion(x, n=3):

    class K:
        depth = n
    return [K.depth] + (classes_in_recursion(x, n - 1) if n else [])


def weak_references_to_instances(x):

    class K:
        pass
    k = K()
    r = weakref.ref(k)
    s = r() is k
    del k
    gc.collect()
    return (s, r() is None)


def a_class_that_changes(x):

    class K:
        a = 1
    k = K()
    c = copy.copy(k)
    c.b = x
    K.a = 5
    d = copy.deepcopy(k)
    setattr(K, "z", 3)
    return (k.a, hasattr(k, "b"), c.b, d.a, d.z, K.__dict__["z"], vars(c))


def statements_in_a_body(x):

    class K:
        try:
            raise ValueError("in")
        except ValueError as e:
            text = str(e)
        with contextlib.suppress(KeyError):
            {}["k"]
        for i in range(3):
            pass
        else:
            done = i
    return (K.text, K.done, hasattr(K, "e"), sorted((k for k in vars(K) if k[0] != "_")))


def slots_and_a_dict(x):

    class K:
        __slots__ = ("a", "__dict__")

        def __init__(self):
            self.a = 1
            self.b = 2

    class L(K):
        __slots__ = ()
    l = L()
    l.c = x
    return (l.a, l.b, vars(l), L.__slots__, K.__slots__)


def a_property_that_fails(x):

    class P:

        def __init__(self):
            self._v = 1

        @property
        def v(self):
            raise AttributeError("inner")

        def __getattr__(self, n):
            return "got " + n
    return (P().v, P().other, getattr(P(), "v", 3))


def type_with_slots(x):
    K = type("K", (), {"f": lambda s: s.g(), "g": staticmethod(lambda: 4), "__slots__": ["q"]})
    k = K()
    k.q = x
    try:
        k.r = 1
    except AttributeError as e:
        log.append(str(e))
    return (k.f(), k.q, K)


def enums_in_a_function(x):

    class E(enum.IntEnum):
        A = 1
        B = 2

    class F(enum.Flag):
        X = enum.auto()
        Y = enum.auto()
    return (E.A + x, E(2).name, (F.X | F.Y).value, list(E))


def classes_of_typing(x):

    class N(typing.NamedTuple):
        a: int
        b: int = 2

    class G(typing.Generic[typing.TypeVar("T")]):
        pass

    class T(typing.TypedDict):
        a: int

    class Pr(typing.Protocol):

        def f(self):
            ...
    return (N(1), N(x).a, G[int], T(a=1), isinstance(3, int))


def an_exception_class_through_frames(x):

    class K(Exception):
        pass

    def deep(n):
        if n:
            return deep(n - 1)
        raise K("deep", n)
    try:
        deep(2)
    except K as e:
        first = e
    try:
        try:
            deep(1)
        except K as e:
            raise K("again") from e
    except K as e:
        second = e
    return (first, second, K)


def an_exception_class_that_escapes(x):

    class K(Exception):
        pass
    raise K(x.shape) from KeyError("a")


def super_in_a_diamond(x):

    class A:

        def m(self):
            return ["A"]

    class B(A):

        def m(self):
            return ["B"] + super().m()

    class C(A):

        def m(self):
            return ["C"] + super().m()

    class D(B, C):

        def m(self):
            return ["D"] + super(D, self).m()
    return (D().m(), [k.__name__ for k in D.__mro__], D.__bases__ == (B, C), D.mro()[0] is D)


def a_name_of_the_function_in_a_body(x):

    class K:
        x = x.shape if False else 3
    return K.x


def scopes_of_a_body(x):
    y = 1

    class K:
        y = y if False else 2
        z = [y for _ in range(2)]
        w = [i for i in (y, 5)]
    return (K.y, K.z, K.w)


def hash_that_fails(x):
    d = {}

    class K:

        def __hash__(self):
            raise ValueError("no hash")

        def __eq__(self, o):
            return True
    try:
        d[K()] = 1
    except ValueError as e:
        log.append(str(e))

    class L:
        n = 0

        def __hash__(self):
            L.n += 1
            return 1

        def __eq__(self, o):
            return NotImplemented
    d[L()] = x
    d[L()] = 2
    return (len(d), L.n, L() in d)


def hash_that_is_text(x):

    class K:

        def __hash__(self):
            return "x"
    try:
        {K(): 1}
    except TypeError as e:
        return str(e)


def named_tuples_refuse(x):
    P = collections.namedtuple("P", "a b")
    Q = collections.namedtuple("Q", P._fields + ("c",))
    p = P(1, b=x)
    try:
        P(1)
    except TypeError as e:
        log.append(str(e))
    try:
        p._replace(z=1)
    except ValueError as e:
        log.append(str(e))
    try:
        P._make([1])
    except TypeError as e:
        log.append(str(e))
    return (Q(1, 2, 3), p._asdict()["a"], P.__doc__, P._make, p.count(1), p.index(1), [*p][0], P.a, pickle.dumps(1))


def dataclass_with_everything(x):

    @dataclasses.dataclass(eq=False, repr=False, init=False)
    class A:
        a: int = 1

    @dataclasses.dataclass(unsafe_hash=True, kw_only=True)
    class B(A):
        b: int
        c: "str" = "c"
        d: dataclasses.InitVar[int] = 3
        e: typing.ClassVar[int] = 9

        def __post_init__(self, d):
            self.f = d
    try:
        B(1)
    except TypeError as e:
        log.append(str(e))
    b = B(b=2)
    return (b, b.f, hash(b) == hash(B(b=2)), A().a, B.e, dataclasses.asdict(b), dataclasses.replace(b, b=5, d=1), {b: 1}[B(b=2)], B)


def groups_in_groups(x):
    try:
        raise ExceptionGroup("a", [ValueError(1), ExceptionGroup("b", [TypeError(2), KeyError(3)])])
    except* TypeError as e:
        log.append(repr(e))
    except* ValueError as e:
        try:
            raise e
        except ExceptionGroup as f:
            log.append(f is e)
        try:
            raise KeyError("k") from e
        except* KeyError as g:
            log.append((repr(g), repr(g.exceptions[0].__cause__)))


def a_group_looked_at(x):
    eg = ExceptionGroup("z", [ValueError(i) for i in range(3)])
    out = []
    for e in eg.exceptions:
        out.append(e.args)
    try:
        eg.message = "q"
    except AttributeError as e:
        out.append(str(e))
    eg.args = (1,)
    out.append((eg.message, eg.args))
    return (out, eg, eg.subgroup(lambda e: e.args[0] > 0))


def a_group_of_base_exceptions(x):
    try:
        try:
            raise BaseExceptionGroup("b", [KeyboardInterrupt(), ValueError(1)])
        except* ValueError:
            x = x + 1
    except BaseExceptionGroup as e:
        return (x, e)


def a_group_out_of_a_callee(x):

    def f():
        try:
            raise ExceptionGroup("a", [ValueError(1), OSError(2)])
        except* ValueError as e:
            log.append(len(e.exceptions))
        finally:
            log.append("fin")
    try:
        f()
    except* OSError as e:
        return_ = e
    return return_


def a_key_whose_hash_changes(x):

    class K:

        def __init__(s, n):
            s.n = n

        def __hash__(s):
            return s.n
    k = K(1)
    d = {k: 1}
    k.n = 2
    found = k in d
    d[k] = 5
    return (x + 1, found, list(d.values()))


class Marked:
    __isabstractmethod__ = True


marked = Marked()


def an_object_that_says_it_is_abstract(x):

    class C(abc.ABC):
        method = marked
    return (x + 1, C())


PROGRAMS = [each for each in list(globals().values())
            if getattr(each, "__code__", None) is not None and each.__module__ == __name__]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program(program):
    want = outcome(program, x3())
    fast = kt.compile(program)
    for _ in range(3):
        assert outcome(fast, x3()) == want


# What type.__new__ puts into a class is that class's own, not the model's that a trace had.
PARTS = [lambda c: c.__dict__["__dict__"], lambda c: c.__dict__.get("__weakref__"), lambda c: c.__weakref__,
         lambda c: vars(c)["__dict__"], lambda c: c.__dict__["__init_subclass__"], lambda c: c.__dict__["__class_getitem__"],
         lambda c: c.__base__.__dict__["slot"], lambda c: c.slot, lambda c: c.__dict__["__dict__"].__objclass__]


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_parts_that_a_class_is_given(number):
    part = PARTS[number]
    shown = []

    @kt._dynamo.disable
    def show(each):
        shown.append((type(each), sys.getrefcount(each)))

    def program(x):

        class Slots:
            __slots__ = ("slot",)

        class C(Slots):

            def __init_subclass__(c):
                pass

            def __class_getitem__(c, key):
                return key

        found = part(C)
        show(found)
        return x + 1, C, found

    program(x3())
    fast = kt.compile(program)
    for _ in range(3):
        _, made, found = fast(x3())
        assert found is part(made) and repr(found) == repr(part(made))
    gc.collect()
    assert len(set(shown)) == 1
