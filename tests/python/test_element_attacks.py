"""Elements and keys that hash in Python, enums, classes made by others and calls that do not bind: programs that try what may not
be followed, against plain runs."""
import collections
import dataclasses
import enum
import functools
import typing

import pytest

import kintsugi as kt
from language_enums import Key
from language_programs import x3
from test_definitions import lines, log, outcome


class Loud(Key):
    def __hash__(self):
        log.append(("hash", self.n))
        return self.hashed

    def __eq__(self, other):
        log.append(("eq", self.n, getattr(other, "n", other)))
        return self.n == getattr(other, "n", other)


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Odd(enum.Enum):
    A = 1
    B = 2

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return self.value == getattr(other, "value", other)


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Same(enum.Enum):
    RED = 5


def calls_in_order(x):
    s = {Loud(1), Loud(2, 1), Loud(1)}
    s.add(Loud(3, 1))
    return x + len(s), Loud(2, 1) in s, Loud(9) in s, s.discard(Loud(3, 1)), [k.n for k in s]


def two_of_one_hash(x):
    s = {Key(1, 5), Key(2, 5), Key(1, 5), Key(3, 5)}
    return x + len(s), sorted(k.n for k in s), Key(2, 5) in s, Key(4, 5) in s, s


def hashes_at_the_edge(x):
    s = {Key(1, -1), Key(2, -2), Key(3, 2 ** 61 - 1), Key(4, 0), Key(5, 2 ** 80)}
    return x + len(s), Key(1, -2) in s, Key(3, 0) in s, 0 in s, -2 in s, [k.n for k in s]


def among_atoms(x):
    s = {1, "a", Key(1), 2.5, None, Key(7)}
    s.add(7)
    s.discard(1)
    return x + len(s), 1 in s, Key(1) in s, 7 in s, "a" in s, s


def order_of_many(x):
    s = set()
    for n in (40, 8, 16, 0, 24, 3, 11):
        s.add(Key(n))
    s.remove(Key(16))
    first = s.pop()
    s.add(Key(32))
    return x + 1, first.n, [k.n for k in s], s, s.copy(), len(s)


def a_hash_that_changes(x):
    k = Key(1)
    s = {k}
    k.hashed = 2
    found = k in s
    s.add(k)
    return x + len(s), found, k in s, s


def hash_that_raises(x):
    class Bad:
        def __hash__(self):
            raise ValueError("hash")

    class Worse:
        def __hash__(self):
            return "no int"

    class Unequal:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise KeyError("eq")
    out = []
    for make in (lambda: {Bad()}, lambda: {Worse()}, lambda: {Unequal(), Unequal()}, lambda: {1, Unequal()}, lambda: Unequal() in {Key(1)}):
        try:
            make()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


def no_hash(x):
    class Plain:
        def __eq__(self, other):
            return True
    try:
        {Plain()}
    except TypeError as error:
        return x + 1, str(error)


def a_set_in_its_element(x):
    k = Key(1)
    s = {k, Key(2)}
    k.inside = s
    return x + len(s), k.inside is s, k


def operators_of_sets(x):
    a, b = {Key(1), Key(2)}, {Key(2), Key(3)}
    c, d = {Color.RED, Color.BLUE, "z"}, {Color.BLUE, Same.RED}
    c |= d
    return x + len(a | b), len(a & b), a == {Key(2), Key(1)}, c, c - d, d < c, d ^ {Same.RED}, Same.RED in c, Color.RED in d, a.union([Key(5)]), \
        c.isdisjoint({Color.GREEN}), set(c), frozenset(d) == d, c.intersection(d, [Color.BLUE])


class Loudly(enum.IntEnum):
    ONE = 1

    def __str__(self):
        return self.name


class Quiet(str, enum.Enum):
    A = "a"

    def __str__(self):
        return "quiet"

    def __repr__(self):
        return "Quiet"


class Wide(float):
    def __str__(self):
        return "wide"

    __repr__ = float.__repr__


def text_of_enums(x):
    out = []
    for m in (Loudly.ONE, Quiet.A, Number.TWO, Color.RED, Wide(1.5)):
        out.append((f"{m}", format(m), format(m, ""), str(m), repr(m), f"{m!r:>9}", f"{m!s:>7}", "%s" % m, f"{m=}"))
    for m in (Loudly.ONE, Number.TWO, Wide(1.5)):
        out.append((f"{m:5}", f"{m:03}", format(m, "e")))
    return x + 1, out, f"{Quiet.A:>5}"


class Grown(str):
    def __iadd__(self, other):
        return "in place"


class Less(int):
    def __isub__(self, other):
        return "less"


def subclasses_of_atoms_in_place(x):
    a, b = Grown("1"), Less(5)
    c, d = a + "4", b - 1
    a += "4"
    b -= 1
    return x + 1, a, b, c, d


class Real(float):
    pass


Pair = collections.namedtuple("Pair", "left right")


made_before = Grown("q"), Less(7)
numbers_before = Real("nan"), Real(2.0), Less(3)


def nans_in_keys(x):
    nan = float("nan")
    s = {(Key(1), nan), (Key(1), nan), (Key(2), (nan, 1)), Pair(nan, 1), (Key(1), complex(nan, 0))}
    return x + len(s), (Key(1), nan) in s, (Key(1), float("nan")) in s, hash((Key(1), nan)) == hash((Key(1), nan)), {Pair(nan, 2): 1}.get(Pair(nan, 2))


def hashes_of_subclasses_of_atoms(x):
    nan, two, three = numbers_before
    return x + 1, hash(nan) == object.__hash__(nan), hash(two), hash(three), nan in {nan}, {two: 1}[2], 3 in {three}, {nan: 1}.get(Real("nan"))


def subclasses_of_atoms_from_before_in_place(x):
    a, b = made_before
    a += "4"
    b -= 1
    return x + 1, a, b


def enums_with_their_own_hash(x):
    s, d = {Odd.A, Odd.B}, {Odd.A: 1}
    d[Odd.B] = 2
    return x + len(s), Odd.A in s, 1 in s, d[Odd.A], len(d), s


def enums_that_are_numbers(x):
    s, d = {Number.ONE, 2}, {Number.ONE: 1, 2: 2}
    return x + len(s), 1 in s, Number.TWO in s, d[1], d[Number.TWO], 1.0 in d, True in s, {1: 5}[Number.ONE], s, d, list(d)[0] is Number.ONE


def members_of_two_enums(x):
    d = {Color.RED: 1, Same.RED: 2}
    s = {Color.RED, Same.RED}
    return x + len(s), d[Same.RED], Color.RED == Same.RED, [type(m).__name__ for m in s], s


def tuples_of_keys(x):
    d = {(Key(1), Color.RED): 1, (Key(1), (Color.RED, 2)): 2}
    d[(Key(1), Color.RED)] = 3
    s = {(1, Key(2)), (1, Key(2)), (1.0, Key(2))}
    try:
        {(Key(1), []): 1}
    except TypeError as error:
        text = str(error)
    return x + len(s), d[(Key(1), (Color.RED, 2))], len(d), (Key(2), Color.RED) in d, hash((Key(1), 2)) == hash((Key(1), 2)), d, s, text


WARM = {Color.RED, Color.BLUE}


def sets_that_change_outside(x):
    first = Color.RED in WARM, Color.GREEN in WARM, len(WARM)
    WARM.symmetric_difference_update({Color.GREEN})
    return x + 1, first, Color.GREEN in WARM


TABLE = {Key(1): 1, Key(2, 9): 2, Key(3, 9): 3, "t": 4}
KEYS = {Key(1), Key(5)}


def keys_of_before(x):
    out = [TABLE[Key(1)], Key(1) in TABLE, Key(4) in TABLE, TABLE.get(Key(4), 0), TABLE[Key(3, 9)], Key(2, 9) in TABLE, "t" in TABLE, TABLE["t"],
           Key(5) in KEYS, Key(6) in KEYS, len(KEYS)]
    try:
        TABLE[Key(7)]
    except KeyError as error:
        out.append(error.args[0].n)
    TABLE[Key(1)] = 10
    out.append(TABLE[Key(1)])
    TABLE[Key(1)] = 1
    TABLE[Key(8)] = x
    out += [TABLE.pop(Key(8)) is x, len(TABLE), TABLE.setdefault(Key(1), 3)]
    KEYS.add(Key(6))
    out += [Key(6) in KEYS, Key(1) in KEYS]
    KEYS.discard(Key(6))
    return x + 1, out


moved = {Key(1): 1}


def keys_that_move(x):
    out = moved[Key(1)], Key(1) in moved
    held = moved.pop(Key(1))
    moved[Key(1)] = held + 1  # another key
    return x + 1, out, moved[Key(1)] - held


grown = {Color.RED: 1}
gathered = {Color.RED}


def containers_of_enums_that_grow(x):
    out = grown[Color.RED], Color.BLUE in grown, Color.RED in gathered, Color.BLUE in gathered
    grown[len(grown)] = 1
    gathered.add(len(gathered))
    return x + 1, out


def frozen_ones(x):
    f = frozenset([Key(1), Key(2)])
    return x + len(f), {f: 1}[frozenset([Key(2), Key(1)])], f == frozenset([Key(1), Key(2)]), f | {3}, hash(frozenset([1])) == hash(frozenset([1]))


def walks_over_enums(x):
    it = iter(Color)
    first = next(it)
    a, b, c = Color
    return x + 1, first, list(it), [*Color], Color.__len__(), dict(zip(Color, "abc")), a, c, max(Color, key=lambda m: m.value), sorted(Number)[0], it


def binds(x, a=1, *rest, key, other=2, **named):
    return x


def errors_of_binding(x):
    class Thing:
        def __init__(self, a, *, b):
            self.a = a

        def method(self, p):
            return p

        @classmethod
        def of_class(cls, p):
            return p

        @staticmethod
        def of_none(p, q=1):
            return p

        def __getitem__(self, key, extra):
            return key

    def gen(a):
        yield a

    t = Thing(1, b=2)
    out = []
    for call in (lambda: binds(), lambda: binds(1), lambda: binds(1, 2, 3, a=4, key=1), lambda: Thing(), lambda: Thing(1, 2), lambda: t.method(),
                 lambda: t.method(1, 2)):
        try:
            call()
        except TypeError as error:
            out.append((str(error), error.__cause__, error.__context__))
    for call in (lambda: t.of_class(), lambda: Thing.of_none(q=3), lambda: gen(), lambda: t[1], lambda: functools.partial(binds, key=3)(),
                 lambda: Thing.method(), lambda: (lambda *, k: k)(1)):
        try:
            call()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out


def an_error_of_binding_that_escapes(x):
    return binds(x, 1)


def errors_of_binding_in_builtins(x):
    out = []
    for call in (lambda: list(map(lambda a, b: a, [1])), lambda: sorted([2, 1], key=lambda: 0), lambda: max([1, 2], key=binds)):
        try:
            call()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out


def named_tuples_of_typing(x):
    class Base(typing.NamedTuple):
        a: int
        b: "str" = "b"

    class Child(Base):
        def both(self):
            return self.a, super().__len__()
    try:
        Base()
    except TypeError as error:
        log.append(str(error))
    try:
        class Wrong(typing.NamedTuple):
            a: int = 1
            b: int
    except TypeError as error:
        log.append(str(error))
    try:
        class Hidden(typing.NamedTuple):
            _a: int
    except ValueError as error:
        log.append(str(error))
    c = Child(1)
    return c.both(), c, Base._field_defaults, Base.__annotations__, Base.__orig_bases__, Base(2)._asdict(), repr(Base(1)), Base, Child


def fields_of_dataclasses(x):
    made = dataclasses.field(default=4)

    @dataclasses.dataclass(order=True)
    class A:
        a: int = made
        b: list = dataclasses.field(default_factory=lambda: [x])
        c: int = dataclasses.field(default=1, metadata={"k": 1}, hash=False)

    @dataclasses.dataclass
    class B(A):
        d: dict = dataclasses.field(default_factory=dict)
        e: int = dataclasses.field(default=0, init=False, repr=False)
    try:
        @dataclasses.dataclass
        class Wrong:
            a: list = dataclasses.field(default=[])
    except ValueError as error:
        log.append(str(error))
    return made.name, [f.name for f in dataclasses.fields(B)], A(1, [], 2) < A(2, []), B(1).d, B(), A.a, dataclasses.replace(B(5), a=6).a, \
        dataclasses.fields(A)[2].metadata["k"], A


class Ordered(type):
    made = 0

    def __call__(cls, *arguments):
        Ordered.made += 1
        return super().__call__(*arguments)

    def __len__(cls):
        return 3

    def __iter__(cls):
        return iter((1, 2))


class Counting(type):
    def __init__(cls, name, bases, names):
        log.append(name)
        super().__init__(name, bases, names)


def classes_of_metaclasses(x):
    class A(metaclass=Ordered):
        class In(metaclass=Counting):
            k = 1

        def __init__(self, n=0):
            self.n = n

    class B(A):
        pass
    try:
        class C(A, metaclass=Counting):
            pass
    except TypeError as error:
        log.append(str(error))
    return B(3).n, len(B), list(A), A.In.k, type(B), A, [n for n in B]


def classes_nested_deeply(x):
    class A:
        class B:
            class C:
                depth = [d for d in range(3)]

                def name(self):
                    return __class__.__qualname__
            c = C()
        n = B.c.name()
    return A.B.C().name(), A.n, A.B.c.depth, A.B, A.B.C


def classes_in_callbacks(x):
    def make(n):
        class Made(Key):
            class In:
                k = n

            def total(self):
                return self.n + self.In.k
        return Made
    made = list(map(make, (1, 2)))
    largest = max((3, 5), key=lambda n: make(n)(n).total())
    before = len(Key.__subclasses__()) >= 2
    return x + largest, [each(1).total() for each in made], made[0] is made[1], {make(4)(1): 2}[Key(1)], before, made[0]


def enums_that_change(x):
    class Late(Key):
        pass
    s = {Late(1), Late(2)}
    Late.__hash__ = lambda self: 9
    s.add(Late(1))
    return x + len(s), Late(1) in s


def a_repr_that_raises(x):
    class Bad:
        def __repr__(self):
            raise ValueError("bad")

    @dataclasses.dataclass
    class Holder:
        a: object
    try:
        repr(Holder(Bad()))
    except ValueError as error:
        log.append(lines(error))
    return x + 1, repr(Holder(Holder(3))), repr([Holder(1)])


def hashes_of_frozen_dataclasses(x):
    @dataclasses.dataclass(frozen=True)
    class Place:
        row: int
        tags: tuple = ()
    s = {Place(1), Place(1), Place(2, (Color.RED,))}
    return x + len(s), Place(2, (Color.RED,)) in s, hash(Place(1)) == hash(Place(1)), {Place(3): 1}.get(Place(3)), [p.row for p in s] == [1, 2] or len(s)


mover, asked_first = Key(1), {Loud(7, 1), 1}


def hashes_that_change_in_a_dict(x):
    local, found = Key(1), []
    for k in (mover, local):
        k.hashed = 1
        d = {k: x}
        for k.hashed in (2, 9, 17, 1, 513):  # on the way of some of these it is found
            found.append(k in d)
    return x + 1, found, d


def elements_asked_on_the_way(x):
    return x + 1, 1 in asked_first, 2 in asked_first


def ordered_dicts_hash_when_walked(x):
    d = collections.OrderedDict([(Loud(1), 1), (Loud(2), 2)])
    log.append("before")
    d.popitem()
    log.append("between")
    return x + 1, list(d.values()), len(d)


def found_by_get(x, d, s, k):
    return x + 1, d.get(k)


def found_in_dict(x, d, s, k):
    return x + 1, k in d


def found_in_set(x, d, s, k):
    return x + 1, k in s


def got_from(x, d, s, k):
    return x + 1, d[1], 1 in s


wanderer = Key(1)


def moved_key(n):
    wanderer.hashed = n
    d, s = {wanderer: n}, {wanderer}
    wanderer.hashed = 1
    return d, s, wanderer


def key_on_the_way(n):
    d = {Loud(2, 1): 7, 1: 8} if n == 3 else {"a": 7, 1: 8}
    return d, set(d), None


@pytest.mark.parametrize("program, make, numbers", [*((each, moved_key, (1, 1, 1, 99, 1, 9)) for each in (found_by_get, found_in_dict, found_in_set)),
                                                    (got_from, key_on_the_way, (1, 1, 3, 1, 3, 3))])
def test_tables_that_lie_otherwise(program, make, numbers):
    """What a dict or set answers depends on how it was filled."""
    def look(call):
        out = []
        for n in numbers:
            given = make(n)
            log.clear()
            out.append((call(x3(), *given)[1:], list(log)))
        return out
    kt._dynamo.reset()
    assert look(kt.compile(program)) == look(program)


def test_a_table_filled_anew():
    """Other keys in the same memory."""
    def look(call):
        d, out = {"a": 7, 1: 8}, []
        for n in range(6):
            if n % 2 == 1:
                d.clear()
                d[Loud(1)] = n
                d[1] = 8
            log.clear()
            out.append((call(x3(), d, {1}, None)[1:], list(log)))
            d.clear()
            d["a"], d[1] = 7, 8
        return out
    kt._dynamo.reset()
    assert look(kt.compile(got_from)) == look(got_from)


PROGRAMS = [each for each in list(globals().values())
            if getattr(each, "__code__", None) is not None and each.__module__ == __name__ and each.__code__.co_varnames[:1] == ("x",)
            and each.__name__ not in ("binds", "got_from") and not each.__name__.startswith("found_")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program(program):
    want = [outcome(program, x3()) for _ in range(4)]
    if program is keys_that_move:
        moved[Key(1)] = 1
    kt._dynamo.reset()
    fast = kt.compile(program)
    assert [outcome(fast, x3()) for _ in range(4)] == want
