"""Iterators against plain runs: order of effects, iterators that are taken on outside, exhausted ones, lists that change
meanwhile, breaks and exceptions in callbacks, identity. Loops over real iterators: a break a turn and no call-out more."""
import functools
import itertools
import operator

import kintsugi as kt
import pytest

from comparing import Programs, compare, snapshot
from language_functools import Version

programs = Programs()


def x3():
    return (kt.tensor([1.0, 2.0, 3.0]),)


def tensors(count, kind=list):
    return lambda: (kind(kt.ones(3) * i for i in range(count)),)


class Counter:
    """An iterator with a state that everybody sees."""

    def __init__(self, end, log=None):
        self.at, self.end, self.log = 0, end, log

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        if self.log is not None:
            self.log.append(self.at)
        return self.at


class Items:
    """A sequence by __getitem__ alone."""

    def __init__(self, *items):
        self.items = items

    def __getitem__(self, index):
        return self.items[index]


class Sized(Items):
    def __init__(self, *items):
        self.items, self.asked = items, []

    def __len__(self):
        self.asked.append("len")
        return len(self.items)

    def __iter__(self):
        self.asked.append("iter")
        return iter(self.items)


class Hinted:
    def __init__(self, hint):
        self.hint, self.asked = hint, []

    def __iter__(self):
        self.asked.append("iter")
        return iter((1, 2))

    def __length_hint__(self):
        self.asked.append("hint")
        return self.hint


# ---- Loops over real iterators ---------------------------------------------------------------------------------------


@programs(tensors(10), call_outs=11, hand_overs=0)
@programs(tensors(10, tuple), call_outs=11, hand_overs=0)
def a_break_a_turn(xs):
    total = 0
    for x in xs:
        total = total + x
        kt._dynamo.graph_break()
    return total


@programs(tensors(10), call_outs=11, hand_overs=0)
def a_break_a_turn_with_effects(xs):
    seen = []
    for x in xs:
        y = x * 2
        kt._dynamo.graph_break()
        seen.append(y)
    return seen


@programs(tensors(10), call_outs=11, hand_overs=0)
def counted(xs):
    total = 0
    for i, x in enumerate(xs, start=3):
        kt._dynamo.graph_break()
        total = total + x * i
    return total


@programs(tensors(10), call_outs=11, hand_overs=0)
def zipped(xs):
    total = 0
    for x, y in zip(xs, tuple(xs)):
        kt._dynamo.graph_break()
        total = total + x * y
    return total


@programs(tensors(10), hand_overs=0)
def zipped_with_itself(xs):
    it = iter(xs)
    kt._dynamo.graph_break()
    return [x + y for x, y in zip(it, it)], next(it, None)


@programs(lambda: ([1, 2, 3],), lambda: ([1.5, 2, "a"],), lambda: ([],), lambda: ([kt.ones(2), None, [1]],), together=True)
def items_of_any_kind(xs):
    seen = []
    for x in xs:
        kt._dynamo.graph_break()
        seen.append(x)
    return seen, kt.ones(2) * len(seen)


@programs(lambda: ([1, 2, 3],))
def the_list_grows(xs):
    total = kt.zeros(2)
    for x in xs:
        kt._dynamo.graph_break()
        if len(xs) < 6:
            xs.append(x + 1)
        total = total + x
    it = iter(xs)
    kt._dynamo.graph_break()
    for x in it:
        xs.pop()
        total = total * 2
    xs.append(1)
    return total, next(it, "ended"), xs


@programs(lambda: ([1, 2, 3], iter([4, 5, 6]), enumerate([7, 8]), zip([1], [2, 3]), iter((9,))))
def real_iterators_taken_on(xs, it, counts, pairs, single):
    first = next(it)
    total = kt.ones(2) * first
    for i, value in counts:
        total = total + i * value
        break
    for a, b in pairs:
        total = total + a * b
    for a in single:
        total = total * a
    return total, list(it), list(counts), list(pairs), next(single, "ended"), it


# ---- Iterators written in Python -------------------------------------------------------------------------------------


@programs(x3)
def user_iterator_to_its_end(x):
    it = Counter(3)
    for i in it:
        x = x + i
    return x, it.at, next(it, "ended"), list(it), Counter(3).__next__()


@programs(x3)
def user_iterator_breaks_inside(x):
    log = []
    for i in Counter(3, log):
        kt._dynamo.graph_break()
        x = x + i
        if i == 2:
            break
    return x, log, list(Counter(2, log)), sum(Counter(3, log)), log


@programs(lambda: (Counter(4, []), *x3()))
def user_iterator_from_outside(it, x):
    first = next(it)
    pairs = list(zip(it, "ab"))
    return x * first, pairs, list(it), it.log


class Breaking:
    def __init__(self, log):
        self.log, self.at = log, 0

    def __iter__(self):
        self.log.append("iter")
        kt._dynamo.graph_break()
        self.log.append("go")
        return self

    def __next__(self):
        self.at += 1
        kt._dynamo.graph_break()
        self.log.append(self.at)
        if self.at > 2:
            raise StopIteration
        return self.at


@programs(x3)
def breaks_in_its_methods(x):
    log = []
    for i in Breaking(log):
        x = x * i
    a, b = Breaking(log)
    it = Breaking(log)
    return x, log, a, b, next(it), next(it, 5), next(it, 6), next(it, it.at)


@programs(x3)
def sequences_by_getitem(x):
    for item in Items(1, 2):
        x = x + item
    a, *b = Items(1, x, 3)
    return x, a, b, list(Items("a")), 3 in Items(1, 3), 4 in Items(1), list(zip(Items(1, 2), Items(3))), iter(Items(5))


@programs(x3)
def lengths_are_asked(x):
    answers, bags = [], [Sized(1, 2) for _ in range(6)]
    answers += [list(bags[0]), tuple(bags[1]), [*bags[2]], sorted(bags[3]), sum(bags[4]), (lambda *a: a)(*bags[5])]
    hints = [Hinted(3), Hinted(NotImplemented)]
    answers += [list(hints[0]), tuple(hints[1])]
    return x * 2, answers, [bag.asked for bag in bags], [each.asked for each in hints]


class NoIterator:
    def __iter__(self):
        return 5


class BadLength:
    def __iter__(self):
        return iter(())

    def __len__(self):
        return -1


class Unwalkable:
    __iter__ = None

    def __getitem__(self, index):
        return 1


class Failing:
    def __iter__(self):
        return self

    def __next__(self):
        raise ValueError("no more")


@programs(lambda: (NoIterator(),))
@programs(lambda: (BadLength(),))
@programs(lambda: (Unwalkable(),))
@programs(lambda: (Failing(),))
@programs(lambda: (5,))
def what_cannot_be_walked(thing):
    x = kt.ones(2)
    errors = []
    for walk in (list, tuple, sum, sorted, iter, lambda t: [*t], lambda t: next(iter(t)), lambda t: [a for a in t]):
        try:
            errors.append(walk(thing))
        except Exception as error:
            errors.append((type(error).__name__, str(error)))
    return x, [e if isinstance(e, (tuple, list)) else type(e).__name__ for e in errors]


# ---- Order of effects ------------------------------------------------------------------------------------------------


@programs(x3)
def lazy_and_in_order(x):
    log = []

    def note(value):
        log.append(value)
        return value

    mapped = map(note, [1, 2, 3])
    log.append("made")
    first = next(mapped)
    pairs = list(zip(mapped, filter(note, [0, 5, 6])))
    list(itertools.takewhile(note, [1, 0, 2]))
    functools.reduce(lambda a, b: note(a + b), [1, 2, 3])
    max([1, 3, 2], key=note)
    any(map(note, [0, 7, 8]))
    for value in map(note, "ab"):
        log.append("in " + value)
    return x * first, pairs, log


@programs(lambda: ([], *x3()))
def effects_outside(log, x):
    def note(value):
        log.append(value)
        return value

    total = sum(map(note, [1, 2, 3]))
    for value in map(note, [4, 5]):
        log.append(-value)
    ordered = sorted([3, 1, 2], key=note)
    return x * total, ordered, [note(v) for v in filter(note, [0, 6])]


@programs(x3)
def breaks_in_callbacks(x):
    def double(value):
        kt._dynamo.graph_break()
        return value * 2

    it = iter([1, 2, 3])
    first = next(map(double, it))
    for value in map(double, it):
        x = x + value
    return x, first, sorted([2, 1], key=double), max([1, 2], key=double), list(itertools.accumulate([1, 2], lambda a, b: double(a) + b)), list(
        filter(double, [0, 1])), functools.reduce(lambda a, b: double(a) + b, [1, 2, 3])


def fail(value):
    if value == 2:
        raise KeyError(value)
    return value


def raises(walk):
    x, it = kt.ones(2), iter([1, 2, 3])
    try:
        answer = walk(it)
    except Exception as error:
        answer = type(error).__name__, str(error)
    return x * 2, answer, list(it)


for walk in (lambda it: list(map(fail, it)), lambda it: sorted(it, key=fail), lambda it: sum(map(fail, it)), lambda it: max(it, key=fail),
             lambda it: [v for v in filter(fail, it)], lambda it: next(iter([])), lambda it: max([]), lambda it: functools.reduce(fail, []),
             lambda it: list(zip(it, [], strict=True)), lambda it: list(zip([1], it, strict=True)), lambda it: sum(["a"]),
             lambda it: sum([], ""), lambda it: min(1, "a"), lambda it: itertools.islice(it, -1), lambda it: any(map(fail, it)),
             lambda it: functools.reduce(lambda a, b: fail(a), it), lambda it: list(itertools.takewhile(fail, it)), lambda it: [*it, *5]):
    programs.append((raises, [lambda walk=walk: (walk,)], {}))


@programs(x3)
def an_exception_leaves(x):
    for value in map(lambda v: 1 / v, [1, 0]):
        x = x + value
    return x


# ---- Iterators that leave, in any state -------------------------------------------------------------------------------


def made(x):
    yes = lambda v: True  # noqa: E731
    return [zip([1, 2, 3], "abcd"), zip([1, 2], [3, 4], strict=True), map(lambda v: v + 1, [1, 2, 3]), filter(yes, [1, 2]),
            enumerate([5, 6, 7], 2), reversed([1, 2, 3]), iter("abc"), iter(b"abc"), iter(range(3)), iter({"a": 1, "b": 2}),
            itertools.chain([1], [2, 3]), itertools.islice([1, 2, 3, 4, 5], 1, None, 2), itertools.islice([1, 2], 1),
            itertools.zip_longest([1], [2, 3], fillvalue=0), itertools.product([1, 2], [3, 4]), itertools.product(),
            itertools.permutations([1, 2, 3]), itertools.permutations([1, 2], 3), itertools.combinations([1, 2, 3], 2),
            itertools.combinations([], 0), itertools.combinations_with_replacement([1, 2], 2),
            itertools.accumulate([1, 2, 3]), itertools.accumulate([1, 2], operator.mul, initial=4), itertools.repeat(1, 3),
            itertools.repeat(2), itertools.count(1), itertools.count(1.5, -1), itertools.cycle([1, 2, 3]), itertools.cycle([]),
            itertools.starmap(operator.add, [(1, 2), (3, 4)]), itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1]),
            itertools.dropwhile(lambda v: v < 2, [1, 2, 1]), itertools.compress([1, 2, 3], [1, 0, 1]),
            itertools.pairwise([1, 2, 3, 4]), itertools.pairwise([1]), itertools.filterfalse(None, [0, 1, 0]),
            itertools.zip_longest(Items(1, 2), [3]), zip(Counter(3), Counter(2)), map(abs, Counter(3)),
            itertools.chain(Counter(2), Items(7)), itertools.islice(Counter(9), 1, 8, 2), iter(Items(1, 2)),
            itertools.accumulate(Counter(3), initial=2), itertools.cycle(Counter(2)), itertools.pairwise(Counter(4)),
            enumerate(Counter(2)), itertools.tee([1, 2, 3])[0], itertools.groupby([1, 1, 2])]


def how_many():
    return len(made(None))


def summary(items):
    return [type(item).__name__ if isinstance(item, itertools._grouper) else
            (item[0], list(item[1])) if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], itertools._grouper) else item
            for item in items]


@pytest.mark.parametrize("taken", [0, 1, 2, 3, 5])
def test_iterators_that_leave(taken):
    """Each kind, after some items, goes on outside as the plain one does, and is of its type."""
    def leave(x, number):
        it = made(x)[number]
        got = [next(it, "ended") for _ in range(taken)]
        return x + 1, got, it

    for number in range(how_many()):
        kt._dynamo.reset()
        compiled = kt.compile(leave)
        for _ in range(2):
            answers = []
            for function in (leave, compiled):
                _, got, it = function(kt.ones(2), number)
                answers.append((type(it), summary(got), summary(itertools.islice(it, 7)), next(it, "ended")))
            assert str(answers[0]) == str(answers[1]), number


@pytest.mark.parametrize("name, mark, taken", [("tee", 0, 2), ("groupby", 1, 1), ("iter", 2, 2)])
def test_those_without_a_recipe(name, mark, taken):
    def leave(x):
        it = [itertools.tee([1, 2, 3])[1], itertools.groupby([1, 1, 2]), iter(iter([1, 2, 0, 3]).__next__, 0)][mark]
        return x * 2, [next(it, "ended") for _ in range(taken)], it

    compiled = kt.compile(leave)
    for _ in range(3):
        (_, got, it), (_, wanted, plain) = compiled(kt.ones(2)), leave(kt.ones(2))
        assert type(it) is type(plain) and len(got) == len(wanted)
        assert len(list(it)) == len(list(plain))


# ---- functools and operator -------------------------------------------------------------------------------------------


def scaled(x, k=1.0, *, offset=0.0, **more):
    return x * k + offset + sum(more.values())


real_partial = functools.partial(scaled, k=2.0, offset=1.0)
by_second, by_shape, call_sum = operator.itemgetter(1), operator.attrgetter("ndim"), operator.methodcaller("sum")


@programs(x3)
def partial_objects(x):
    double = functools.partial(scaled, k=2.0)
    more = functools.partial(double, offset=x, extra=1.0)
    kept = functools.partial(max, 3)
    return double(x), double(x, k=4.0), more(x, extra=2.0), kept(1, 2), real_partial(x), real_partial(x, offset=5.0), double, more, kept


@programs(x3, together=True)
def changed_partial(x):
    first = real_partial(x)
    real_partial.keywords["k"] = 3.0
    second = real_partial(x)
    real_partial.keywords["k"] = 2.0
    return first, second


@programs(x3)
def wrapped_functions(x):
    def shout(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2
        return wrapper

    loud = shout(scaled)

    @shout
    def local(y):
        """A document."""
        return y + 1

    return loud(x, 3.0), local(x), loud, local, loud.__name__, local.__doc__, loud.__wrapped__ is scaled


@functools.lru_cache(maxsize=2)
def remembered(n):
    return n * 2


@programs(x3)
def caches(x):
    remembered.cache_clear()
    total = x * remembered(1) + remembered(1) + remembered(2) + remembered(3)
    return total, remembered(1), tuple(remembered.cache_info())


@functools.singledispatch
def described(value):
    return "object"


@described.register(int)
def described_int(value):
    return "int"


@programs(x3)
def dispatch(x):
    return x * 2, described(1), described("a"), described(True)


@programs(x3)
def orderings(x):
    old, new = Version(1), Version(2)
    return x + 1, old <= new, old > new, old >= new, max(old, new).number, min([new, old], key=lambda v: v.number) is old, sorted(
        [3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))


@programs(x3)
def getters(x):
    row = ("a", x, 3)
    swap = operator.itemgetter(1, 0)
    add = operator.methodcaller("__add__", 1.0)
    return by_second(row), swap(row), by_shape(x), call_sum(x), add(x), operator.attrgetter("shape", "ndim")(x), sorted(
        [("b", 2), ("a", 1)], key=by_second), list(map(operator.itemgetter("k"), [{"k": 1}, {"k": x}])), swap, add


@programs(x3)
def operators(x):
    values = [1, 2, 3]
    operator.setitem(values, 0, 9)
    operator.delitem(values, 1)
    ours = operator.iadd(values, [4])
    return (operator.add(x, 1), operator.sub(x, x), operator.mul(2, x), operator.truediv(x, 2), operator.matmul(x, x), operator.neg(x),
            operator.pos(x), operator.pow(2, 3), operator.mod(7, 4), operator.floordiv(7, 2), operator.lshift(1, 4), operator.rshift(8, 2),
            operator.and_(6, 3), operator.or_(6, 3), operator.xor(6, 3), operator.invert(5), operator.not_([]), operator.truth([1]),
            operator.lt(1, 2), operator.ge(1, 2), operator.eq(x.shape, (3,)), operator.ne(1, 1), operator.contains([1], 1),
            operator.getitem(x, 1), operator.getitem({"a": x}, "a"), operator.abs(-3), operator.abs(x), operator.concat([1], [2]),
            operator.call(max, 1, 2), operator.is_(None, None), operator.index(3), operator.countOf([1, 1], 1), values, ours is values)


class Row(list):
    """Its iterator is a list's."""


class Pair(tuple):
    pass


@programs(lambda: (Row(kt.ones(3) * i for i in range(12)), Pair((kt.ones(2), kt.zeros(2)) * 6)))
def subclasses_after_a_break(row, pair):
    total = kt.zeros(3)
    for item in row:
        kt._dynamo.graph_break()
        total = total + item
    for item in pair:
        kt._dynamo.graph_break()
        total = total + item.sum()
    return total


@pytest.mark.parametrize("number", range(len(programs)), ids=programs.names())
def test_programs(number):
    function, makes, expected = programs[number]
    compare(function, *makes, **expected)


NESTED = {
    "ranges": lambda n: (range(n), range(n)),
    "lists": lambda n: ([float(i) for i in range(n)],) * 2,
    "tuples": lambda n: (tuple(range(n)), tuple(range(n))),
    "range and list": lambda n: (range(n), [1.0] * n),
    "dict and text": lambda n: ({i: i for i in range(n)}, "a" * n),
    "range and bytes": lambda n: (range(n), b"a" * n),
    "set": lambda n: (set(range(n)), frozenset(range(n))),
}


@pytest.mark.parametrize("turns", [3, 7, 9, 20])
@pytest.mark.parametrize("kind", NESTED)
def test_the_end_of_an_inner_loop_is_no_break(kind, turns, stress):
    def walk(x, outer, inner):
        total = x
        for _ in outer:
            for _ in inner:
                total = total * 1.01 + 0.5
        return total

    def walk_marked(x, outer, inner):
        total = x
        for i, one in enumerate(outer):
            for j, other in enumerate(inner):
                total = total * 1.01 + i - j
        return total, one, other

    if stress in ("break_everywhere", "miss_every_guard"):
        pytest.skip("everything is a break, or compiled again each turn")
    kt._dynamo.reset()
    for function in (walk, walk_marked):
        compiled = kt.compile(function, fullgraph=True)
        for count in (turns, turns, turns + 1):
            got, want = (each(kt.ones(2), *NESTED[kind](count)) for each in (compiled, function))
            assert snapshot(got) == snapshot(want)
