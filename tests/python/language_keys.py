"""Keys of dicts that hash and compare in Python: the same calls in the same order."""
import collections
import dataclasses

import kintsugi as kt
from language_programs import effects, followed, x3


class Key:
    def __init__(self, name, number):
        self.name, self.number = name, number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name


class ByParts:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __hash__(self):
        return hash((self.a, self.b))

    def __eq__(self, other):
        return (self.a, self.b) == (other.a, other.b)


@dataclasses.dataclass(frozen=True)
class Place:
    row: int
    column: int


Pair = collections.namedtuple("Pair", "left right")


@followed(lambda: (x3(),))
def keys_with_a_hash(x):
    d = {Key("a", 1): x, Key("b", 2): x + 1}
    d[Key("a", 1)] = x * 2
    d[Key("c", 3)] = 5
    return d[Key("a", 1)], Key("b", 2) in d, Key("z", 2) in d, len(d), [k.name for k in d], d.get(Key("q", 9)), d[Key("c", 3)]


@followed(lambda: (x3(),))
def keys_of_frozen_dataclasses(x):
    grid = {Place(r, c): x * (r + c) for r in range(2) for c in range(2)}
    del grid[Place(0, 0)]
    grid.setdefault(Place(5, 5), x)
    grid.setdefault(Place(1, 1), 0)
    return grid[Place(1, 1)] + grid.pop(Place(0, 1)), len(grid), [(p.row, p.column) for p in grid], Place(9, 9) in grid


@followed(lambda: (x3(),))
def keys_of_named_tuples(x):
    d = {Pair(1, 2): x, Pair(1, 3): x + 1}
    d[Pair(1, 2)] = x * 3
    return d[Pair(1, 2)], (1, 3) in d, Pair(2, 2) in d, [k.right for k, _ in d.items()], d.get(Pair(0, 0), 4)


@followed(lambda: (x3(),))
def hash_among_plain_keys(x):
    d = {1: x, "t": 2, Key("one", 7): x * 2}
    found = 7 in d
    d["u"] = 3
    return d[Key("one", 7)], d[1], found, list(d.values())[1:2], d.pop("t")


@followed(lambda: (x3(),))
def missing_key_with_a_hash(x):
    d = {ByParts(1, "a"): x}
    try:
        d[ByParts(2, "a")]
    except KeyError as error:
        x = d[ByParts(1, "a")] + len(error.args)
    return x, ByParts(1, "a") in d.keys()


@followed(lambda: (x3(), ByParts(4, 5)))
def key_from_outside(x, key):
    d = {}
    d[key] = x
    d[ByParts(1, 1)] = 3
    return d[ByParts(4, 5)] * d[ByParts(1, 1)], next(iter(d)) is key


@followed(lambda: (x3(),))
def dict_with_such_keys_leaves(x):
    d = {ByParts(1, 2): x * 2, "plain": 1}
    d[ByParts(3, 4)] = "second"
    effects["names"] = [(k.a, k.b) for k in d if not isinstance(k, str)]
    return list(d.items()), dict(a=d)["a"]


class Memo:
    def __init__(self):
        self.found = {}

    def area(self, place, x):
        if place not in self.found:
            self.found[place] = x * place.row
        return self.found[place]


@followed(lambda: (x3(),))
def memo_by_key(x):
    memo = Memo()
    return memo.area(Place(3, 1), x) + memo.area(Place(3, 1), x), len(memo.found)


TABLE = {Place(1, 2): 3.0, Place(2, 2): [4], "plain": 5, Pair(1, Place(1, 1)): 6}
PLACES = {Place(0, 0), Place(4, 4)}
FROZEN = frozenset({Place(0, 1), "a"})


@followed(lambda: (x3(), Place(2, 2)))
def keys_of_before_that_hash(x, place):
    return (x * TABLE[Place(1, 2)], TABLE[place][0], TABLE.get(Place(1, 2)), Place(2, 2) in TABLE, TABLE[Pair(1, Place(1, 1))], Place(4, 4) in PLACES,
            Place(0, 1) in FROZEN)
