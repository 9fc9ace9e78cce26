"""Frames taken from CPython, run one instruction at a time, and given back in the middle.

`_interpret(f, args)` runs f over its real frame through runtime/step.cpp; every function here must behave as in a plain
call: value, output, exceptions with every line and column of their tracebacks, reference counts."""

import contextlib
import gc
import importlib
import inspect
import io
import os
import sys

import pytest

runtime = importlib.import_module(os.environ.get("KINTSUGI_RUNTIME", "kintsugi._runtime"))
interpret = runtime._interpret


# ---- Programs ---------------------------------------------------------------------------------------------------------

PROGRAMS = []


def program(*arguments):
    """Registers a function with argument tuples. Arguments may be callables that make a fresh one."""

    def register(function):
        PROGRAMS.extend((function, given) for given in arguments or [()])
        return function

    return register


class Manager:
    def __init__(self, swallow=False, broken=None):
        self.swallow, self.broken = swallow, broken

    def __enter__(self):
        if self.broken == "enter":
            raise OSError("enter")
        return self

    def __exit__(self, kind, value, where):
        print("exit", kind, value, where and where.tb_lineno)
        if self.broken == "exit":
            raise OSError("exit")
        return self.swallow


class Odd:
    def __bool__(self):
        raise ValueError("no truth")

    def __eq__(self, other):
        raise ValueError("no equality")

    __hash__ = None

    def __format__(self, spec):
        return f"<{spec}>"

    def __getitem__(self, key):
        if key == 3:
            raise IndexError
        return key

    def method(self, *args, **kwargs):
        return args, kwargs

    @property
    def broken(self):
        raise KeyError("property")


def deep_stack():
    return [(frame.function, frame.lineno) for frame in inspect.stack()[1:4]]


counter = 0


@program((3,), (0,), (10,))
def loops(n):
    total = 0
    for i in range(n):
        if i == 7:
            break
        if i % 2:
            continue
        total += i
    else:
        total += 1000
    while n:
        n -= 1
        total ^= n
    do = 3
    while True:
        do -= 1
        if not do:
            break
    return total, do


@program((6, 4), (0, 1), (-3, 2))
def operators(a, b):
    out = [+a, -a, ~a, not a, a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> 1, a & b, a | b, a ^ b]
    c = a
    c += b; c -= 1; c *= 3; c //= 2; c %= 100; c **= 2; c <<= 1; c >>= 1; c &= 0xFFFF; c |= 8; c ^= 3
    d = float(c)
    d /= 7
    out += [c, d, a < b, a <= b, a > b, a >= b, a == b, a != b, a is b, a is not b, a in out, a not in (b,)]
    out.append(1 if a and b or not c else 2)
    return out


@program((lambda: [1, 2, 3],), (lambda: (1, 2, 3),), ("abc",), (lambda: [1, 2],), (lambda: [1, 2, 3, 4],), (5,), (lambda: Odd(),))
def unpacking(values):
    a, b, c = values
    first, *middle, last = values
    *start, end = values
    return a, b, c, first, middle, last, start, end


@program((lambda: [1],), (lambda: [],), (None,))
def unpacking_star(values):
    a, *b, c = values
    return a, b, c


@program()
def containers():
    a = [1, 2, *range(3), *"xy"]
    b = (*a, 4)
    c = {1, 2, *a}
    d = {"a": 1, **{"b": 2}, "c": 3, **dict(d=4)}
    e = {k: v for k, v in d.items() if v != 2}
    f = {x * 2 for x in a if isinstance(x, int)}
    g = [y for x in [[1, 2], [3]] for y in x]
    h = list(x + 1 for x in g)
    a[1:3] = [9]
    del a[0], d["a"]
    a[-1] += "z"
    return a, b, sorted(map(str, c)), d, e, sorted(f), g, h, a[::2], a[1:], {"x": 1, "y": 2, "z": 3}


def takes(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


@program()
def calls():
    o = Odd()
    m = o.method
    rest, named = [7, 8], {"z": 26}
    return (
        takes(1, d=4), takes(1, 2, 3, 4, 5, d=6, f=7), takes(*rest, d=1), takes(*rest, 1, *rest, d=1, **named),
        takes(1, **{"d": 2, "q": 3}), takes(*(1,), **{"d": 2}), o.method(1, k=2), m(3), m(*rest, **named), o.method(*rest),
        (lambda *a, **k: (a, k))(1, x=2), max(1, 2, key=lambda v: -v), print("p", "q", sep="-"), "".join(["a", "b"]),
        [].append(1), str(b"x", "ascii"), int("12", base=8), type(o).__name__, dict(a=1), sorted("cab", reverse=True),
    )


@program(("missing",), ("extra",), ("duplicate",), ("merge",), ("mapping",), ("iterable",), ("none",), ("keyword",), ("twice",))
def bad_calls(which):
    if which == "missing":
        return takes()
    if which == "extra":
        return len(1, 2)
    if which == "duplicate":
        return takes(1, d=2, **{"d": 3})
    if which == "merge":
        return takes(**{"d": 3}, **{"d": 4})
    if which == "mapping":
        return takes(1, **5)
    if which == "iterable":
        return takes(*5)
    if which == "none":
        nothing = None
        return nothing(1)
    if which == "keyword":
        return takes(1, d=2, b=3)
    return takes(*[1], *7)


@program((1,), (0,))
def closures(x):
    def outer(y):
        nonlocal x
        x += y

        def inner():
            return x + y

        return inner

    g = outer(5)
    if not x - 5:
        del x
        return g()
    return g(), x, [f() for f in [lambda i=i: i + x for i in range(3)]]


@program()
def unbound_local():
    if not counter + 1:
        value = 1
    return value


@program()
def unbound_free():
    def inner():
        return value

    if not counter + 1:
        value = 1
    return inner()


@program()
def unbound_cell():
    def inner():
        return value

    value = 1
    del value
    print("before")
    return value


@program()
def unbound_delete():
    value = 1
    del value
    del value


@program()
def missing_global():
    return no_such_name_anywhere


@program()
def delete_missing_global():
    global no_such_name_anywhere
    del no_such_name_anywhere


@program()
def globals_and_attributes():
    global counter
    counter = 5
    counter += 1
    kept = counter
    counter = 0
    o = Odd()
    o.x = 3
    o.x *= 2
    got = o.x
    del o.x
    return kept, got, hasattr(o, "x"), o[1], sys.maxsize


@program(("attribute",), ("store",), ("delete",), ("item",), ("method",), ("property",), ("truth",), ("contains",), ("iterate",), ("number",), ("index",))
def bad_operations(which):
    o = Odd()
    try:
        if which == "attribute":
            return o.nothing
        if which == "store":
            (5).x = 3
        if which == "delete":
            del o.nothing
        if which == "item":
            return {}["k"]
        if which == "method":
            return o.nothing(1)
        if which == "property":
            return o.broken
        if which == "truth":
            return 1 if o else 2
        if which == "contains":
            return o in [1]
        if which == "iterate":
            for _ in 5:
                pass
        if which == "number":
            return (1 +
                    o)
        return [][3]
    finally:
        print("finally", which)


@program((False, None), (True, None), (False, "enter"), (False, "exit"))
def with_blocks(swallow, broken):
    log = []
    with Manager() as m, Manager(broken=broken) as n:
        log.append(m is n)
    with Manager(swallow):
        log.append(1)
        raise LookupError("in with")
    log.append(2)
    for i in range(3):
        with contextlib.suppress(ValueError):
            if i == 1:
                continue
            log.append(i)
    with Manager():
        return log


@program((0,), (1,), (2,), (3,))
def handlers(x):
    log = []
    for i in range(2):
        try:
            try:
                if x == 0:
                    1 // 0
                elif x == 1:
                    [][1]
                elif x == 2:
                    raise OSError(5, "text") from KeyError("cause")
                log.append("fine")
            except ZeroDivisionError as error:
                log.append(str(error))
                log.append(error.__traceback__.tb_lineno)
            except LookupError:
                raise RuntimeError("second")
            else:
                log.append("else")
            finally:
                log.append(("finally", i))
        except RuntimeError as error:
            log.append(repr(error.__context__))
        log.append(sys.exc_info())
    return log


@program((ValueError,), (lambda: ValueError("v"),), (5,), (int,))
def raises(what):
    raise what


@program((None,), (KeyError,), (lambda: KeyError("k"),), (5,))
def raises_from(cause):
    raise ValueError("v") from cause


@program()
def raise_alone():
    raise


@program()
def raise_again():
    def inner():
        raise

    try:
        1 / 0
    except ZeroDivisionError:
        inner()


@program((1,), (0,))
def asserts(x):
    assert x, f"x was {x}"
    assert x
    return x


@program((3.14159, "r"))
def formats(value, name):
    return f"{value}|{value:.2f}|{value!r:>10}|{name!s}|{name!a}|{value:{name and '>12'}.{3}f}|{Odd():q}|{{}}" f"{name}"


@program((5,), ("s",), (lambda: [1, 2],), (lambda: [1, 2, 3],), (lambda: {"k": 1, "z": 2},), (lambda: Manager(True),), (None,), (2.5,), (lambda: {},))
def patterns(value):
    match value:
        case 5 | 6:
            return "number"
        case str(text):
            return text
        case [a, b]:
            return a, b
        case [a, *rest]:
            return a, rest
        case {"k": v, **rest}:
            return v, rest
        case Manager(swallow=s, broken=None):
            return s
        case float() as f if f > 2:
            return f
        case None:
            return "none"
        case _:
            return "other"


class Point:
    __match_args__ = ("x", "y")
    x, y = 1, 2


@program((lambda: Point(), 0), (lambda: Point(), 1), (lambda: Point(), 2), (lambda: Point(), 3), (3, 0))
def class_patterns(value, which):
    match which, value:
        case 0, Point(a, b):
            return a, b
        case 1, Point(a, b, c):
            return c
        case 2, Point(a, x=b):
            return b
        case 3, Point(z=b):
            return b
    return None


@program()
def imports():
    import os.path as p
    import collections.abc
    from math import sin, pi
    from os import path
    from . import nothing


@program()
def bad_import():
    from math import no_such_thing


@program()
def missing_module():
    import no_such_module_here.sub


@program()
def classes():
    base = 3

    class A:
        x: int = base
        y = [base for _ in range(2)]

        def f(self):
            return __class__, self.x

        @staticmethod
        def g(v: int = base) -> int:
            return v * 2

    class B(A, metaclass=type):
        def f(self):
            return super().f()[1] + 1

    def annotated(a: int, *, k: "str" = "d") -> None: ...

    return B().f(), A.g(), A.__annotations__, A.y, annotated.__annotations__, annotated.__kwdefaults__, B.__qualname__


@program()
def generators():
    def gen(n):
        received = []
        for i in range(n):
            received.append((yield i))
        return received

    def outer():
        result = yield from gen(2)
        yield result

    g = gen(3)
    return list(outer()), next(g), g.send("a"), list(g), sum(i * i for i in range(4)), [*map(lambda v: v + 1, gen(2))]


@program((4,))
def frames_and_locals(a):
    b = [a]
    seen = sorted(locals())
    stack = deep_stack()[0]
    line = sys._getframe().f_lineno
    c = eval("a + len(b)")
    exec("zz = 1")
    return seen, stack, line, c, sorted(locals()), sys._getframe().f_code.co_name, sorted(vars())


@program((0,), (1,), (None,), ("",))
def short_circuit(x):
    a = x and 5
    b = x or 6
    c = x if x is None else 7
    d = x is not None and x == 1
    while x is not None and x:
        x = x - 1
        if x is None:
            continue
    y: int = 0
    while y is not None:
        y = y + 1 if y < 3 else None
    return a, b, c, d, 1 < (x or 0) < 3


@program()
def many_arguments():
    values = list(range(300))
    total = sum([values[0], values[255], values[256], values[299]])
    return total, takes(1, d=2, **{f"k{i}": i for i in range(300)})[-1]["k299"]


@program()
def nested_exception():
    def a():
        b()

    def b():
        try:
            c()
        finally:
            d = 3

    def c():
        return [
            1,
            2 /
            0,
        ]

    a()


@program()
def exception_groups():
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        print("caught", group.exceptions)


@program(*[(k,) for k in range(5)])
def stop_iterations(which):
    class Stops:
        def __init__(self, error):
            self.error = error

        def __iter__(self):
            return self

        def __next__(self):
            raise self.error

    errors = [StopIteration(), StopIteration(3), ValueError("in next"), KeyboardInterrupt(), StopAsyncIteration()]
    for _ in Stops(errors[which]):
        pass
    return "ended"


big_source = "def big(x):\n" + "".join(f"    v{i} = x + {i}\n" for i in range(300)) + "    return " + " + ".join(
    f"v{i}" for i in range(300)) + "\n"
exec(big_source)
PROGRAMS.append((big, (1,)))  # noqa: F821  more than 256 locals and constants: EXTENDED_ARG
exec("def far(x):\n    for i in range(x):\n        if x == 2:\n" + "            x = x\n" * 400 + "    return x\n")
PROGRAMS.append((far, (3,)))  # noqa: F821  jumps over more than 256 units


# ---- Comparing ---------------------------------------------------------------------------------------------------------


def fresh(arguments):
    return tuple(a() if callable(a) and getattr(a, "__name__", "") == "<lambda>" else a for a in arguments)


def trail(error):
    entries, where = [], error.__traceback__.tb_next.tb_next  # past outcome() and the test's lambda
    while where is not None:
        code = where.tb_frame.f_code
        positions = list(code.co_positions())[where.tb_lasti // 2]
        entries.append((code.co_name, where.tb_lineno, positions))
        where = where.tb_next
    return entries


def describe_error(error):
    if error is None:
        return None
    chain = describe_error(error.__context__) if error.__context__ is not None else None
    return type(error), str(error), repr(error.__cause__), error.__suppress_context__, getattr(error, "name", None), chain


def outcome(call):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            result = ("value", repr(call()))
        except BaseException as error:
            result = ("raised", describe_error(error), trail(error))
    return result, output.getvalue()


def name_of(case):
    return case.__name__ if callable(case) else None


@pytest.mark.parametrize("function, arguments", PROGRAMS, ids=name_of)
@pytest.mark.parametrize("deep", [False, True], ids=["one", "deep"])
def test_same_as_plain(function, arguments, deep):
    expected = outcome(lambda: function(*fresh(arguments)))
    assert outcome(lambda: interpret(function, fresh(arguments), deep=deep)) == expected


@pytest.mark.parametrize("function, arguments", PROGRAMS, ids=name_of)
def test_frame_made_late(function, arguments):
    expected = outcome(lambda: function(*fresh(arguments)))
    assert outcome(lambda: interpret(function, fresh(arguments), late=True)) == expected


@pytest.mark.parametrize("function, arguments", PROGRAMS, ids=name_of)
def test_handed_over_after_every_step(function, arguments):
    expected = outcome(lambda: function(*fresh(arguments)))
    runtime._interpret_counts()
    outcome(lambda: interpret(function, fresh(arguments)))
    steps = runtime._interpret_counts()["steps"]
    for count in range(min(steps, 120)) if steps < 600 else range(0, steps, 41):
        assert outcome(lambda: interpret(function, fresh(arguments), stop_after=count)) == expected, f"after {count} steps"
        assert outcome(lambda: interpret(function, fresh(arguments), late=True, stop_after=count)) == expected


@pytest.mark.parametrize("function, arguments", PROGRAMS, ids=name_of)
def test_exception_at_every_instruction(function, arguments):
    """An exception that comes from nowhere, as Ctrl-C does: it leaves at its own line, or the handlers get it."""
    lines = {line for *_, line in function.__code__.co_lines()}
    runtime._interpret_counts()
    outcome(lambda: interpret(function, fresh(arguments)))
    steps = min(runtime._interpret_counts()["steps"], 150)
    for count in range(steps):
        result, _ = outcome(lambda: interpret(function, fresh(arguments), fail_after=count))
        if result[0] == "raised" and result[1][0] is InterruptedError and result[2]:
            assert result[2][0][0] == function.__name__ and result[2][0][1] in lines


def test_programs_are_really_stepped():
    runtime._interpret_counts()
    interpret(loops, (10,))
    interpret(with_blocks, (True, None))
    counts = runtime._interpret_counts()
    assert counts["steps"] > 150 and counts["frames"] == 2 and counts["returns"] == 2 and counts["raises"] == 1


def test_keywords_and_binding_errors():
    assert interpret(takes, (1, 2), {"d": 3, "z": 4}) == takes(1, 2, d=3, z=4)
    for args, kwargs in [((), {}), ((1,), {}), ((1, 2, 3), {"d": 1, "b": 2}), ((1,), {"a": 2, "d": 1})]:
        try:
            expected = repr(takes(*args, **kwargs))
        except TypeError as error:
            expected = str(error)
        try:
            got = repr(interpret(takes, args, kwargs))
        except TypeError as error:
            got = str(error)
        assert got == expected


def test_reference_counts():
    marker = object()

    def kept(a, fail):
        b = [a, a]
        for c in b:
            d = (c, a)
            x, y = d
            del x
        e = {"k": a}
        f = lambda: a
        with contextlib.nullcontext(a) as g:
            h, *i = [a, a, a]
        match e:
            case {"k": j}:
                pass
        try:
            if fail:
                raise ValueError(a)
        finally:
            k = f()
        return k

    for fail in (False, True):
        failing = [{"fail_after": count} for count in range(0, 70, 5)]
        for mode in ({}, {"deep": True}, {"late": True}, {"stop_after": 40}, *failing):

            def once():
                try:
                    interpret(kept, (marker, fail), **mode)
                except (ValueError, InterruptedError):
                    pass

            once()
            gc.collect()
            before = sys.getrefcount(marker), sys.getrefcount(None), sys.getrefcount(kept), sys.getrefcount(kept.__code__)
            for _ in range(300):
                once()
            gc.collect()
            after = sys.getrefcount(marker), sys.getrefcount(None), sys.getrefcount(kept), sys.getrefcount(kept.__code__)
            assert after[0] == before[0] and after[2:] == before[2:], mode
            assert abs(after[1] - before[1]) < 100, mode


def test_arguments_die_with_the_frame():
    class Watched:
        alive = 0

        def __init__(self):
            Watched.alive += 1

        def __del__(self):
            Watched.alive -= 1

    def use(a):
        b = Watched()
        for c in [Watched(), Watched()]:
            pass
        return 1

    for mode in ({}, {"late": True}, {"stop_after": 9}):
        assert interpret(use, (Watched(),), **mode) == 1
        assert Watched.alive == 0


def test_kept_frame_shows_final_locals():
    kept = []

    def f(a):
        kept.append(sys._getframe())
        b = a + 1
        c = [b]
        return b

    for mode in ({}, {"late": True}, {"stop_after": 12}):
        assert interpret(f, (4,), **mode) == 5
        frame = kept.pop()
        assert frame.f_locals == {"a": 4, "b": 5, "c": [5], "kept": kept}
        assert frame.f_back.f_code.co_name == "test_kept_frame_shows_final_locals"
        frame.clear()


def test_callee_sees_the_caller():
    def callee():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, dict(frame.f_locals), frame.f_back.f_code.co_name

    def caller(a):
        b = a
        return (
            1,
            callee(),
        )

    for mode in ({}, {"deep": True}, {"late": True}, {"late": True, "deep": True}):
        assert interpret(caller, (7,), **mode)[1] == ("caller", 4, {"a": 7, "b": 7, "callee": callee}, "test_callee_sees_the_caller")
