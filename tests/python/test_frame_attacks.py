"""The frame hook and stepped frames under attack: limits, threads, signals, debuggers, another user of the hook, code that
changes underneath. What they compute when left alone is in test_frames.py."""

import gc
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

runtime = importlib.import_module(os.environ.get("KINTSUGI_RUNTIME", "kintsugi._runtime"))
interpret = runtime._interpret


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


def loops(n):
    total = 0
    for i in range(n):
        if i == 7:
            break
        total += i * i
    while n:
        n -= 1
        total ^= n
    return total, n


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
