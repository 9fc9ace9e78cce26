"""Every method and operator of containers, of one that the program makes and of one that existed before, plain against
compiled: what it answers or raises, and what is left in the container. A row is a container and statements, `c` being
the container, `x` and `y` tensors, `k` the int 2 that is known only at run time when it varies."""
import collections
import os

import pytest

import kintsugi as kt

from comparing import snapshot

native = kt._dynamo.utils.counters["native"]
STRESS = os.environ.get("KINTSUGI_STRESS", "")


class Plain:
    pass


NAMES = {"kt": kt, "Plain": Plain, **{name: getattr(collections, name) for name in (
    "deque", "OrderedDict", "defaultdict", "Counter", "ChainMap")}}

# Followed without a break, unless Python raises.
FOLLOWED = {
    '[3, 1, x, 2]': [
        'c.append(y)', 'c.extend([y, 1])', 'c.extend((1,2))', 'c.extend(c)', 'c += [y]', 'c *= 2', 'r = c * 2', 'r = k * c',
        'r = c + [y]', 'c.insert(0, y)', 'c.insert(-1, y)', 'c.insert(100, y)', 'c.insert(-100, y)', 'c.insert(k, y)',
        'r = c.pop()', 'r = c.pop(0)', 'r = c.pop(-2)', 'r = c.pop(k)', 'r = c.pop(9)', 'c.remove(1)', 'c.remove(x)',
        'c.remove(3)', 'c.remove(7)', 'r = c.index(1)', 'r = c.index(x)', 'r = c.index(1, 1)', 'r = c.index(1, 2)',
        'r = c.index(3, -4, k)', 'r = c.count(3)', 'r = c.count(x)', 'c.reverse()', 'c.clear()', 'r = c.copy()',
        'c[1:3] = [y, y, y]', 'c[::2] = [y, 5]', 'c[::2] = [1]', 'c[::-1] = c', 'del c[0]', 'del c[-1]', 'del c[1:3]',
        'del c[::2]', 'del c[::-2]', 'del c[9]', 'r = c[k:]', 'r = c[-k]', 'r = c[::k]', 'r = c[::-1]', 'r = c[9]',
        'c[k] = y', 'c[-1] = y', 'c[9] = y', 'r = x in c', 'r = y in c', 'r = 1 in c', 'r = [*c, *c]', 'a, *r, b = c',
        'r = c == [3,1,x,2]', 'r = c == (3,1,x,2)', 'r = c != [3]', 'r = c < [3, 2]', 'r = c <= [3, 1]',
        'r = [[i, j] for i in c for j in (1,2)]', 'r = list(c), tuple(c), len(c)', 'r = c.append', 'c[:] = []', 'c.sort()',
        'c.append(c)', 'c.extend(c[::-1])', "c[1:1] = 'ab'", 'c[1:2] = range(k)', 'c.append()', 'c.foo()',
        "c.insert('a', 1)", 'r = c * -1', 'r = not c, bool(c)', 'for i in c: c.pop() if len(c) > 2 else 0',
        'r = list.append(c, 5)', 'c[True] = 5', 'r = [c, c]; r[0].append(1)', 'r = (c, c) ; r[1].append(y)',
    ],
    '[3, 1, 2]': [
        'c.sort()', 'c.sort(reverse=True)', 'c.sort(key=lambda i: -i)', 'c.sort(key=lambda i: (i % 2, i), reverse=True)',
        'c.sort(key=lambda i: len(c))', 'c.append(k); c.sort()', 'r = sorted(c)', 'c.sort(None)', 'c.sort(key=None)',
        'c.sort(key=abs, reverse=k)', 'c.sort(key=lambda i: i * 1.5)', 'c.sort(key=lambda i: c.append(i))',
        'r = sum(c), max(c)',
    ],
    '[[1, x], [2, x]]': [
        'c[0][1] = y', 'c[0].append(c[1])', 'r = [1, x] in c', 'c.sort(key=lambda p: p[0])', 'c.sort(key=lambda p: -p[0])',
        'c[0], c[1] = c[1], c[0]', 'a, (b, d) = c; r = b', 'r = c == [[1, x], [2, x]]',
    ],
    '(3, 1, x, 1)': [
        'r = c.index(1)', 'r = c.index(x)', 'r = c.count(1)', 'r = c.index(9)', 'r = c + (y,)', 'c += (1,)',
        'r = c * 2, 2 * c', 'r = c[1:]', 'r = c[k]', 'r = c == (3, 1, x, 1)', 'r = c < (4,)', 'r = x in c',
        'r = tuple(c) is c', 'r = c == [1]', 'c[0] = 1', 'r = len(c)', 'r = c.count', 'r = (*c, *c)',
    ],
    "{'a': x, 'b': 1, 3: 'c'}": [
        "r = c['a']", "r = c['z']", "r = c.get('a'), c.get('z'), c.get('z', y)", "c['a'] = y", "c['z'] = y", 'c[k] = y',
        'c[1.0] = 2; c[True] = 3; c[1] = 4', "r = c.setdefault('a', 1), c.setdefault('q', y), c.setdefault('w')",
        "r = c.pop('a')", "r = c.pop('z', y)", "r = c.pop('z')", 'r = c.popitem()', "c.update({'a': 1, 'n': y})",
        "c.update([('a', y), ('m', 2)])", 'c.update(a=1, q=y)', "c.update({'n': 1}, z=2)", 'c.update(c)',
        'r = list(c.keys()), list(c.values()), list(c.items())', "r = c.copy(); r['a'] = 1", 'c.clear()', "r = c | {'a': 2}",
        "c |= {'a': 2, 't': y}", "c |= [('a', 4)]", "r = c == {'b': 1, 3: 'c', 'a': x}", 'r = c != {}', 'r = c == []',
        'r = len(c), bool(c)', "del c['z']", "del c['a']; c['a'] = y; r = list(c)", "r = 'b' in c; del c['b']; c['q'] = 1; c['b'] = 2; del c['b']; c['b'] = 3; r = {**c}", "r = 'a' in c, 'z' in c, k in c, 3.0 in c",
        "r = 'a' in c.keys(), 1 in c.values(), ('b', 1) in c.items(), ('b', 2) in c.items(), x in c.values()",
        'r = len(c.keys())', 'r = {v: 1 for v in c}', "r = {**c, 'a': 1}",
        "r = dict(c), dict(c, a=1), dict([('q', 1)]), dict(a=1)", "r = dict.fromkeys('abc', y), dict.fromkeys([1, 2])",
        'r = dict.fromkeys(c)', 'r = [i for i in c.items()]', 'for i in c: c[i] = y', "for i in c: c[str(i) + 'x'] = y",
        'for i in list(c): del c[i]', 'c[[1]] = 2', 'r = c.get([])', 'c[x] = 1; r = c[x]',
        'o = Plain(); c[o] = y; r = c[o], o in c', 'c[Plain] = 1; r = c[Plain]', "c[(1, 'a')] = y; r = c[1, 'a']",
        'c[None] = 1; r = None in c', "c['a'] = c", 'c.update(1)', 'c.update([1])', 'c.pop()', 'c.get()', 'r = c < {}',
        "r = {c['b']: y, k: 1}", 'r = sorted(c.items(), key=lambda i: str(i[0]))', 'r = c.get, c.keys',
        "d = c; d['w'] = y; r = c['w']", "r = [c, c]; r[1]['e'] = 1",
    ],
    "{3, 'b', 1, 'a', None}": [
        "c.add(7)", "c.add('b')", "c.add(k)", "c.add(1.0)", "c.discard('a'); c.discard('zz')", "c.remove('b')", "c.remove('zz')",
        "r = c.pop(), c.pop()", "c.clear()", "r = c.copy(); r.add(9)", "c.update([5, 6], 'xy')", "c.update({7: 1})", "c |= {8, 9}",
        "r = c | {4, 5}", "r = c & {1, 2, 3}", "r = c - {1, 'a'}", "r = c ^ {1, 99}", "c &= {1, 3}", "c -= {1, 3}", "c ^= {1, 4}",
        "r = c.union([1, 5], (6,))", "r = c.intersection([1, 3, 9])", "r = c.difference('ab')", "r = c.symmetric_difference([1, 50])",
        "c.intersection_update([1, 3])", "c.difference_update(['a'], [3])", "c.symmetric_difference_update([1, 77])",
        "r = c.isdisjoint([5]), c.isdisjoint('b')", "r = c.issubset([1, 3, 'a', 'b', None, 4])", "r = c.issuperset('ab')",
        "r = c == {1, 3, 'a', 'b', None}, c != {1}, c < {1}, c <= c, c > {1}, c >= {1, 3}", "r = c == [1], c == frozenset(c)",
        "r = len(c), bool(c), not c", "r = 1 in c, 'q' in c, k in c, 1.0 in c, True in c", "r = [*c]", "r = [i for i in c]",
        "r = list(c), tuple(c), sorted([str(i) for i in c])", "r = {i for i in c if i}", "r = set(), set('abc'), set([1, 2, 1]), {*c, 4}",
        "r = frozenset(c), frozenset([1, k])", "r = frozenset('ab') | {1}", "r = {1: 2} .keys() | c", "r = c & {'a': 1}.keys()",
        "for i in c: c.add(i)", "for i in c: c.add(str(i) * 3)", "d = c; d.add(5); r = d is c", "r = [c, c]; r[0].add(6)",
        "c.add([])", "r = [] in c", "c |= [1]", "r = c + c", "r = c < [1]", "r = iter(c), next(iter(c))",
        "r = c[0]",
        "r = {x, y}; r.add(x)", "r = {x, y}; r = x in r, y in r, len(r), 1 in r", "r = {(1, 'a'), (1, 'b')}", "r = set.union(c, [4])",
        "r = {Plain, 1}; r = Plain in r", "r = c.add, c.union([1])", "r = min({1, 2}), sum({1, 2, k})",
    ],
    "frozenset([1, 2, 'a'])": [
        "r = c | {5}, c & {1}, c - {1}, c ^ {9}", "c |= {5}", "r = c.union([1]), c.copy(), c.isdisjoint([4])", "r = 1 in c, k in c, 7 in c",
        "r = [*c], len(c)", "r = c == {1, 2, 'a'}, c < {1}", "c.add(1)",
    ],
    "{'a': 1, 'b': 2}": [
        "r = c.keys() & {'a'}, c.keys() | ['z'] if 0 else 1, c.keys() - {'a'}", "r = c.items() & {('a', 1)}", "r = c.keys() == {'a', 'b'}",
        "r = c.keys() <= {'a', 'b', 'd'}, c.items() == {}.items(), c.keys() ^ {'q'}", "r = c.keys() == c.keys(), c.items() == c.items()",
    ],
}
# Right, with a break.
BROKEN = {
    "[3, 1, x, 2]": ["c.extend(reversed(c))", "c.append(c); r = c == c", "r = min(c)"],
    "{'a': x, 'b': 1, 3: 'c'}": ["r = reversed(c)", "c['a'] = c; r = c == c"],
    "{3, 'b'}": ["for i in range(30): c.add(i)", "for i in range(20): c.add(i)\n for i in range(15): c.discard(i)\n r = [*c]",
                 "c.add(x); r = x in c", "for i in c:\n  break\n c.add(1)"],
    "frozenset([1, 2])": ["r = {c: 1}", "r = {c, 1}"],
    "{3, x}": ["r = len([*c])", "r = c == {3, x}", "c.add(5); r = 5 in c", "r = x in c, 3 in c, y in c"],
}


def functions(container, statements):
    """(how the container came to be, function, arguments)"""
    def arguments():
        return kt.tensor([1.0, 2.0]), 2

    def with_container():
        x, k = arguments()
        return x, k, eval(container, NAMES | {"x": x, "k": k})
    for how, head, make in (("virtual", f"x, k):\n c = {container}", arguments), ("real", "x, k, c):", with_container)):
        scope = dict(NAMES)
        exec(f"def f({head}\n y = x * 2\n r = None\n {statements}\n return y, c, r", scope)
        yield how, scope["f"], make


def outcome(function, make):
    arguments = make()
    try:
        result = "answers", snapshot(function(*arguments))
    except Exception as error:
        result = "raises", type(error).__name__, str(error)
    return result, snapshot(arguments)


def check(container, statements, is_followed):
    for how, function, make in functions(container, statements):
        kt._dynamo.reset()
        plain = outcome(function, make)
        compiled = kt.compile(function)
        for _ in range(3):
            before = dict(native)
            assert outcome(compiled, make) == plain, (how, container, statements)
        done = {name: native[name] - before[name] for name in ("call_outs", "hand_overs", "fallbacks")}
        if is_followed and plain[0][0] == "answers" and not STRESS:
            assert not any(done.values()), (how, container, statements, done)
        assert done["fallbacks"] == 0


@pytest.mark.parametrize("container", FOLLOWED)
def test_followed(container):
    for statements in FOLLOWED[container]:
        check(container, statements, True)


@pytest.mark.parametrize("container", BROKEN)
def test_broken(container):
    for statements in BROKEN[container]:
        check(container, statements, False)


def test_later_calls():
    """One compiled function, arguments of other lengths, keys, types and aliases one after the other."""
    def shuffle(x, items, table, k):
        items.append(x)
        items[k:k + 1] = [k, k]
        table[k] = len(items)
        table.pop("gone", None)
        return [*items], {**table}, items is table.get("list"), x in items[-1:]

    def calls():
        x, shared = kt.tensor([1.0]), [1]
        yield x, [], {}, 0
        yield x, [1, 2, 3], {"gone": 1}, 1
        yield x, [x], {2: 1, "gone": x}, 2
        yield x, shared, {"list": shared}, 0
        yield x, [0.5, "a"], {1: 2, 1.5: 3, True: 4}, 1.0
        yield x, [1, 2], {}, True
        yield x, (1, 2), {}, 1
        yield x, [1], [], 1
    compiled = kt.compile(shuffle)
    for _ in range(3):
        for plain, ours in zip(calls(), calls()):
            assert outcome(compiled, lambda: ours) == outcome(shuffle, lambda: plain)


def test_sets_of_before():
    """Guarded for what is asked: other elements do not matter to a set that is only asked for some, or added to."""
    def seen(x, before, name):
        fresh = name not in before
        before.add(name)
        return fresh, x + len(name)

    def order(x, items):
        items.discard(1)
        return [*items], x + 1
    compiled, walked = kt.compile(seen), kt.compile(order)
    x, ours, plain = kt.tensor([1.0]), set(), set()
    for name in ("a", "b", "a", "c", "b", "c"):
        assert snapshot(compiled(x, ours, name)) == snapshot(seen(x, plain, name)) and ours == plain
    for make in (lambda: {1, 2}, lambda: {8, 16, 1}, lambda: {16, 8, 1}, lambda: {1, 2}, set, lambda: {1.0}, lambda: {x, 1}):
        assert snapshot(walked(x, make())) == snapshot(order(x, make()))


def test_keys_that_become_one():
    def count(a, b, x):
        table = {a: 1, b: 2}
        return len(table), table[a], a in {b: 0}, x + 1
    compiled = kt.compile(count)
    a, b, x = Plain(), Plain(), kt.tensor([1.0])
    for left, right in ((a, b), (a, b), (a, a), (b, a), (x, a), (x, x), (1, 1.0), (1, True), ("a", "b")):
        assert snapshot(compiled(left, right, x)) == snapshot(count(left, right, x))


class Hashed:
    """Equal to every number that its hash equals."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return self.number == other


@pytest.mark.parametrize("size", [3, 100, 70_000])
@pytest.mark.parametrize("extra", [{}, {7 + 2**61 - 1: "same hash"}, {7: "seven"}, {7.0: "float"}, {(7,): "tuple"}, {Hashed(7): "user"},
                                   {Hashed(8): "other"}])
def test_keys_of_one_hash(size, extra):
    def function(table, x):
        return table.get(7, "none"), 7 in table, table.get((7,)), table[3], x + 1

    def make(more):
        table = {3 * i: i for i in range(size)}
        table.update(more)
        table.pop(0)
        return table

    compiled = kt.compile(function)
    for more in ({}, extra, {}, extra):
        table, x = make(more), kt.ones(2)
        got, expected = compiled(table, x), function(table, x)
        assert got[:-1] == expected[:-1] and got[-1].tolist() == expected[-1].tolist()
