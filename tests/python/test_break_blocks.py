"""Breaks inside loops with live iterators, inside `try` and `with`, between uses of names and views, and in functions of odd
shapes. Compiled and plain runs must not differ, and the compiled ones must be native."""
import contextlib
import sys

import pytest

import kintsugi as kt
from comparing import Programs, compare, what_is_left
from test_breaks import Node, three

program = Programs()
graph_break = kt._dynamo.graph_break
opaque = kt._dynamo.testing.opaque


# ---- Loops, iterators, blocks ------------------------------------------------------------------------------------------


@program(three, hand_overs=0)
def loops(x):
    y = x
    for i in range(4):
        y = y + i
        graph_break()
        for j in range(3):
            y = y * 1.5
            if j == 1:
                opaque(y)
                continue
            if i == 3:
                break
            graph_break()
        else:
            y = y - 1
    k = 0
    while k < 5:
        k += 1
        y = y + k
        if y.sum().item() > 1e3:
            break
        print(k)
    else:
        print("else")
    return y, k


@program(*[lambda n=n: (kt.ones(3), n) for n in (0, 5, 40, 200)], together=True, hand_overs=0)
def long_loop_with_breaks(x, n):
    taken = []
    for i in range(n):
        x = x * 0.5 + i
        if i % 7 == 3:
            graph_break()
            taken.append(i)
        if x.sum().item() > 500:
            break
    return x, taken


@program(three, hand_overs=0)
def live_iterators(x):
    out = []
    for (a, b), c in zip(enumerate([10, 20, 30]), reversed([x, x + 1, x + 2])):
        graph_break()
        out.append((a, b, c * 2))
    d = {"a": x, "b": x + 1, "c": 3}
    for k, v in d.items():
        out.append((k, v))
        opaque(k)
    for walk in (d, d.values(), enumerate(zip([1, 2], (4, 5)), 7), map(lambda v: v + 1, [1, 2]), reversed(range(4))):
        for each in walk:
            graph_break()
            out.append(each)
    for walk in (kt.ones(2, 2), "abc", {1}, iter([1, 2]), filter(None, [0, 1])):
        for each in walk:
            graph_break()
            out.append(each)
    numbers = iter(out)
    first = next(numbers)
    graph_break()
    second = next(numbers)
    return out, first, second, len(list(numbers))


@program(three, hand_overs=0)
def iterators_taken_in_part(x):
    a, b = iter([1, 2, 3]), map(opaque, [1, 2])
    z = zip(a, b)
    first = next(z)
    rest = [each for each in z]
    c = iter([x, x + 1, x + 2])
    next(c)
    total = sum(c)
    short, long = iter([1]), iter([1, 2, 3])
    pairs = list(zip(long, short))
    graph_break()
    return first, rest, list(a), total, list(c), pairs, list(long), list(short)


@program(three, hand_overs=0)
def changed_while_iterated(x):
    numbers, out = [1, 2, 3], []
    for v in numbers:
        if len(numbers) < 6:
            numbers.append(v * 10)
        graph_break()
        out.append(v)
    table = {"a": 1, "b": 2}
    try:
        for k in table:
            graph_break()
            table[k + "x"] = 1
    except RuntimeError as error:
        out.append(str(error))
    return out, table, x + 1


@program(*[lambda w=w: (kt.ones(3), w) for w in ("", "raise", "continue", "break", "return")], hand_overs=None)
def try_blocks(x, what):
    y, log = x, []
    for i in range(3):
        try:
            y = y + 1
            graph_break()
            if what == "raise" and i == 1:
                raise ValueError("v")
            if what == "continue" and i == 1:
                continue
            if what == "break" and i == 1:
                break
            if what == "return" and i == 1:
                return y, log
            y = y * 2
            log.append(i)
        except ValueError as error:
            graph_break()
            log.append(str(error))
            y = y - 1
        else:
            graph_break()
            log.append("else")
        finally:
            log.append("finally")
            graph_break()
            y = y + 0.5
    return y, log


@program(three, hand_overs=0)
def handlers_in_handlers(x):
    y, log = x, []
    try:
        try:
            y = y + 1
            graph_break()
            raise ValueError("a")
        except KeyError:
            log.append("wrong")
        finally:
            log.append("finally")
            y = y * 2
            graph_break()
    except ValueError as error:
        log.append(str(error))
        try:
            graph_break()
            raise TypeError("b") from error
        except TypeError as second:
            log.append((str(second), str(second.__cause__), str(second.__context__)))
        log.append(sys.exc_info()[0])
    log.append(sys.exc_info()[0])
    return y, log


@program(three, hand_overs=None)
def library_managers(x):
    @contextlib.contextmanager
    def noting(value):
        print("in", value)
        try:
            yield value
        finally:
            print("out", value)

    with noting(3) as v, noting(4) as w:
        graph_break()
        z = x * v * w
    with contextlib.ExitStack() as stack:
        stack.enter_context(noting(5))
        stack.callback(print, "callback")
        z = z + 1
    with contextlib.suppress(ZeroDivisionError):
        y = x + 1
        graph_break()
        1 / 0
    return y, z


@program(three, hand_overs=None)
def generators(x):
    def numbers(n):
        for i in range(n):
            graph_break()
            got = yield x + i
            if got:
                return got

    walk = numbers(3)
    first = next(walk)
    try:
        walk.send(5)
    except StopIteration as error:
        last = error.value
    return list(numbers(3)), first, last, sum(v for v in numbers(2))


# ---- Other odd programs ------------------------------------------------------------------------------------------------

# total: what gets deleted and read again
total = 1


@program(three, hand_overs=0)
def globals_written(x):
    global total
    total = 1
    total += 1
    graph_break()
    total += 5
    y = x * total
    del total
    graph_break()
    try:
        total
    except NameError as error:
        total = 1
        return str(error), y


@program(lambda: (kt.ones(3), True), lambda: (kt.ones(3), False), hand_overs=0)
def deleted_names(x, again):
    y = x + 1
    z = y * 2
    del y
    graph_break()
    text = ""
    try:
        y
    except UnboundLocalError as error:
        text = str(error)
    if again:
        y = 3
    graph_break()
    return text, z, y if again else None


@program(three, hand_overs=0)
def data_decides(x):
    a = 1 < x.sum().item() < 5
    b = 0 if x.sum() > 100 else 1
    c = x.sum() > 1 and x.sum() < 2 or "or"
    d = not (x.sum() > 1)
    e = bool((x > 0).all())
    f = [v for v in (x, -x) if v.sum() > 0]
    while x.sum() < 50:
        x = x * 3
    return a, b, c, d, e, f, x, f"{x.sum().item():.2f}|{x}|{x.shape}"


@program(three, hand_overs=0)
def patterns(x):
    out = []
    for value in (1, "s", [1, 2], {"k": x}, None, Node(3), (4, 5, 6)):
        match value:
            case 1:
                out.append("one")
            case str():
                out.append("text")
            case [a, b]:
                out.append((a, b))
            case {"k": t}:
                out.append(t + 1)
            case None:
                out.append("none")
            case Node(value=v):
                out.append(v)
            case [a, *rest]:
                out.append((a, rest))
    return out


@program(three, hand_overs=0)
def frames_are_readable(x):
    a = 1
    b = x + a
    seen = caller_as_seen()

    def inner():
        c = b
        return caller_as_seen(), c

    names = sorted(locals())
    c = eval("a + 1")
    exec("d = 2")
    return seen, inner(), names, c, b, sys._getframe().f_code.co_name


def caller_as_seen():
    frame = sys._getframe(1)
    return sorted(frame.f_locals), frame.f_code.co_name, frame.f_lineno


@program(lambda: (kt.ones(3), [1], {"k": [2]}), hand_overs=0)
def aliases_across_breaks(x, numbers, table):
    same = numbers
    same.append(x)
    graph_break()
    numbers.append(2)
    table["k"].append(same)
    table["again"] = table["k"]
    view = x[1:]
    graph_break()
    view += 5
    table["again"].append(x)
    x[0] = 9
    return numbers is same, table["k"] is table["again"], numbers, view


exec("def many_locals(x):\n" + "".join(f"    v{i} = x + {i}\n" for i in range(200)) + "    graph_break()\n    return "
     + " + ".join(f"v{i}" for i in range(200)) + "\n")
program(three, hand_overs=0)(many_locals)  # noqa: F821
exec("def many_arguments(" + ", ".join(f"a{i}" for i in range(300)) + "):\n    b = a0 + a299\n    graph_break()\n    return b + a150\n")
program(lambda: tuple(kt.ones(2) * i for i in range(300)), hand_overs=0)(many_arguments)  # noqa: F821
odd_globals = {"__builtins__": {"len": len, "NameError": NameError, "str": str}, "graph_break": graph_break}
exec("def few_builtins(x):\n    y = x + len([1, 2])\n    graph_break()\n    try:\n        return print\n"
     "    except NameError as error:\n        return str(error), y\n", odd_globals)
program(three, hand_overs=0)(odd_globals["few_builtins"])


class Namespace(dict):
    def __getitem__(self, key):
        return dict.__getitem__(self, key) if key in self else 7


namespace = Namespace(graph_break=graph_break)
exec("def own_globals(x):\n    graph_break()\n    return x + nothing\n", namespace)
program(three, hand_overs=0)(namespace["own_globals"])


class Breaking:
    """Stores and deletions whose methods break: they leave nothing on the caller's stack."""

    @property
    def part(self):
        return self.kept

    @part.setter
    def part(self, value):
        graph_break()
        self.kept = value

    @part.deleter
    def part(self):
        graph_break()
        del self.kept

    def __setitem__(self, key, value):
        graph_break()
        self.kept = key, value

    def __delitem__(self, key):
        graph_break()
        self.kept = key


@program(three, hand_overs=0)
def methods_that_store(x):
    node = Breaking()
    node.part = x + 1
    first = node.part * 2, opaque(1)
    node.part = first
    del node.part
    node["key"] = x - 1
    second = node.kept, [opaque(2), opaque(3)]
    del node["other"]
    return first, second, node.kept


# ---- The tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, makes, expected", program, ids=program.names())
def test_same_as_plain(function, makes, expected):
    compare(function, *makes, **{name: value for name, value in expected.items() if value is not None})


@pytest.mark.parametrize("function, makes, expected", program[::6], ids=program.names()[::6])
def test_nothing_is_left(function, makes, expected, stress):
    if stress:
        pytest.skip("takes long, and the switches change nothing that is kept")
    blocks, buffers, layouts = what_is_left(function, *makes)
    assert blocks < 0.8 and buffers == layouts == 0


def test_these_tests_fail_when_nothing_is_compiled(monkeypatch, stress):
    if stress == "tiny_code_memory":
        pytest.skip("what finds no room runs plain")
    monkeypatch.setattr(kt, "compile", lambda function: function)
    with pytest.raises(AssertionError, match="nothing was compiled"):
        compare(loops, three)
