"""The frame hook and the driver under attack: finalisers, threads, another user of the hook, recursion, debuggers, fork,
reset, signals, interpreter exit. Programs that could bring the process down run in one of their own."""
import contextlib
import gc
import os
import signal
import sys
import threading
import time

import pytest

import kintsugi as kt
from comparing import native, output_of, run_script, runtime

pytestmark = pytest.mark.usefixtures("fresh")

graph_break = kt._dynamo.graph_break


# ---- Who else calls, and when ------------------------------------------------------------------------------------------


def test_finaliser_that_calls_the_same_function():
    calls = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            calls.append(work(kt.ones(2), 1).tolist())

    def inner(x):
        graph_break()
        return [x] * 3

    @kt.compile
    def work(x, n, *rest, **named):
        return inner(x + n)[0] * 2

    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(200):
            Cycle()
            assert work(kt.ones(2), i, 1, k=2).tolist() == [(1 + i) * 2] * 2
            assert work(kt.ones(i + 2), i).tolist() == [(1 + i) * 2] * (i + 2)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert len(calls) >= 199 and all(call == [4.0, 4.0] for call in calls) and gc.isenabled()


def test_threads_that_leave_out_of_order():
    gates = [threading.Event() for _ in range(4)]
    answers = {}

    def inner(x, own, other):
        y = x + 1
        gates[own].set()
        gates[other].wait(10)
        return y * 2

    @kt.compile
    def work(x, order):
        for own, other in order:
            x = inner(x + 1, own, other)
        return x

    def run(name, order):
        answers[name] = work(kt.ones(3), order).tolist()

    for _ in range(3):
        [gate.clear() for gate in gates]
        threads = [threading.Thread(target=run, args=("a", [(0, 1), (2, 3)])),
                   threading.Thread(target=run, args=("b", [(1, 0), (3, 2)]))]
        [thread.start() for thread in threads]
        [thread.join(20) for thread in threads]
        assert answers == {"a": [14.0] * 3, "b": [14.0] * 3} or answers["a"] == answers["b"]
        assert not runtime._hook_is_set()


def test_many_threads_at_once():
    errors = []

    @kt.compile
    def work(x, k):
        above = 0
        for i in range(k):
            x = x + i
            if x.sum().item() > 50:
                above += 1
            graph_break()
        return x, above

    def thread(seed):
        try:
            for i in range(60):
                n, k = 2 + i * seed % 40, i % 7
                x, above = work(kt.ones(n), k)
                values = [1 + sum(range(j + 1)) for j in range(k)]
                assert x.tolist() == [1.0 + sum(range(k))] * n and above == sum(n * v > 50 for v in values)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=thread, args=(seed,)) for seed in (3, 5, 7, 11)]
        [each.start() for each in threads]
        [each.join() for each in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not errors


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("steps", [[None], [True], [True, False], [False, True], [True, False, True]])
def test_second_user_of_the_hook(before, steps):
    def inner(x):
        graph_break()
        return x + 1

    @contextlib.contextmanager
    def held(value):
        graph_break()
        yield value

    @kt.compile
    def work(x, on):
        y = inner(x)
        if on is not None:
            runtime._rival_hook(on)
        with held(1) as more:
            z = y + more
        return inner(z) * 2

    runtime._rival_hook(before)
    try:
        for on in steps * 3:
            assert work(kt.ones(2), on).tolist() == [8.0, 8.0]
    finally:
        runtime._rival_hook(False)
    call_outs = native["call_outs"]
    assert work(kt.ones(2), None).tolist() == [8.0, 8.0]
    assert native["call_outs"] > call_outs and not runtime._hook_is_set()


# ---- Depth -------------------------------------------------------------------------------------------------------------

RECURSION = """
    import sys, threading
    def trial(f, *arguments):
        try:
            return f(*arguments)
        except RecursionError:
            return "RecursionError"
    @kt.compile
    def breaking(x, n):
        y = x + 1
        kt._dynamo.graph_break()
        return y if n == 0 else breaking(y, n - 1)
    @kt.compile
    def plain(x, n):
        return plain(x + 1, n + 1)
    @kt.compile
    def cleaning(x, n):
        try:
            return cleaning(x + 1, n + 1)
        finally:
            n += 1
            kt._dynamo.graph_break()
    class Deep:
        def __init__(self, n):
            kt._dynamo.graph_break()
            self.inner = Deep(n + 1)
    @kt.compile
    def making(x, n):
        return Deep(0), x + 1
    @kt.compiler.allow_in_graph
    def not_looked_into(x, n):
        return x + 1 if kt.compiler.is_compiling() else opaque(x, n + 1)
    @kt.compile
    def opaque(x, n):
        return not_looked_into(x, n) * 1.0
    def body():
        for n in (10, 100, 200):
            assert breaking(kt.ones(2), n).tolist() == [n + 2.0] * 2
        for f in (breaking, plain, cleaning, making, opaque) * 2:
            assert trial(f, kt.ones(2), 10**9) == "RecursionError", f
    body()
    sys.setrecursionlimit(10**6)
    body()
    threading.stack_size(1 << 20)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert breaking(kt.ones(2), 50).tolist() == [52.0] * 2
    print("alive", native["fallbacks"])
"""


def test_recursion_to_the_limit_and_far_beyond(stress):
    if stress:
        pytest.skip("the depth reached differs")
    assert output_of(RECURSION) == "alive 0\n"


# ---- Debuggers ---------------------------------------------------------------------------------------------------------

DEBUGGED = """
    import sys
    def helper(x):
        return x * 2
    def debugged(a):
        b = a + 1
        breakpoint()
        c = helper(b)
        return c
    def outer(a):
        k = 5
        d = debugged(a)
        return d + k
    run = kt.compile(outer) if sys.argv[1] == "compiled" else outer
    print(run(3), run(4), run(kt.ones(2)).tolist())
"""
COMMANDS = "\n".join(["p a, b", "next", "next", "p c", "up", "p a, k", "down", "next", "next", "next", "continue", "next", "step",
                      "p x", "return", "up", "p k", "continue", "p b", "continue", ""])


def test_breakpoint_inside():
    plain = run_script(DEBUGGED, "plain", input=COMMANDS)
    compiled = run_script(DEBUGGED, "compiled", input=COMMANDS)
    assert plain.returncode == compiled.returncode == 0 and "(3, 4)" in plain.stdout
    assert compiled.stdout == plain.stdout


def watched(function, profile, fails, whole):
    events = []

    def watch(frame, event, argument):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("traced", "outer", "starter", "after"):
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return watch

    try:
        answer = function(watch, profile, fails, whole, kt.ones(2))
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return events, answer


def starter(watch, profile, whole):
    if whole:
        sys._getframe(1).f_trace = watch
    (sys.setprofile if profile else sys.settrace)(watch)


def after(x):
    return x + 1


def traced(watch, profile, fails, whole, x):
    a = x + 1
    starter(watch, profile, whole)
    b = after(a)
    try:
        if fails:
            raise ValueError
        c = b * 3
    except ValueError:
        c = after(b)
    for i in range(3):
        c = c + i
    return (a + b + c).tolist()


def outer(watch, profile, fails, whole, x):
    y = x * 2
    return traced(watch, profile, fails, whole, y), after(y).tolist()


@pytest.mark.parametrize("function", [traced, outer])
@pytest.mark.parametrize("profile", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_watching_begins_in_a_callee(function, profile, fails, whole):
    expected = watched(function, profile, fails, whole)
    compiled = kt.compile(function)
    segments = native["segments"]
    for _ in range(3):
        assert watched(compiled, profile, fails, whole) == expected
    assert native["segments"] > segments


# ---- Fork, reset, exit ---------------------------------------------------------------------------------------------------

FORKS = """
    import os, threading
    @kt.compile
    def f(x, k):
        y = x * k + 1
        kt._dynamo.graph_break()
        return y.sum().item() + k
    def made(i, factor):
        names = {"kt": kt}
        exec(f"@kt.compile\\ndef g(x):\\n    y = x + {i}\\n    kt._dynamo.graph_break()\\n    return y * {factor}\\n", names)
        return names["g"](kt.ones(3)).tolist() == [(1.0 + i) * factor] * 3
    stop, codes = [], set()
    def spin():
        while not stop:
            f(kt.ones(5), 3)
    thread = threading.Thread(target=spin)
    thread.start()
    for i in range(200):
        child = os.fork()
        if child == 0:
            right = made(i, 2) and all(f(kt.ones(n), i % 11) == n * (i % 11 + 1) + i % 11 for n in range(2, 6))
            kt._dynamo.reset()
            os._exit(0 if right and made(i, 5) and f(kt.ones(4), 2.0) == 14 else 1)
        assert made(i, 3)
        if i % 10 == 0:
            kt._dynamo.reset()
        codes.add(os.waitpid(child, 0)[1])
    stop.append(1)
    thread.join()
    print(codes, native["fallbacks"])
"""


@pytest.mark.slow
def test_forks_with_both_sides_compiling(stress):
    if stress:
        pytest.skip("takes long")
    assert output_of(FORKS) == "{0} 0\n"


def test_what_traces_need_is_loaded_with_the_package():
    """The child of a fork would wait for ever for a module that another thread was loading."""
    assert output_of("""
        import sys
        before = set(sys.modules)
        kt.compile(lambda x: sorted([x.sum().item(), abs(-1)])[0] if isinstance(x, kt.Tensor) else {})(kt.ones(2))
        print({name for name in set(sys.modules) - before if not name.startswith("kintsugi")})
        """) == "set()\n"


def test_reset_inside_a_call_out():
    def callback():
        kt._dynamo.reset()
        gc.collect(1)

    @kt.compile
    def work(x, n):
        y = x + n
        callback()
        z = y * 2
        for i in range(3):
            z = z + i
            callback()
        try:
            callback()
            1 // int((z * 0).sum().item())
        except ZeroDivisionError:
            callback()
            z = z + 1
        return z

    for i in range(12):
        assert work(kt.ones(2), i % 3).tolist() == [(1 + i % 3) * 2 + 4.0] * 2


def test_reset_at_the_limit_of_segments(stress):
    if stress:
        pytest.skip("other limits")

    def callback(kind):
        if kind.gain == 13:
            kt._dynamo.reset()

    @kt.compile
    def work(x, kind):
        y = x * kind.gain
        if kind.gain == 7:
            kt._dynamo.reset()
        callback(kind)
        return y + kind.gain

    kinds = [type(f"Kind{i}", (), {"gain": float(i)}) for i in range(20)]
    with kt._dynamo.config.patch(recompile_limit=3):
        for kind in kinds * 3:
            assert work(kt.ones(2), kind()).tolist() == [2 * kind.gain] * 2


def test_reset_from_another_thread():
    stop = []

    def resetter():
        while not stop:
            kt._dynamo.reset()
            time.sleep(0.0005)

    @kt.compile
    def work(x, n):
        for i in range(n):
            x = x + 1
            graph_break()
            if x.sum() > 1e6:
                break
        return x

    thread = threading.Thread(target=resetter)
    thread.start()
    try:
        end = time.time() + 1
        while time.time() < end:
            assert work(kt.ones(3), 10).tolist() == [11.0] * 3
    finally:
        stop.append(1)
        thread.join()


def test_threads_amid_imports():
    """What the tracer imports lets other threads run: they wait for no table, and nothing that a trace looked at changes."""
    out = output_of("""
        import sys, threading, time

        class Slow:
            def find_spec(self, name, path=None, target=None):
                time.sleep(0.02)

        for name in ("weakref", "enum", "cmath", "_heapq", "numbers", "contextlib"):
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, Slow())
        K = 1

        class A:
            def scaled(self, x):
                return x * 2

        def f(x):
            y = x * K
            a = A()
            return a.scaled(abs(y)) if isinstance(a, A) and not isinstance(x, dict) else {k: y for k in "ab"}

        def h(x):
            return sorted([abs(-1), len(x)])[0] * f(x)

        out = []
        def go(function):
            out.append(kt.compile(function)(kt.ones(2)).tolist())

        threads = [threading.Thread(target=go, args=(function,), daemon=True) for function in (f, h, f, h)]
        for thread in threads:
            thread.start()
        for turn in range(20):
            K = 1 + turn % 2
            time.sleep(0.01)
        for thread in threads:
            thread.join()
        print(all(each in ([2.0] * 2, [4.0] * 2) for each in out), len(out))
        """, timeout=30)
    assert out == "True 4\n"


@pytest.mark.parametrize("threads", [0, 2])
def test_interpreter_exit(threads):
    text = """
        import atexit, sys, threading, time
        @kt.compile
        def f(x):
            y = x + 1
            kt._dynamo.graph_break()
            return y * 2
        class Late:
            def __del__(self):
                print("late", f(kt.ones(2)).tolist())
        atexit.register(lambda: print("exit", f(kt.ones(3)).tolist(), kt.compile(lambda x: x + 3)(kt.ones(1)).tolist()))
        kept = Late()
        def spin(x):
            while True:
                x = x * 0.5
        for _ in range(int(sys.argv[1])):
            threading.Thread(target=kt.compile(spin), args=(kt.ones(2),), daemon=True).start()
        time.sleep(0.1)
        print("main", f(kt.ones(2)).tolist())
        """
    late = "" if threads else "late [4.0, 4.0]\n"  # threads that still run keep the module alive, in plain Python too
    assert output_of(text, str(threads)) == "main [4.0, 4.0]\nexit [4.0, 4.0, 4.0] [4.0]\n" + late


# ---- Signals and the lock ------------------------------------------------------------------------------------------------


def forever(x):
    while True:
        x = x * 0.5 + 1


def forever_in_numbers(x):
    n = 0
    while True:
        n = n + 1


def interrupted_after(function, seconds):
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            function(kt.ones(3))
        return time.perf_counter() - sent[0], caught.traceback[-1].lineno
    finally:
        timer.join()


@pytest.mark.parametrize("function", [forever, forever_in_numbers])
def test_signal_ends_a_compiled_loop(function):
    compiled = kt.compile(function)
    first = function.__code__.co_firstlineno - 1
    for _ in range(10):  # the machine may have other work just then
        wait, line = interrupted_after(compiled, 0.1)
        assert first < line < first + 5
        if wait < 0.05:
            return
    pytest.fail(f"the last signal took {wait} s")


def test_signal_reaches_the_handler_of_the_loop():
    @kt.compile
    def work(x):
        try:
            while True:
                x = x * 0.5 + 1
                kt._dynamo.testing.opaque(x)
        except KeyboardInterrupt:
            return x

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    assert work(kt.ones(3)).tolist()[0] > 1
    timer.join()


def test_another_thread_keeps_its_progress():
    def progress(function):
        stop, count = [], [0]

        def tick():
            while not stop:
                count[0] += 1

        thread = threading.Thread(target=tick)
        thread.start()
        start = time.perf_counter()
        interrupted_after(function, 0.4)
        rate = count[0] / (time.perf_counter() - start)
        stop.append(1)
        thread.join()
        return rate

    compiled = kt.compile(forever)
    assert any(progress(compiled) / progress(forever) >= 0.4 for _ in range(8))


@pytest.mark.slow
def test_large_kernels_of_two_threads_overlap():
    """While one thread is inside one large kernel, another starts and ends several: the lock is not held meanwhile."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    work = kt.compile(lambda x: (x * 1.0001 + 0.5).exp().log().sin().cos())
    long, short = kt.rand(4_000_000), kt.rand(100_000)
    work(long), work(short)

    def overlapping():
        spans = []

        def many():
            while not ended.is_set():
                start = time.perf_counter()
                work(short)
                spans.append((start, time.perf_counter()))

        ended = threading.Event()
        other = threading.Thread(target=many)
        other.start()
        try:
            time.sleep(0.01)
            start = time.perf_counter()
            work(long)
            end = time.perf_counter()
        finally:
            ended.set()
            other.join()
        return sum(start < first and last < end for first, last in spans)

    assert any(overlapping() >= 5 for _ in range(20))


def test_code_replaced_by_a_finaliser():
    """The item that a store drops gives the function other code, with other parameters, and calls it; the break after the
    store still belongs to the old code."""
    def old(x, items):
        y = x + 1
        items[0] = y
        graph_break()
        return y * 2

    def new(x, items, more=5):
        return x * more

    calls = []

    class Replaces:
        def __del__(self):
            compiled.__wrapped__.__code__ = new.__code__
            compiled.__wrapped__.__defaults__ = new.__defaults__
            calls.append(compiled(kt.ones(2), []).tolist())
            gc.collect()

    compiled = kt.compile(old)
    for item in (1, 2, 3):
        assert compiled(kt.ones(2), [item]).tolist() == [4.0, 4.0]
    assert compiled(kt.ones(2), [Replaces()]).tolist() == [4.0, 4.0]
    assert calls == [[5.0, 5.0]]
    assert compiled(kt.ones(2), []).tolist() == [5.0, 5.0]


# ---- What a guard loaded is only borrowed ----------------------------------------------------------------------------------


class Thing:
    def __init__(self, number):
        self.number = number


items = []  # of things; a segment's guard loads the first


def makes_tensors(x):
    return items[0], x + 1, x * 2


def makes_text(x):
    first, parts = items[0], str(len(items) + x.shape[0]).split("0")
    return first, parts, [*range(len(parts))]


@pytest.mark.parametrize("function", [makes_tensors, makes_text])
def test_a_collection_in_the_middle_drops_nothing_that_is_used_after_it(function):
    """Whatever makes an object may start a collection, and that runs finalisers."""
    class Clears:
        def __init__(self):
            self.itself = self

        def __del__(self):
            items.clear()

    compiled = kt.compile(function, dynamic=True)
    for n in (3, 4, 5):
        items[:] = [Thing(7)]
        compiled(kt.ones(n))
    kept = [kt.ones(3) for _ in range(300)]  # no tensor object is left over from others
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            items[:] = [Thing(7)]
            x = kt.ones(3)
            Clears()
            gc.set_threshold(1)
            gc.enable()
            kept.append(compiled(x))
            gc.disable()
            gc.set_threshold(*thresholds)
            kept.append([Thing(0) for _ in range(20)])  # where it would have been
            assert type(kept[-2][0]) is Thing and kept[-2][0].number == 7
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


def in_a_kernel(x, square):
    for _ in range(4):
        x = x.exp() * 0.5
    return items[0], x


def in_a_product(x, square):
    return items[0], square @ square


def in_a_write(x, square):
    x[1:] = x[:-1]
    x[1:] = x[:-1]
    return items[0], x


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [in_a_kernel, in_a_product, in_a_write])
def test_other_threads_drop_nothing_that_is_used_after_a_large_kernel(function, dynamic):
    """The lock is free meanwhile."""
    compiled, x, square = kt.compile(function, dynamic=dynamic), kt.ones(2_000_000), kt.ones(500, 500)
    for n in (1, 2, 3):
        items[:] = [Thing(7)]
        compiled(x[n:], square)

    def clear():
        started.wait()
        time.sleep(0.001)
        items.clear()
        junk.extend(Thing(0) for _ in range(100))

    for _ in range(4):
        items[:], started, junk = [Thing(7)], threading.Event(), []
        other = threading.Thread(target=clear)
        other.start()
        started.set()
        try:
            first, *_ = compiled(x, square)
            junk.extend(Thing(0) for _ in range(100))
            assert type(first) is Thing and first.number == 7
        except IndexError:  # it was cleared before the call began
            pass
        other.join()
