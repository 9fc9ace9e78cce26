"""Lists and tuples indexed by tensors, NumPy's arrays, against plain runs, with scalars captured and not."""
import array
import collections
import subprocess
import sys

import numpy
import pytest

import kintsugi as kt
from test_expected_native import outcome
from test_language import x3

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]
Pair = collections.namedtuple("Pair", "a b")


def read(x, i):
    return x * 2, [10, 20, 30][i], (1.0, "b", None)[i], Pair(4, 5)[i - 1], "abc"[i], range(5)[i], [x, 3, x][i]


def cut(x, i):
    items = [1, 2, 3, 4]
    part = slice(i, None)
    return x * 2, items[i:], items[:i], items[i::2], (1, 2, 3)[:i], "abcd"[i:], items[part], part.start is i


def change(x, i):
    items = [1, 2, 3, 4]
    items[i] = 9
    del items[i + 1]
    items[i:] = [7]
    return x * 2, items


def change_given(x, i):
    held = effects
    held[i] = x
    held[i - 1:] = [x * 2]
    return held


effects = [1, 2, 3]


def refused(x, i):
    try:
        return [1, 2][i]
    except (IndexError, TypeError) as error:
        return x * 2, type(error), str(error)


def made(x, i):
    return x * 2, [1, 2, 3][kt.tensor(1)], [1, 2, 3][kt.tensor(-1)], [1, 2, 3][(x.sum() * 0).to(kt.int64) + 1]


NUMBERS = [kt.tensor(1), kt.tensor(0), kt.tensor(2), kt.tensor(-1), kt.tensor([1]), kt.tensor(1, dtype=kt.int32)]
ODD = [kt.tensor(7), kt.tensor(1.0), kt.tensor(True), kt.tensor([0, 1]), kt.tensor(-9), kt.zeros(0, dtype=kt.int64)]


@pytest.mark.parametrize("settings", [{}, {"fullgraph": True}], ids=["plain", "fullgraph"])
@pytest.mark.parametrize("function", [read, cut, change, change_given, made])
def test_index(function, settings):
    def arguments(number):
        effects[:] = [1, 2, 3]
        return lambda: (x3(), number)
    fast = kt.compile(function, **settings)
    for number in [*NUMBERS, *NUMBERS]:
        plain = outcome(function, arguments(number))
        assert outcome(fast, arguments(number)) == plain


def test_index_refused():
    fast = kt.compile(refused)
    for number in [*ODD, *NUMBERS, *ODD]:
        assert outcome(fast, lambda: (x3(), number)) == outcome(refused, lambda: (x3(), number))


def arrays(x):
    y = x * 2
    a = y.numpy()
    y += 1
    return a, a.shape, a.ndim, a.size, a.tolist(), isinstance(a, numpy.ndarray), x.numpy() is x.numpy()


def test_arrays(stress):
    for x in (x3(), kt.ones(2, 3), kt.tensor([[1, 2], [3, 4]]), kt.tensor(2.5), kt.ones(2, 0)):
        kt._dynamo.reset()  # with sizes that vary it breaks
        fast = kt.compile(arrays, fullgraph=not stress)
        for _ in range(2):
            found, plain = fast(x.clone()), arrays(x)
            assert found[1:] == plain[1:] and type(found[0]) is numpy.ndarray
            assert found[0].dtype == plain[0].dtype and numpy.array_equal(found[0], plain[0])
    if not stress:
        assert native["call_outs"] == native["hand_overs"] == 0


@pytest.mark.parametrize("method", [array.array.tolist, memoryview.tolist])
def test_a_method_of_another_type_refuses_an_array(method):
    def odd(x):
        return method(x.numpy())

    for function in (odd, kt.compile(odd), kt.compile(odd)):
        with pytest.raises(TypeError, match="doesn't apply to a 'numpy.ndarray' object"):
            function(x3())


def test_an_array_shares_memory():
    def shared(x):
        return x, x.numpy()

    fast = kt.compile(shared)
    for _ in range(3):
        x, a = fast(x3())
        a[0] = 9
        assert x.tolist() == [9, 2, 3]
        x += 1
        assert a.tolist() == [10, 3, 4]


def test_an_array_is_read_where_it_is_asked():
    def changing(x):
        a = x.numpy()
        before = a.tolist()
        x += 1
        between = a.tolist()
        x[0] = 7
        return before, between, a.tolist(), x[1:].numpy().tolist(), x.T.numpy().tolist()

    fast = kt.compile(changing)
    for _ in range(3):
        assert outcome(fast, lambda: (x3(),)) == outcome(changing, lambda: (x3(),))


def test_arrays_that_are_asked_for_more():
    def more(x):
        a = x.numpy()
        b = a + 1
        a[1] = 5
        a.shape = (3, 1)
        return b.sum(), a.dtype.name, a.shape, len(a), x.tolist(), a[0].item(), bool(a.any()), {1: a}, a.T.tolist(), repr(a)

    fast = kt.compile(more)
    for _ in range(3):
        found, plain = fast(x3()), more(x3())
        assert repr(found) == repr(plain)


def test_arrays_that_are_refused():
    def asks(x):
        try:
            return x.numpy().shape
        except RuntimeError as error:
            return str(error)

    fast = kt.compile(asks)
    for x in (x3(), kt.ones(2, requires_grad=True), x3(), kt.ones(2, requires_grad=True)):
        assert fast(x) == asks(x)


def test_names_that_the_first_trace_needs():
    """Its frame is that of a named tuple's __new__, whose globals have no builtins."""
    program = ("import collections, kintsugi as kt\n"
               "Pair = collections.namedtuple('Pair', 'a b')\n"
               "kt.compile(Pair.__new__)(Pair, 1, 2)\n"
               "print(kt.compile(lambda x: (x * 2, len(collections.deque([1])), abs(-1)), fullgraph=True)(kt.ones(1)))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "(tensor([2.]), 1, 1)\n", done.stderr
