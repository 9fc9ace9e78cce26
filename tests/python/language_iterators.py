"""Of iterators: iter, next, itertools, and the builtins that walk through them; see language_programs.py."""
import functools
import itertools
import operator

from language_programs import effects, followed, x3


class Bag:
    """Iterable through another's iterator; asked for its length by list() and its like."""

    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


class Backwards:
    def __init__(self, items):
        self.items = items

    def __reversed__(self):
        return iter(self.items[::-1])


class Endless:
    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        return self.at


@followed(lambda: (x3(),))
def iter_and_next(x):
    it = iter([1, 2, 3])
    first = next(it)
    rest = [next(it, None), next(it, None), next(it, x), next(it, 5)]
    return x + first, rest, list(it)


@followed(lambda: (x3(),))
def iter_of_a_function(x):
    values = [3, 1, 2, 0, 7]
    seen = []
    for value in iter(lambda: values.pop(0), 0):
        seen.append(x * value)
    return seen, values


@followed(lambda: (x3(),))
def user_iterables(x):
    bag = Bag(1, 2, 3)
    for item in bag:
        x = x + item
    a, b, c = bag
    first, *rest = Bag(4, x)
    return x, [*bag, *Bag()], list(bag), tuple(bag), sum(bag), max(bag), 2 in bag, 5 in bag, (a, b, c), first, rest


@followed(lambda: (x3(),))
def user_iterables_inside_others(x):
    pairs = list(zip(Bag(x, 2), Bag(3, 4, 5)))
    counted = list(enumerate(Bag("a", "b"), 3))
    return pairs, counted, sorted(Bag(3, 1, 2)), list(map(lambda v: v + x, Bag(1, 2))), list(itertools.chain(Bag(1), Bag(2)))


@followed(lambda: (x3(),))
def user_iterators(x):
    endless = Endless()
    a, b = next(endless), next(endless, None)
    taken = [value * x for value, _ in zip(endless, range(3))]
    for value in endless:
        if value > 8:
            break
        x = x + value
    return x, a, b, taken, list(itertools.islice(endless, 2)), endless.at, 20 in endless


@followed(lambda: (x3(),))
def user_star_arguments(x):
    def total(*values, scale=1):
        return sum(values) * scale
    return total(*Bag(x, x, 2)), total(*Bag(1), *Bag(x, scale := 3), scale=scale), print_nothing(*Bag())


def print_nothing(*nothing):
    return len(nothing)


@followed(lambda: (x3(),))
def reversed_walks(x):
    back = reversed([1, x, 3])
    last = next(back)
    return x + last, list(back), list(reversed(range(2, 11, 3))), list(reversed((1, 2))), list(reversed("abc")), list(
        reversed(Backwards([1, 2]))), [y for y in reversed([])]


@followed(lambda: (x3(),))
def map_walks(x):
    seen = []
    for y in map(lambda a, b: a * b, [1, 2, 3], (x, x)):
        seen.append(y)
    for y in map(seen.append, [1, 2]):
        seen.append(y)
    return seen, list(map(abs, [-1, 2])), list(map(str, [])), next(map(lambda a: a + x, [1]))


@followed(lambda: (x3(),))
def filter_walks(x):
    return x + sum(filter(None, [0, 1, 2])), list(filter(lambda v: v > 1, [1, 2, 3])), list(
        itertools.filterfalse(lambda v: v > 1, [1, 2, 3])), list(filter(bool, ["", "a"])), [
            y for y in filter(lambda y: y.shape, [x, x])]


@followed(lambda: (x3(),))
def zip_walks(x):
    short = iter([1, 2])
    longer = iter([1, 2, 3, 4])
    pairs = list(zip(longer, short))
    return x + pairs[0][0], pairs, next(longer), list(zip([1], [x], strict=True)), list(zip()), list(
        itertools.zip_longest([1, 2, 3], [4], [], fillvalue=x)), list(itertools.zip_longest())


@followed(lambda: (x3(), [4.0, 5.0]))
def enumerate_walks(x, values):
    for i, value in enumerate(values, start=2):
        x = x + i * value
    return x, list(enumerate("ab")), list(enumerate(iterable=values, start=-1)), dict(enumerate_pairs=2)


@followed(lambda: (x3(),))
def sorts(x):
    rows = [("b", 2, x), ("a", 2, x + 1), ("c", 1, x + 2)]
    by_number = [row[2] for row in sorted(rows, key=lambda row: row[1])]
    asked = []

    def key(value):
        asked.append(value)
        return -value

    return by_number, sorted([3, 1, 2], key=key, reverse=True), asked, sorted({"z": 1, "y": 2}), sorted(
        [(1, "b"), (1, "a")]), sorted([1.5, 1, True], reverse=True), sorted(rows[:1], key=None)


@followed(lambda: (x3(),))
def extremes(x):
    return x + min(3, 1, 2), max([1, 5, 2]), min(["bb", "a"], key=len), max([], default=None), min(
        [2, 1], default=x), max(3, 4, key=lambda v: -v), max([x, x + 1], key=lambda t: t.numel()), min((1, 1.0)), max(1, True)


@followed(lambda: (x3(),))
def sums(x):
    return sum([x, x, 1]), sum([1, 2], 10), sum([x], start=x), sum([[1], [2]], []), sum([0.1] * 3), sum(
        [True, 2])


@followed(lambda: (x3(),))
def any_and_all(x):
    it = iter([0, 1, 2, 0, 3])
    found = any(it), next(it), all(it), list(it)
    return x * 2, found, any([]), all([]), all(map(lambda v: v, [1, 0, 1]))


@followed(lambda: (x3(),))
def reductions(x):
    return functools.reduce(lambda a, b: a + b, [x, x, x]), functools.reduce(lambda a, b: a * b, [2, 3], x), functools.reduce(
        max, [1, 3, 2]), functools.reduce(lambda a, b: a, [], 7)


@followed(lambda: (x3(),))
def chains(x):
    chain = itertools.chain([1, 2], (), (x,))
    first = next(chain)
    return x + first, list(chain), list(chain), sum(itertools.chain.from_iterable([[1], (2, 3)])), list(itertools.chain()), list(
        itertools.chain("ab", {"c": 1}))


@followed(lambda: (x3(),))
def slices_of_iterators(x):
    it = iter(range(20))
    taken = list(itertools.islice(it, 1, 8, 3))
    return x + next(it), taken, list(itertools.islice([1, 2, 3], 2)), list(itertools.islice("abcd", 1, None, 2)), list(
        itertools.islice([1], 3, 5)), list(itertools.islice(itertools.count(4, 2), 3))


@followed(lambda: (x3(),))
def combinatorics(x):
    total = x
    for a, b in itertools.product([1, 2], repeat=2):
        total = total + a * b
    return total, list(itertools.product("ab", [1, 2])), list(itertools.product()), list(itertools.product([], [1])), list(
        itertools.permutations([1, 2, 3])), list(itertools.permutations("abc", 2)), list(itertools.permutations([1], 2)), list(
            itertools.combinations([1, 2, 3, 4], 3)), list(itertools.combinations([1], 0)), list(
                itertools.combinations_with_replacement([1, 2], 2))


@followed(lambda: (x3(),))
def accumulations(x):
    return list(itertools.accumulate([x, x, x])), list(itertools.accumulate([1, 2, 3], lambda a, b: a * b)), list(
        itertools.accumulate([1, 2], initial=x)), list(itertools.accumulate([])), list(itertools.accumulate([3, 1], func=max))


@followed(lambda: (x3(),))
def endless_ones(x):
    cycle = itertools.cycle([1, x])
    numbers = itertools.count(1.5, 0.5)
    turns = [next(cycle) for _ in range(5)]
    return x + 1, turns, next(numbers), next(numbers), list(itertools.repeat(x, 2)), list(itertools.repeat(1, -1)), [
        a for a, _ in zip(itertools.repeat("r"), range(2))], next(itertools.cycle([]), "none")


@followed(lambda: (x3(),))
def predicates(x):
    it = iter([1, 2, 5, 1, 7])
    low = list(itertools.takewhile(lambda v: v < 3, it))
    return x + sum(low), low, list(it), list(itertools.dropwhile(lambda v: v < 3, [1, 4, 1])), list(
        itertools.starmap(lambda a, b: a * b, [(x, 2), [x, 3]])), list(itertools.compress("abcd", [1, 0, True])), list(
            itertools.pairwise([1, 2, x]))


@followed(lambda: (x3(),))
def groups(x):
    seen = []
    for key, group in itertools.groupby([1, 1, 2, 3, 3, 1]):
        if key == 2:
            continue
        seen.append((key, [x * member for member in group]))
    left, right = itertools.tee([1, 2, 3])
    ahead = next(left), next(left), next(right)
    by_length = [(key, list(group)) for key, group in itertools.groupby(["a", "b", "cc"], key=len)]
    return seen, by_length, ahead, list(right), list(left)


@followed(lambda: (x3(),))
def iterators_that_leave(x):
    listed, zipped, chained = iter([1, 2]), zip([1, 2, 3], "abc"), itertools.chain([1, 2], [3])
    next(listed), next(zipped), next(chained)
    effects["left"] = [next(it) for it in (listed, zipped, chained)]
    return x * 2, listed, zipped, chained


@followed(lambda: (x3(),))
def a_list_that_grows(x):
    values = [1]
    for value in values:
        if len(values) < 4:
            values.append(value + 1)
        x = x + value
    it = iter(values)
    ended = list(it)
    values.append(9)
    return x, ended, next(it, None)


# ---- functools and operator -------------------------------------------------------------------------------------------


def scaled(x, k=1.0, *, offset=0.0, **more):
    return x * k + offset + sum(more.values())


real_partial = functools.partial(scaled, k=2.0, offset=1.0)
by_second, by_rank, total_of = operator.itemgetter(1), operator.attrgetter("ndim"), operator.methodcaller("sum")


@followed(lambda: (x3(),))
def partials(x):
    double = functools.partial(scaled, k=2.0)
    more = functools.partial(double, offset=x, extra=1.0)
    largest = functools.partial(max, 3)
    return double(x), double(x, k=4.0), more(x, extra=2.0), largest(1, 2), real_partial(x), real_partial(x, offset=5.0), more


def shout(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return wrapper


@followed(lambda: (x3(),))
def wraps(x):
    @shout
    def local(y):
        """A document."""
        return y + 1

    return shout(scaled)(x, 3.0), local(x), local


@followed(lambda: (x3(),))
def getters(x):
    row = ("a", x, 3)
    swap = operator.itemgetter(1, 0)
    add = operator.methodcaller("add", 1.0)
    return by_second(row), swap(row), by_rank(x), total_of(x), add(x), operator.attrgetter("shape", "ndim")(x), sorted(
        [("b", 2), ("a", 1)], key=by_second), list(map(operator.itemgetter("k"), [{"k": 1}, {"k": x}])), swap, add


@followed(lambda: (x3(),))
def operator_functions(x):
    values = [1, 2, 3]
    operator.setitem(values, 0, 9)
    operator.delitem(values, 1)
    ours = operator.iadd(values, [4])
    return (operator.add(x, 1), operator.sub(x, x), operator.mul(2, x), operator.truediv(x, 2), operator.neg(x), operator.pow(2, 3),
            operator.mod(7, 4), operator.floordiv(7, 2), operator.lshift(1, 4), operator.and_(6, 3), operator.invert(5), operator.not_([]),
            operator.truth([1]), operator.lt(1, 2), operator.eq(x.shape, (3,)), operator.contains([1], 1), operator.getitem(x, 1),
            operator.getitem({"a": x}, "a"), operator.abs(-3), operator.concat([1], [2]), operator.call(max, 1, 2), values, ours is values)
