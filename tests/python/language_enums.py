"""Enums in the usual ways, and elements of sets and parts of keys that hash and compare in Python: see language_programs.py."""
import collections
import enum

import kintsugi as kt
from language_programs import effects, followed, x3


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    BLUE = 3
    ROUGE = 1

    def low(self):
        return self.name.lower()


class Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Mode(str, enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Word(enum.StrEnum):
    ONE = enum.auto()


WARM = {Color.RED, Color.BLUE}
ALL = frozenset(Color)
NUMBERS = {Color.RED: 5, Color.GREEN: 6}


class Key:
    def __init__(self, n, hashed=None):
        self.n, self.hashed = n, n if hashed is None else hashed

    def __hash__(self):
        return self.hashed

    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n


Pair = collections.namedtuple("Pair", "left right")


@followed(lambda: (x3(),))
def enums_walked(x):
    return x + len(Color), [m.name for m in Color], list(Color), [m.value for m in Level], [*reversed(Color)], tuple(Level), sum(Level), max(Level), \
        sorted(Level, reverse=True), {m: i for i, m in enumerate(Color)}[Color.BLUE], [(m.name, n) for m, n in zip(Access, (1, 2))]


@followed(lambda: (x3(), Color.RED))
def enums_looked_up(x, c):
    texts = []
    try:
        Color(7)
    except ValueError as error:
        texts.append(str(error))
    try:
        Color["NO"]
    except KeyError as error:
        texts.append(str(error))
    return x + 1, Color(1), Color["RED"], Color.ROUGE is c, Color("g").low(), Level(2), Mode("slow"), Word("one"), Access(2), texts


@followed(lambda: (x3(), Color.RED))
def enums_as_keys(x, c):
    d = {Color.RED: 1, Color.GREEN: x}
    d[c] += 1
    pairs = {(c, 1): x, (Color.GREEN, Key(2)): 5}
    pairs[(c, 1)] = x * 2
    return (d[Color.GREEN], d[Color.ROUGE], c in d, [k.name for k in d], NUMBERS[c], c in NUMBERS, pairs[(Color.RED, 1)], (c, 3) in pairs,
            {Pair(1, c): 3}[Pair(1, Color.RED)], {Level.LOW: 1, Level.HIGH: 2}[Level.HIGH], {Level.LOW: 4}[1], hash(c) == hash(Color.RED))


@followed(lambda: (x3(), Color.RED, Level.LOW))
def enums_compared(x, c, level):
    return (x * level, c == Color.RED, c != Color.GREEN, c is Color.RED, c == 1, level < Level.HIGH, level == 1, Mode.FAST == "fast", Word.ONE == "one",
            isinstance(c, Color), isinstance(c, enum.Enum), c in Color, Mode.FAST + "er", [10, 20, 30][level], int(level), float(level), level * 2.5)


@followed(lambda: (x3(), Color.RED))
def enums_as_text(x, c):
    return (x + 1, str(c), repr(c), f"{c} {Level.LOW} {Level.HIGH:>3} {c.name:>5}", str(Word.ONE), f"{Word.ONE:>5}", repr(Level.LOW), str(Level.HIGH),
            f"{Access.READ}")


@followed(lambda: (x3(), Access.READ))
def enums_as_flags(x, a):
    both = a | Access.WRITE
    return x + both.value, a in both, both & Access.WRITE, both ^ a, ~a, bool(Access(0)), Access(3), list(both), both == Access.READ | Access.WRITE


@followed(lambda: (x3(), Color.RED))
def sets_of_enums(x, c):
    s, t = {Color.RED, c, Color.BLUE}, {c, Color.GREEN}
    return (x + len(s), c in s, Color.GREEN in s, [m.name for m in s], len(s | t), (s & t) == {c}, s - t, s <= t, frozenset(Color), s, c in WARM,
            Color.GREEN in WARM, Color.BLUE not in WARM, c in ALL)


@followed(lambda: (x3(), Key(4)))
def sets_of_hashed(x, key):
    s = {key, Key(4), Key(5)}
    for n in (3, 1, 2, 3):
        s.add(Key(n))
    s.discard(Key(1))
    s.discard(Key(9))
    s.remove(Key(2))
    try:
        s.remove(Key(8))
    except KeyError as error:
        x = x * len(error.args)
    return x + len(s), Key(3) in s, Key(6) in s, Key(4) not in s, [k.n for k in s], key in s, s.pop().n, len(s)


@followed(lambda: (x3(),))
def sets_of_hashed_that_leave(x):
    s = {Key(n * 7) for n in range(6)}
    s.discard(Key(14))
    t = set((Key(3), 1, "a"))
    t.update([Key(3), Key(4)])
    effects["order"] = [k.n for k in s]
    return x + len(t), s, frozenset([Key(1), Key(2), Key(1)]), Key(2) in frozenset([Key(2)]), {(Key(1), 2), (Key(1), 2), (Key(2), "q")}, t


@followed(lambda: (x3(), Key(3)))
def hashes_asked(x, key):
    return x + hash(key), hash(Key(2 ** 70)), hash((1, key)) == hash((1, Key(3))), hash(frozenset((1, 2))) == hash(frozenset((2, 1)))
