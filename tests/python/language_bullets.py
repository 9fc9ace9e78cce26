"""One program for each construct that people name when they say what Python has, where no other file here has it."""
import cmath
import contextlib
import dataclasses
import functools
import os
import typing

import kintsugi as kt
from language_programs import effects, followed, x3


@functools.cache
def tenfold(n):
    return n * 10


@functools.lru_cache(maxsize=4)
def scaled(n, by):
    return [n * by]


for number in (1, 2, 3):
    tenfold(number)
    scaled(number, 2)


@followed(lambda: (x3(),))
def lru_cache_hits(x):
    first, again = scaled(2, 2), scaled(2, 2)
    return x * tenfold(3) + tenfold(1), first is again, first[0] + scaled(1, 2)[0]


@dataclasses.dataclass(slots=True)
class Slim:
    a: object
    b: int = 2

    def total(self):
        return self.a + self.b


class Typed(typing.NamedTuple):
    left: object
    right: int = 3

    def sum(self):
        return self.left + self.right


@followed(lambda: (x3(),))
def dataclass_with_slots(x):
    s = Slim(x)
    s.b = 5
    return s.total(), s.b, hasattr(s, "__dict__")


@followed(lambda: (x3(),))
def typing_named_tuple(x):
    t = Typed(x)
    left, right = t
    return t.sum(), right, t[1], t._replace(right=4).right, Typed._fields, left is t.left


@followed(lambda: (x3(),))
def exit_stacks(x):
    log = []

    @contextlib.contextmanager
    def entered(name):
        log.append(name)
        try:
            yield name
        finally:
            log.append(-1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(entered(1))
        stack.callback(log.append, 7)
        x = x * stack.enter_context(entered(2))
    return x, log


@followed(lambda: (x3(),))
def hash_and_eq_used(x):
    class Both:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n * 3

        def __eq__(self, other):
            return self.n == other.n
    return x + hash(Both(4)), Both(1) == Both(1), Both(1) != Both(2), Both(2) in [Both(1), Both(2)]


@followed(lambda: (x3(),))
def views_of_dicts(x):
    d = {"a": 1, "b": 2}
    keys, items, values = d.keys(), d.items(), d.values()
    d["c"] = 3
    return x * len(keys), list(keys), ("b", 2) in items, sorted(values), keys & {"a", "z"}, "c" in keys


@followed(lambda: ([1, 2], x3()))
def aliases_of_one_list(a, x):
    b = a
    b.append(3)
    c = {"k": a}
    c["k"][0] = 9
    return x * len(a), a is c["k"], b, a == b


@followed(lambda: (x3(),))
def elements_that_are_tensors(x):
    items = [x, x + 1]
    table = {"x": x, 1: items}
    table[1].append(x * 2)
    return items[2] + table["x"], x in items, len(items), (x, items)[0] is x


@followed(lambda: (x3(),))
def elements_without_a_hash(x):
    try:
        {[1]: 2}
    except TypeError as error:
        text = str(error)
    try:
        {1, {}}
    except TypeError as error:
        return x + 1, text, str(error)


@followed(lambda: (x3(),))
def slices_as_targets(x):
    a = [0, 1, 2, 3, 4]
    a[1:3] = ["b"]
    a[::2] = [7, 8]
    del a[-1:]
    b = [*a, *a[:1]]
    first, *rest, last = b
    return x * len(b), a, first, rest, last


@followed(lambda: (x3(),))
def comprehensions_of_all_kinds(x):
    squares = {i: i * i for i in range(4) if i % 2}
    left = {i % 3 for i in range(7)}
    pairs = [(i, j) for i in range(2) for j in range(i + 1)]
    return x * len(left), squares, pairs, sorted(left), sum(i for i in squares.values())


@followed(lambda: (x3(),))
def unions_of_dicts(x):
    a, b = {"p": 1}, {"p": 2, "q": 3}
    c = a | b
    a |= {"r": 4}
    return x * len(c), a, c, {**b, "z": 0}, b


@followed(lambda: (x3(),))
def frozen_sets(x):
    s = frozenset((3, 1)) | {2}
    return x * len(s), sorted(s), s == {1, 2, 3}, frozenset((1,)) < s, {s: 1}[frozenset((1, 2, 3))]


@followed(lambda: (x3(),))
def deletions(x):
    a, b, d = 1, [1, 2, 3], {"k": 1}
    del a, b[0], d["k"]
    try:
        a
    except UnboundLocalError as error:
        return x * len(b), str(error), d


kept_default = [5]


@followed(lambda: (x3(),))
def defaults_that_are_objects(x):
    def grow(item, into=kept_default, *, by={"n": 2}):
        return item * by["n"] + into[0]

    def only(a, /, b, *, c):
        return a + b * c
    return grow(x), only(x, b=1, c=2), only.__name__


@followed(lambda: (x3(),))
def complex_math(x):
    z = cmath.sqrt(-4) + cmath.exp(0) * 1j
    return x * z.imag, cmath.phase(1j), abs(z), cmath.isnan(z)


@followed(lambda: (x3(),))
def reads_of_the_environment(x):
    return x + len(os.environ.get("KINTSUGI_NOT_THERE", "abc")), "KINTSUGI_NOT_THERE" in os.environ


@followed(lambda: (x3(),))
def names_of_typing(x):
    if typing.TYPE_CHECKING:
        return x
    value: typing.Optional[int] = 2
    other = typing.cast(int, value)
    return x * other


@followed(lambda: (x3(),))
def imports_by_condition(x):
    if x.shape[0] > 2:
        import math as chosen
    else:
        import cmath as chosen
    try:
        from operator import add
    except ImportError:
        add = None
    return add(x, chosen.floor(2.5)), chosen.__name__


@followed(lambda: (x3(),))
def chained_comparison_and_walrus(x):
    n = x.shape[0]
    inside = 1 < n <= 3 < 5 != n
    if (doubled := n * 2) > 5 and (rest := doubled % 4):
        x = x + rest
    return x, inside, doubled
