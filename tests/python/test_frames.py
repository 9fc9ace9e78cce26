"""Frames taken from CPython, run one instruction at a time, and given back in the middle.

`_interpret(f, args)` runs f over its real frame through runtime/step.cpp; every function here must behave as in a plain
call: value, output, exceptions with every line and column of their tracebacks, reference counts."""

import contextlib
import gc
import importlib
import inspect
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

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
    assert counts["steps"] > 150 and counts["frames"] == 2 and counts["returns"] == 1 and counts["raises"] == 1


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


# ---- Limits, threads, signals ---------------------------------------------------------------------------------------------


def recurse(n):
    return 0 if n == 0 else 1 + recurse(n - 1)


@pytest.mark.parametrize("deep", [False, True])
def test_recursion_limit_is_the_interpreters(deep):
    def deepest(run):
        low, high = 1, 5000
        while low + 1 < high:
            middle = (low + high) // 2
            try:
                run(middle)
                low = middle
            except RecursionError as error:
                assert str(error).startswith("maximum recursion depth exceeded")
                high = middle
        return low

    plain = deepest(lambda n: recurse(n))
    assert abs(deepest(lambda n: interpret(recurse, (n,), deep=deep)) - plain) <= 2  # _interpret, and the last comparison


def run_script(text, *arguments, **options):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    head = f"import importlib, sys\nruntime = importlib.import_module({runtime.__name__!r})\ninterpret = runtime._interpret\n"
    return subprocess.run([sys.executable, *arguments, "-c", head + textwrap.dedent(text)], env=environment, text=True,
                          capture_output=True, timeout=120, **options)


def test_recursion_far_beyond_the_c_stack():
    done = run_script("""
        sys.setrecursionlimit(10**6)
        def recurse(n):
            return 0 if n == 0 else 1 + recurse(n - 1)
        print(interpret(recurse, (100000,)))
        def bounce(n):
            return 0 if n == 0 else 1 + interpret(bounce, (n - 1,))
        try:
            interpret(bounce, (1000000,))
        except RecursionError as error:
            print(error)
        def deep(n):
            return 0 if n == 0 else 1 + deep(n - 1)
        print(interpret(deep, (200000,), deep=True))
        import threading
        threading.stack_size(1 << 20)
        def small():
            try:
                interpret(bounce, (1000000,))
            except RecursionError as error:
                print(error)
        t = threading.Thread(target=small); t.start(); t.join()
        """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["100000", "maximum recursion depth exceeded", "200000", "maximum recursion depth exceeded"]


def test_finaliser_that_calls_the_same_function():
    calls = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            calls.append(work(1))

    def work(n, *rest, **named):
        return [n] * 3

    old = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(200):
            Cycle()
            assert interpret(work, (i, 1, 2), {"k": 3}) == [i] * 3
            assert interpret(work, (i,), deep=True) == [i] * 3
    finally:
        gc.set_threshold(*old)
    assert gc.isenabled() and calls


def test_threads_in_and_out_of_capture():
    errors = []

    def inner(a):
        return [a + k for k in range(20)]

    def work(a):
        return sum(inner(a)) + sum(inner(a + 1))

    def thread(seed):
        try:
            for i in range(150):
                assert interpret(work, (i,), deep=(i + seed) % 3 == 0) == work(i)
        except BaseException as error:
            errors.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=thread, args=(k,)) for k in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    finally:
        sys.setswitchinterval(switch)
    assert not errors


def test_another_thread_keeps_going():
    stop, ticks = [], []

    def tick():
        while not stop:
            ticks.append(1)
            time.sleep(0.001)

    def spin(end):
        n = 0
        while time.perf_counter() < end:
            n += 1
        return n

    t = threading.Thread(target=tick)
    t.start()
    assert interpret(spin, (time.perf_counter() + 0.5,)) > 0
    seen = len(ticks)
    stop.append(1)
    t.join()
    assert seen > 20


def test_signal_reaches_the_loop():
    def spin():
        try:
            while True:
                pass
        except KeyboardInterrupt:
            return "stopped"

    for mode in ({}, {"late": True}):
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        assert interpret(spin, **mode) == "stopped"
        timer.join()


def test_asynchronous_exception():
    import ctypes

    class Wanted(Exception):
        pass

    ended = []

    def spin():
        try:
            while True:
                pass
        except Wanted:
            ended.append("in spin")

    t = threading.Thread(target=lambda: interpret(spin))
    t.start()
    time.sleep(0.05)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(t.ident), ctypes.py_object(Wanted)) == 1
    t.join(10)
    assert ended == ["in spin"]


def test_fork_inside():
    def work(n):
        total = 0
        for i in range(n):
            pid = os.fork()
            if pid == 0:
                total += 100
                os._exit(total + len(inner(3)))
            total += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return total

    def inner(n):
        return [k for k in range(n)]

    for deep in (False, True):
        assert interpret(work, (1,), deep=deep) == 103


def test_fork_while_other_threads_capture():
    done = run_script("""
        import os, threading, time
        def inner(n):
            return [k for k in range(n)]
        def work(n):
            return sum(len(inner(k)) for k in range(n))
        stop = []
        def spin():
            while not stop:
                work(20)
        threads = [threading.Thread(target=lambda: interpret(spin, deep=True)) for _ in range(3)]
        [t.start() for t in threads]
        codes = set()
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                right = interpret(work, (10,), deep=True) == 45 and runtime._interpret_counts()["frames"] > 10
                work(3)
                os._exit(0 if right and not runtime._hook_is_set() else 1)
            codes.add(os.waitpid(pid, 0)[1])
        stop.append(1)
        [t.join() for t in threads]
        print(codes, runtime._hook_is_set())
        """)
    assert done.stdout == "{0} False\n", done.stdout + done.stderr


def test_daemon_thread_at_exit():
    done = run_script("""
        import threading, time
        def spin():
            n = 0
            while True:
                n += 1
        for k in range(3):
            threading.Thread(target=lambda: interpret(spin, deep=True), daemon=True).start()
        time.sleep(0.2)
        print("end")
        """)
    assert done.returncode == 0 and done.stdout == "end\n" and not done.stderr


# ---- Debuggers ----------------------------------------------------------------------------------------------------------


def trace_events(run, profile=False):
    events = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("traced", "starter", "after"):
            events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    state = {"tracer": tracer}
    try:
        result = run(state)
    finally:
        (sys.setprofile if profile else sys.settrace)(None)
    return events, result


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_settrace_started_in_a_callee(fails, whole):
    def starter(state):
        if whole:
            frame = sys._getframe(1)
            frame.f_trace = state["tracer"]
        sys.settrace(state["tracer"])

    def after(x):
        return x + 1

    def traced(state):
        a = 1
        starter(state)
        b = after(a)
        try:
            if fails:
                raise ValueError
            c = 3
        except ValueError:
            c = after(b)
        return a + b + c

    expected = trace_events(lambda state: traced(state))
    assert expected[0]
    for mode in ({}, {"deep": True}, {"late": True}, {"late": True, "deep": True}):
        assert trace_events(lambda state: interpret(traced, (state,), **mode)) == expected


def test_callee_starts_tracing_and_raises():
    def starter(state):
        sys._getframe(1).f_trace = state["tracer"]
        sys.settrace(state["tracer"])
        raise KeyError("x")

    def after(x):
        return x

    def traced(state):
        try:
            starter(state)
        except KeyError:
            a = after(1)
        return a

    expected = trace_events(lambda state: traced(state))
    for mode in ({}, {"deep": True}, {"late": True}, {"late": True, "deep": True}):
        assert trace_events(lambda state: interpret(traced, (state,), **mode)) == expected


def test_pdb():
    script = """
        def helper(x):
            return x * 2
        def debugged(a):
            b = a + 1
            breakpoint()
            c = helper(b)
            return c
        def outer(a):
            d = debugged(a)
            return d
        print(CALL)
        """
    commands = "p a, b\nnext\nnext\np c\nup\np a\ndown\nnext\nnext\nnext\ncontinue\n"
    plain = run_script(script.replace("CALL", "outer(3)"), input=commands)
    stepped = run_script(script.replace("CALL", "interpret(outer, (3,), deep=True)"), input=commands)
    assert plain.returncode == 0 and "(3, 4)" in plain.stdout

    def seen(done):
        return [line for line in done.stdout.splitlines() if "print(" not in line and "<module>" not in line]

    assert seen(stepped) == seen(plain)


def test_profile_started_in_a_callee():
    def starter(state):
        sys.setprofile(state["tracer"])

    def after(x):
        return x + 1

    def traced(state):
        starter(state)
        try:
            raise ValueError
        except ValueError:
            b = after(1)
        return b

    expected = trace_events(lambda state: traced(state), profile=True)
    for mode in ({}, {"deep": True}, {"late": True}, {"late": True, "deep": True}):
        assert trace_events(lambda state: interpret(traced, (state,), **mode), profile=True) == expected


# ---- A second user of the hook --------------------------------------------------------------------------------------------


def busy(n):
    return sum([loops(k)[0] for k in range(n)])


def set_rival(on):
    return runtime._rival_hook(on)


def meddling(steps):
    """A function that lets the rival in and out while it is being captured, and always calls on."""

    def run():
        total = 0
        for on in steps:
            if on is not None:
                set_rival(on)
            total += busy(4)
        return total

    return run


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("steps", [[None], [True], [True, False], [False], [False, True], [True, False, True], [False, True, False]])
def test_second_user_of_the_hook(before, steps):
    expected = busy(4) * len(steps)
    assert not runtime._hook_is_set()
    try:
        set_rival(before)
        for _ in range(3):
            assert interpret(meddling(steps), deep=True) == expected
            assert interpret(busy, (4,)) == busy(4)
            assert interpret(busy, (4,), late=True, deep=True) == busy(4)
        set_rival(True)
        assert interpret(meddling([None]), deep=True) == busy(4)
        assert set_rival(True) > 0
        set_rival(False)
        assert interpret(meddling([None]), deep=True) == busy(4)
    finally:
        set_rival(False)
    busy(1)
    assert not runtime._hook_is_set()
    runtime._interpret_counts()
    assert interpret(busy, (4,), deep=True) == busy(4)
    assert runtime._interpret_counts()["frames"] > 4
    assert not runtime._hook_is_set()


# ---- Code that changes underneath ------------------------------------------------------------------------------------------


def test_code_replaced_before_the_frame_is_made():
    def replacement(a):
        return "new"

    def f(a):
        b = a + 1
        f.__code__ = replacement.__code__ if False else f.__code__
        return b

    def g(a, b):
        return a + b

    assert interpret(f, (1,), late=True) == 2
    assert interpret(g, (1, 2), late=True) == 3


def test_subinterpreter_runs_plain():
    testing = pytest.importorskip("_xxsubinterpreters")
    interpreter = testing.create()
    try:
        testing.run_string(interpreter, "def f(n):\n    return [k for k in range(n)]\nassert f(3) == [0, 1, 2]\n")
        assert interpret(lambda: testing.run_string(interpreter, "assert sum(k for k in range(4)) == 6"), deep=True) is None
    finally:
        testing.destroy(interpreter)


def test_library_suites_run_stepped():
    """Parts of CPython's own test suite, every Python frame taken and stepped."""
    pytest.importorskip("test.test_patma")
    done = run_script("""
        import unittest
        names = "test_patma test_unpack_ex test_with test_scope test_raise test_extcall".split()
        suite = unittest.defaultTestLoader.loadTestsFromNames(["test." + name for name in names])
        result = interpret(lambda: unittest.TextTestRunner(verbosity=0).run(suite), deep=True)
        counts = runtime._interpret_counts()
        print(result.wasSuccessful(), result.testsRun > 400, counts["frames"] > 20000)
        """)
    assert done.stdout == "True True True\n", done.stdout + done.stderr[-2000:]
