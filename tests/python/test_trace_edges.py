"""Ends of ranges, counts and orders: where a trace that reckons for itself could differ from Python."""

import time
import types

import pytest

import kintsugi as kt
from comparing import SANITIZED

NAN = float("nan")


def first_of_a_wide_range():
    for i in range(-(2**63), 2**63 - 1):
        return i


def range_at_the_end():
    return list(range(2**63 - 2, 2**63 - 1, 5))


def step_beyond_64_bits(n=5):
    return list(range(0, n, 2**70))


def count_beyond_64_bits():
    return [i for i, _ in enumerate("ab", 2**63 - 1)]


def any_stops():
    walk = iter([0, 1, 2, 3])
    return any(walk), list(walk)


def all_stops():
    walk = iter([1, 0, 2, 3])
    return all(walk), list(walk)


def order_with_nan():
    return repr(sorted([3.0, NAN, 1.0, 2.0, NAN, 0.5])), repr(sorted([3.0, NAN, 1.0, 2.0], reverse=True))


def stable_in_reverse():
    return sorted([(1, "a"), (0, "b"), (1, "c")], key=lambda pair: pair[0], reverse=True)


@pytest.mark.parametrize(
    "function",
    [first_of_a_wide_range, range_at_the_end, step_beyond_64_bits, count_beyond_64_bits, any_stops, all_stops]
    + [order_with_nan, stable_in_reverse],
)
def test_equal(function):
    compiled = kt.compile(function)
    for _ in range(2):
        assert compiled() == function()


def test_repetition_without_end_is_an_error():
    @kt.compile
    def repeat(n):
        return [1, 2, 3] * n

    with pytest.raises((MemoryError, OverflowError)):
        repeat(2**62)


def test_text_without_utf8():
    @kt.compile
    def broken(x):
        kt._dynamo.graph_break("\ud800")
        return x + 1

    assert broken(1) == 2
    with pytest.raises(TypeError):
        kt.compile(lambda: sorted([2, 1], **{"\ud800": 1}))()


def test_the_last_reference_dropped_on_the_way():
    global passing

    @kt.compile
    def take(items):
        global passing
        taken = passing
        passing = None
        items.append(1)
        return taken, items

    for name in ("one", "two", "three"):
        passing = types.ModuleType(name)
        taken, items = take([])
        assert taken.__name__ == name and items == [1]


@pytest.mark.skipif(kt._dynamo.config.break_everywhere, reason="every break has the switch as its reason")
def test_a_disabled_callee_is_named_as_such():
    disabled = kt.compiler.disable(lambda x: x * 2)
    text = str(kt._dynamo.explain(lambda x: disabled(x) + 1)(kt.ones(3)))
    assert "Skip calling `kt.compiler.disable()`d function" in text


@pytest.mark.parametrize("function", [lambda a, b: a == b, lambda a, b: b in [a], lambda a, b: [*a] != [*b],
                                      lambda a, b: sum(x[1]["i"] == y[1]["i"] for x, y in zip(a, b))])
def test_long_lists_are_not_looked_at_item_by_item(function):
    def make():
        return [(str(i).encode(), {"i": str(i)}) for i in range(10_000)]

    compiled, a, b = kt.compile(function), make(), make()
    for _ in range(2):
        assert compiled(a, b) == function(a, b)
    b[7_000][1]["i"] = "other"
    assert compiled(a, b) == function(a, b)


def test_long_functions_compile_in_time(stress):
    """A thousand values that all live until the end: looking for who reads each took the third power of their number."""
    if stress:
        pytest.skip("time is taken where nothing is switched")
    count = 1000
    lines = [f"    y{i} = x * {i}.5 + 1" for i in range(count)]
    space = {}
    exec("def f(x):\n" + "\n".join(lines) + "\n    return " + " + ".join(f"y{i}" for i in range(count)), space)
    compiled = kt.compile(space["f"], fullgraph=True)
    start = time.process_time()
    got = compiled(kt.ones(8))
    assert time.process_time() - start < (30 if SANITIZED else 6)
    assert got.tolist() == space["f"](kt.ones(8)).tolist()
