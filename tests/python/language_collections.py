"""Of the collections module, heapq, classes that derive from dict and list, and what reads dicts backwards: see
language_programs.py. Attacks are in test_subclasses.py."""
import heapq
from collections import Counter, OrderedDict, defaultdict, deque

from language_programs import followed, x3


@followed(lambda: (x3(), deque([1, 2, 3], 4)))
def deques(x, d):
    d.append(x)
    d.appendleft(0)
    d.rotate(2)
    last, first = d.pop(), d.popleft()
    made = deque([1, 2], maxlen=3)
    made.extend((3, 4))
    made.extendleft([2, 9])
    made.insert(0, 5) if len(made) < 3 else made.remove(2)
    made[-1] = x * 2
    return last, first, list(d), len(d), d[0], made.maxlen, [*made], [*reversed(d)], deque([3, 1]).count(3), deque([1]) < deque([2]), d.copy() == d, made


@followed(lambda: (x3(), deque(), [3, 1, 2]))
def queues(x, queue, nodes):
    queue.extend(nodes)
    seen = []
    while queue:
        node = queue.popleft()
        seen.append(node)
        if node > 2:
            queue.append(node - 1)
    return x * len(seen), seen


@followed(lambda: (x3(), OrderedDict(a=1, b=2, c=3)))
def ordered_dicts(x, d):
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["n"] = x
    made = OrderedDict([("p", 1), ("q", x)], r=3)
    made.move_to_end("p")
    return x + 1, made.popitem(last=False)[0], made.popitem(), list(d), [*d.items()], [*reversed(d)], OrderedDict(a=1) == {"a": 1}, made, d


@followed(lambda: (x3(), defaultdict(list, a=[1])))
def default_dicts(x, d):
    d["a"].append(x)
    d["b"].append(2)
    counts, nested = defaultdict(int), defaultdict(lambda: defaultdict(float))
    for letter in "abca":
        counts[letter] += 1
    nested["p"]["q"] += 1.5
    return x + 1, d, counts, nested["p"]["q"], len(nested), d.default_factory is list, "zz" in counts, counts.get("zz")


@followed(lambda: (x3(), Counter("abca")))
def counters(x, c):
    c["n"] += 1
    c.subtract("ab")
    made = Counter("hello")
    made.update("lo")
    made.update({"h": 2})
    return (made["nope"], made.most_common(), made.most_common(1), made.most_common(2), made + Counter(h=1), made - Counter(l=1), made & Counter(l=1),
            made | Counter(z=3), list(made.elements()), made.total(), sum(c.values()), x + c["a"], made == Counter("hello"), made, c)


class Table(dict):
    def __init__(self, *rows, **columns):
        super().__init__(*rows, **columns)
        self.missed = 0

    def __missing__(self, key):
        self.missed += 1
        return key * 2

    def __setitem__(self, key, value):
        super().__setitem__(key, (value, len(self)))


@followed(lambda: (x3(), Table(a=1)))
def dict_subclasses(x, d):
    made = Table({"p": x}, q=2)
    made["r"], d["b"] = 3, x
    return made["p"] + made["no"][:0].count("n"), made.missed, d["b"][0], d["zz"], len(d), [*d], {**made}, dict(d), d.pop("a"), "a" in d, made


class Row(list):
    def __init__(self, items, name):
        super().__init__(items)
        self.name = name

    def total(self):
        return sum(self)


@followed(lambda: (x3(), Row([1, 2, 3], "given")))
def list_subclasses(x, row):
    made = Row([3, 1], name="made")
    made.append(x)
    row.extend([4, 5])
    row[1] = 7
    del row[-1]
    made += [1]
    return made, row.name, row.total() + x, row[1:], row + [1], len(row), 7 in row, sorted(row), [*reversed(row)], row == [1], bool(made)


@followed(lambda: (x3(), [5, 1, 4]))
def heaps(x, heap):
    made = []
    for n in (3, 1, 2):
        heapq.heappush(made, (n, "item"))
    order = [heapq.heappop(made) for _ in range(3)]
    return order, heapq.nlargest(2, [1, 3, 2]), heapq.nsmallest(2, [3, 1, 2]), x + len(heap)


@followed(lambda: (x3(), {"a": 1, "b": 2}))
def dicts_backwards(x, d):
    d["c"] = x
    back = reversed(d)
    first = next(back)
    return x + 1, first, back, [*reversed(d.items())][-1], [*reversed({"p": x}.values())], [k for k in reversed({1: 2, 3: 4})]


@followed(lambda: (x3(), {"a": 1}))
def keys_without_a_hash(x, d):
    out = []
    for key in ([], {}, (1, [])):
        try:
            d[key] = 1
        except TypeError as error:
            out.append(str(error))
    try:
        d[Table]
    except KeyError as error:
        out.append(error.args[0] is Table)
    return out, x + 1


@followed(lambda: (x3(), []))
def lists_that_grow_from_themselves(x, given):
    made = [x]
    made.extend(len(made) for _ in range(3))
    d = {}
    d.update((len(d), x) for _ in range(2))
    s = {7}
    s.update(len(s) for _ in range(2))
    return x + 1, made, d, s
