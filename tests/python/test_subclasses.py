"""Objects of classes that derive from dict, list, OrderedDict, defaultdict, Counter and deque, made in the trace and
given: plain against compiled, with what is left in the objects, their classes and their order."""
import collections
import contextlib
import copy
import heapq
import operator
from collections import Counter, OrderedDict, defaultdict, deque

import pytest

import kintsugi as kt
from comparing import compare
from language_programs import x3


class Table(dict):
    def __missing__(self, key):
        return key * 2

    def total(self):
        return sum(self.values())


class Loud(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, len(self)))

    def __getitem__(self, key):
        return "got", super().__getitem__(key)

    def __iter__(self):
        return iter(["walked"])

    def __len__(self):
        return 7

    def __contains__(self, key):
        return True

    def keys(self):
        return ["other"]


class Row(list):
    def __init__(self, items, name="row"):
        super().__init__(items)
        self.name = name

    def total(self):
        return sum(self)


class Odd(list):
    def __getitem__(self, index):
        return "odd", super().__getitem__(index)

    def __len__(self):
        return 2

    def append(self, item):
        super().append(item)
        super().append(item)


class Window(deque):
    def mean(self):
        return sum(self) / len(self)

    def append(self, item):
        super().append(item * 2)


class Groups(defaultdict):
    pass


class Slotted(dict):
    __slots__ = ("tag",)


class Silent(dict):
    def __eq__(self, other):
        return "equal"

    __hash__ = None


class Truthy(dict):
    def __bool__(self):
        return True


def shown(value):
    """By class, content, attributes; deques with their greatest length."""
    if isinstance(value, (dict, list, tuple, deque)):
        items = [(shown(k), shown(v)) for k, v in dict.items(value)] if isinstance(value, dict) else \
            [shown(item) for item in type(value).__mro__[-2].__iter__(value)]
        if isinstance(value, OrderedDict):
            items = [(shown(k), shown(v)) for k, v in OrderedDict.items(value)]
        extra = (getattr(value, "maxlen", None), repr(getattr(value, "default_factory", None)))
        return type(value).__name__, items, extra, shown(vars(value)) if hasattr(value, "__dict__") else None
    if isinstance(value, kt.Tensor):
        return "tensor", value.tolist()
    if isinstance(value, (int, float, str, type(None), bool)):
        return type(value).__name__, repr(value)
    if hasattr(value, "__next__"):
        return type(value).__name__, [shown(item) for item in value]
    return type(value).__name__


def outcome(function, make):
    arguments = make()
    try:
        result = shown(function(*arguments))
    except Exception as error:
        result = type(error).__name__, str(error), error.__traceback__.tb_next is None
    return result, [shown(each) for each in arguments]


PROGRAMS = []


def program(*makes):
    def keep(function):
        PROGRAMS.append((function, makes or (lambda: (x3(),),)))
        return function
    return keep


def given(*values):
    return lambda: (x3(), *[copy.deepcopy(value) for value in values])


# ---- dict ------------------------------------------------------------------------------------------------------------


@program(given(Table(a=1, b=2)), given(Table()), given(Table(b=1, c=5)))
def dicts(x, d):
    made = Table(d, z=x)
    made["q"] = d["new"], d.get("new"), "new" in d
    d["c"] = d["a"]
    d.setdefault("k", []).append(1)
    return made, made.pop("z"), len(made), [*made], list(d.items()), made == d, d != made, bool(d), {**d}, dict(d), d | {"y": 1}


@program(given(Loud(a=1)), given(Loud()))
def overridden(x, d):
    made = Loud(p=1)
    made["q"] = 2
    d["r"] = x
    return (made["q"], dict.__getitem__(made, "q"), list(made), len(made), "zz" in made, dict.__len__(made), dict.__contains__(made, "zz"),
            d["r"], list(d.values()), made.get("q"), bool(d), d)


@program(given(Loud(a=1)))
def copied_as_it_walks(x, d):
    try:
        return dict(d), x + 1
    except KeyError as error:
        return error.args, x + 2


@program(given(Loud(a=1), Table(a=1)))
def into_calls(x, loud, table):
    def names(**kw):
        return sorted(kw)
    return names(**table), names(a=2, **Table(q=1)), {**table, "b": x}


@program(given(Slotted(a=1)))
def slotted(x, d):
    d.tag = x
    made = Slotted()
    made.tag = 3
    made["a"] = made.tag
    return made, made.tag, d.tag, d["a"]


@program(given(Silent(a=1), Truthy()))
def special_answers(x, d, t):
    return d == {}, {} == d, d == 5, 5 if t else 6, 1 if Truthy() else 2, 1 if Table() else 2, Silent() == Silent(), x + 1


class Doubled(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


class Named(dict):
    def keys(self):
        return ["a"]

    def __getitem__(self, key):
        return "named"


@program(given(Loud(a=1, b=2)), given(Table(a=1, b=2)))
def copies_of_dicts(x, d):
    return d.copy(), d | {1: 2}, {1: 2} | d, dict.copy(d), dict(d), {**d}, x + 1


@program(given(Doubled(a=1)), given(OrderedDict(a=1)))
def ordered_by_its_class(x, o):
    o |= {"b": 2}
    o.update(c=3)
    o.update({"d": 4})
    made = Doubled(e=1)
    return o, made, Doubled({"a": 3}), x + 1


@program(given(OrderedDict(b=1), Named(a=1, b=2)), given({"b": 1}, Named(a=1, b=2)))
def taken_over_by_keys(x, o, named):
    o.update(named)
    o |= named
    return o, OrderedDict(named), dict(named), OrderedDict(a=0) | named, x + 1


@program(given(Table(a=1)))
def compared(x, d):
    return (d == {"a": 1}, {"a": 1} == d, d != {"a": 1}, d == Table(a=1), d == OrderedDict(a=1), d == defaultdict(int, a=1), d == [1], d == None,  # noqa: E711
            d == 5, Row([1, 2]) == [1, 2], [1, 2] < Row([1, 3]), Row([2]) >= Row([1]), deque([1]) == [1], deque([1]) == deque([1.0]),
            deque([1, 2]) < deque([1, 3]), deque() == deque([1]), Counter("ab") == Counter("ba"), Counter("a") == {"a": 1}, x + 1)


@program(given(Table(a=1)))
def missing_raises(x, d):
    out = []
    for f in (lambda: {}[d], lambda: {1}.__contains__({}), lambda: OrderedDict()["k"], lambda: defaultdict()["k"], lambda: OrderedDict().popitem(),
              lambda: deque().pop(), lambda: deque([1])[3], lambda: deque([1]).remove(2), lambda: deque([1]).index(2), lambda: Row([])[0],
              lambda: deque([1], 1).insert(0, 2), lambda: OrderedDict().move_to_end("q"), lambda: d.pop("zz"), lambda: {d: 1}, lambda: {deque()},
              lambda: Counter()[[]], lambda: {}[(1, [])], lambda: {}[slice(1)], lambda: {}.get({}), lambda: [] in {}, lambda: {}.pop([], 4)):
        try:
            out.append(f())
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out, x + 1


@program(given(Table(a=1)))
def escapes(x, d):
    y = x * 2
    return y, d["b"], OrderedDict(a=1)["nothing"]


@program(given(Table(a=1)), given({"a": 1}))
def unhashable_escapes(x, d):
    y = x * 2
    d[[y]] = 1


@program(given(Table(a=1, b=2)))
def views(x, d):
    made = Table(q=1, r=x)
    keys = made.keys()
    made["s"] = 2
    d["c"] = 3
    return keys, list(keys), made.items(), d.keys() & {"a", "c"}, list(reversed(d)), list(reversed(made.values())), reversed(d), iter(made)


@program(given({"a": 1, "b": 2}))
def reversed_dicts(x, d):
    r = reversed(d)
    first = next(r)
    s = reversed({"p": 1, "q": x}.items())
    return first, r, next(s), s, [*reversed({})], [k for k in reversed({1: 2, 3: 4})]


@program(given({"a": 1, "b": 2}))
def changed_while_reversed(x, d):
    for key in reversed(d):
        d[key + "n"] = x
    return d


@program(given(Table(a=1)))
def changed_while_walked(x, d):
    for key in d:
        d[key + "n"] = x
    return d


# ---- list ------------------------------------------------------------------------------------------------------------


@program(given(Row([1, 2, 3], "given")), given(Row([], "empty")))
def lists(x, row):
    made = Row([3, 1], name="made")
    made.append(x)
    row.extend([4, 5])
    row.insert(0, 9)
    row[1] = 7
    del row[-1]
    made += [1]
    made.reverse()
    return (made, made.name, row.name, row.total(), row[0], row[1:], row + [1], row * 2, [0, *row], len(row), 9 in row, row.index(9), sorted(row),
            list(row), tuple(row), [*reversed(row)], row.copy(), max(row), bool(made), row == [9, 7], made is not row)


@program(given(Odd([1, 2])))
def odd_lists(x, row):
    row.append(5)
    made = Odd()
    made.append(1)
    return row[0], len(row), list.__len__(row), list(row), [*made], made[0], list.__getitem__(row, 1), bool(made), x + 1


@program()
def keeps_itself(x):
    row = Row([x])
    row.append(row)
    made = Table()
    made["self"] = made
    return len(row), row[1] is row, made["self"] is made, x + 1


def test_what_holds_itself_leaves_as_it_is():
    def f(x):
        row, table, q = Row([x]), Table(), deque()
        row.append(row)
        table["self"] = table
        q.append(q)
        return row, table, q
    fast = kt.compile(f)
    for _ in range(3):
        row, table, q = fast(x3())
        assert type(row) is Row and row[1] is row and table["self"] is table and q[0] is q and row.name == "row"


@program(given([1, 2]))
def extended_by_what_reads_it(x, xs):
    xs.extend(len(xs) for _ in range(3))
    made = [x]
    made.extend(len(made) for _ in range(3))
    made += (len(made) for _ in range(2))
    row = Row([])
    row.extend(len(row) for _ in range(2))
    d = deque([1])
    d.extend(len(d) for _ in range(3))
    d.extendleft(d[0] + 1 for _ in range(3))
    c = Counter()
    c.update("abc"[len(c)] for _ in range(3))
    return xs, made, row, d, c


# ---- deque -----------------------------------------------------------------------------------------------------------


@program(given(deque([1, 2, 3])), given(deque([1, 2, 3], 3)), given(deque()), given(deque([], 0)), given(deque([5], 2)))
def deques(x, d):
    d.append(x)
    d.appendleft(7)
    d.extend([1, 2])
    d.extendleft((8, 9))
    d.rotate(2)
    d.rotate(-1)
    d.rotate()
    size = len(d)
    return size, d.maxlen, list(d), bool(d), [*reversed(d)], d.copy(), 7 in [each for each in d if isinstance(each, int)]


@program(given(deque([1, 2, 3, 2])), given(deque([3, 2, 2, 1], 9)))
def deque_items(x, d):
    last, first = d.pop(), d.popleft()
    d.insert(1, x)
    d[0] = 5
    d[-1] += 1
    made = deque(range(4), maxlen=3)
    made.append(4)
    made.remove(3)
    del made[0]
    made += [9, 8]
    both = deque([1]) + deque([2])
    made.reverse()
    return last, first, d[1], d, made, both, made.count(9), made.index(9), made.index(8, 0, 3), deque("ab", 1), deque(maxlen=2).maxlen


@program(given(deque([1, 2, 3])))
def deque_walks(x, d):
    it, back = iter(d), reversed(d)
    next(it), next(back)
    made = deque([1, x])
    walk = iter(made)
    next(walk)
    spent = iter(deque([1]))
    list(spent)
    return it, back, walk, spent, sum(d), [a + b for a, b in zip(d, made)] [0]


@program(given(deque([1, 2, 3])))
def deque_changed_while_walked(x, d):
    for item in d:
        d.append(x)
    return d


@program(given(deque([1, 2, 3])))
def deque_set_while_walked(x, d):
    out = []
    for item in d:
        d[2] = 9
        out.append(item)
    made = deque([1, 2])
    for item in made:
        made[1] = 7
        out.append(item)
    return out, x + 1


class Turned(deque):
    def __iter__(self):
        return iter([1])


@program(given(Turned([3, 4])))
def deque_walked_by_its_class(x, q):
    same = q == deque([3, 4]), q == deque([1]), deque([3, 4]) == q, deque([1]) != q, q == q
    q.extend(q)
    q.extendleft(q)
    with contextlib.suppress(ValueError):
        q.remove(9)
    try:
        deque([1, 2]).remove("absent")
    except ValueError as error:
        return same, q, str(error), x + 1


class Shut(deque):
    def __getitem__(self, index):
        raise KeyError(index)


@program(given(Shut([3, 4])))
def deque_shut_by_its_class(x, q):
    q.extend(q)
    return deque(q), q == deque([3, 4]), 3 in q, [*reversed(q)], sorted(q), x + 1


@program(given(Window([1, 2], 3)))
def deque_subclass(x, w):
    w.append(4)
    made = Window([1], maxlen=2)
    made.append(3)
    made.extend([5])
    return w.mean(), made, made.maxlen, w, w == deque([1, 2, 8]), x + 1


@program(given(deque([1, 2])))
def deque_in_a_loop(x, d):
    total = 0
    while d:
        item = d.popleft()
        total += item
        if item < 4:
            d.append(item + 2)
    return total, x + total


@program(given(deque([1, 2], 2)))
def deque_breaks_inside(x, d):
    d.append(3)
    print("break", d)
    d.append(4)
    made = deque([x], 1)
    print(len(made))
    made.append(2)
    return d, made


# ---- OrderedDict, defaultdict, Counter ----------------------------------------------------------------------------


@program(given(OrderedDict(a=1, b=2, c=3)), given(OrderedDict(c=3, a=1)))
def ordered(x, d):
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["n"] = x
    made = OrderedDict([("p", 1), ("q", x)], r=3)
    made.move_to_end("p")
    made["p"] = 5
    first, last = made.popitem(last=False), made.popitem()
    del d["c"]
    return (d, made, first, last, list(d), list(d.items()), list(reversed(d)), d == OrderedDict(a=1), d == dict(d), d.copy(), made | OrderedDict(z=1),
            d.pop("zz", 4), made.setdefault("k", 2), OrderedDict(d) == d, OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1), dict(d), {**made})


def moved():
    d = OrderedDict(a=1, b=2, c=3)
    d.move_to_end("a")
    return x3(), d


@program(moved, given(OrderedDict(a=1, b=2, c=3)))
def ordered_as_it_is(x, d):
    out = [k for k in d]
    d.update(z=x, b=7)
    walk = iter(d)
    next(walk)
    return out, list(d.values()), d.keys(), walk, reversed(d), d.popitem(False)


@program(given(defaultdict(list, a=[1])), given(defaultdict(list)))
def defaults(x, d):
    d["a"].append(x)
    d["b"].append(2)
    counts = defaultdict(int)
    for letter in "abca":
        counts[letter] += 1
    nested = defaultdict(lambda: defaultdict(float))
    nested["p"]["q"] += 1.5
    return d, counts, nested["p"]["q"], len(nested), d.default_factory, counts.get("zz"), "zz" in counts, defaultdict(None, a=1), counts.copy(), d == {}


@program(given(Groups(int, a=1)))
def default_subclass(x, d):
    d["b"] += 2
    made = Groups(lambda: x)
    return made["k"] + 1, made["k"] is made["k"], d, d.default_factory


def failing():
    raise ValueError("no default")


@program(given(defaultdict(failing)))
def default_that_raises(x, d):
    with contextlib.suppress(ValueError):
        d["a"]
    return len(d), x + 1


@program(given(Counter("abca")), given(Counter(b=5)))
def counters(x, c):
    made = Counter("hello")
    made.update("lo")
    made.update({"h": 2})
    c["n"] += 1
    c.subtract("ab")
    return (made, c, made["nope"], len(made), made.most_common(), made.most_common(1), made.most_common(2), made + Counter(h=1), made - Counter(l=1),
            made & Counter(l=1), made | Counter(z=3), +made, -c, list(made.elements()), made.total(), sum(c.values()), Counter(a=1) <= Counter(a=2),
            Counter([1, 1.0, True]), made == Counter("hello"), Counter().most_common(3), made.copy(), x + 1)


@program(given(Counter("abca")))
def counters_in_place(x, c):
    c += Counter("a")
    d = Counter("zz")
    d |= Counter("z")
    d -= Counter("q")
    del d["never"]
    return c, d, x + 1


@program(given([5, 1, 4], [3, 1]))
def heaps(x, heap, other):
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    first = heapq.heappop(heap)
    replaced = heapq.heapreplace(heap, 7)
    made = []
    for n in (3, 1, 2):
        heapq.heappush(made, (n, "item"))
    return first, replaced, heap, heapq.heappushpop(made, (0, "x")), heapq.heappop(made), made, heapq.nlargest(2, [1, 3, 2]), heapq.nsmallest(2, [3, 1, 2]), x + 1


@program(lambda: (x3(), object()))
def plain_objects(x, given):
    made, other = object(), object()
    table = {made: 1, given: 2}
    return (made is other, made == made, made == other, made == given, table[made], table[given], made in table, other in table, bool(made),
            isinstance(made, object), type(made) is object, made, {made, other} == {other, made}, x + 1)


@program(given(OrderedDict(a=1), deque([1]), Counter("a"), defaultdict(int)))
def nested(x, o, d, c, f):
    o["d"] = d
    d.append(c)
    c["f"] = f
    f["x"] = x
    made = Table(inner=Row([deque([x])]))
    made["inner"][0].append(2)
    return o, made, isinstance(made, dict), isinstance(d, collections.abc.Sequence), type(made) is Table, operator.length_hint(d)


@program(lambda: (x3(), *[d := Table(a=1), d]), given(Table(a=1), Table(a=1)))
def aliases(x, a, b):
    a["n"] = x
    return "n" in b, len(b), a is b, a == b


def run(function, makes):
    kt._dynamo.reset()
    kt._dynamo.utils.counters.clear()
    fast = kt.compile(function)
    for _ in range(4):
        for make in makes:
            assert outcome(fast, make) == outcome(function, make)


@pytest.mark.parametrize("row", PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS])
def test_program(row, capsys):
    run(*row)


def test_a_class_that_changes_is_seen():
    class Changing(dict):
        pass

    def f(x, d):
        return d["k"] if "k" in d else len(d), x + 1
    fast = kt.compile(f)
    d = Changing(k=1)
    assert fast(x3(), d)[0] == fast(x3(), d)[0] == 1
    Changing.__getitem__ = lambda self, key: "mine"
    assert fast(x3(), d)[0] == "mine"
    Changing.__contains__ = lambda self, key: False
    assert fast(x3(), d)[0] == 1


def test_contents_are_checked():
    def f(x, d, o, q):
        return d["a"], list(o), q[0], len(q), x + 1
    fast = kt.compile(f)
    d, o, q = Table(a=1), OrderedDict(a=1, b=2), deque([1, 2], 5)
    for change in (lambda: d.update(a=2), lambda: o.move_to_end("a"), lambda: q.appendleft(9), lambda: d.pop("a"), lambda: o.clear(), lambda: q.rotate()):
        for _ in range(2):
            assert fast(x3(), d, o, q)[:4] == f(x3(), d, o, q)[:4]
        change()
    assert fast(x3(), d, o, q)[:4] == f(x3(), d, o, q)[:4]


def test_a_finaliser_of_what_falls_out_runs_in_order():
    log = []

    class Noisy:
        def __del__(self):
            log.append("end")

    def f(x, q):
        q.append(1)
        log.append("after")
        q.clear()
        log.append("last")
        return x + 1
    fast = kt.compile(f)
    for function in (f, fast, fast, fast):
        log.clear()
        function(x3(), deque([Noisy(), Noisy()], 2))
        assert log == ["end", "after", "end", "last"]


def test_tracebacks():
    def f(d, x):
        y = x * 2
        return y, d["nothing"]

    def g(q, x):
        y = x * 2
        return y, q[4]

    compare(f, lambda: (OrderedDict(a=1), x3()))
    compare(f, lambda: (defaultdict(None), x3()))
    compare(g, lambda: (deque([1]), x3()))
