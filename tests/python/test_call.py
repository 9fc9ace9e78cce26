"""Compiled calls against plain ones: value, output, exceptions with every line and column of their tracebacks.

The programs of test_frames.py run through kt.compile; the programs here put a break (an opaque call) or an exception into
every place where a callee can be inlined."""
import functools
import gc
import signal
import sys
import threading
import time

import pytest

import kintsugi as kt
from test_frames import PROGRAMS, fresh, name_of, outcome

opaque = kt._dynamo.testing.opaque
native = kt._dynamo.utils.counters["native"]


@pytest.mark.parametrize("function, arguments", PROGRAMS, ids=name_of)
def test_same_as_plain(function, arguments):
    expected = outcome(lambda: function(*fresh(arguments)))
    fast = kt.compile(function)
    for _ in range(3):
        assert outcome(lambda: fast(*fresh(arguments))) == expected


# ---- Breaks inside ----------------------------------------------------------------------------------------------------

def stop(x, fail):
    """The break, or the exception instead of it."""
    if fail:
        raise ValueError("stopped")
    opaque(x)
    return x + 1.0


def depth_1(x, fail):
    y = stop(x, fail) * 2.0
    return y.tolist()


def depth_2(x, fail):
    def inner(v):
        w = stop(v * 3.0, fail)
        return w - 1.0

    y = inner(x) * 2.0
    return y.tolist()


def nest(x, n, fail):
    if n == 0:
        return stop(x, fail)
    y = x + float(n)
    z = nest(y, n - 1, fail)
    return z + y


def depth_5(x, fail):
    return nest(x, 5, fail).tolist()


class Model:
    def __init__(self, x, fail):
        self.before = x
        self.state = stop(x, fail)
        self.after = self.state * 2.0

    @property
    def doubled(self):
        return stop(self.state, self.fail) * 2.0

    fail = False

    def __enter__(self):
        self.state = stop(self.state, self.fail)
        return self

    def __exit__(self, kind, value, where):
        print("exit", kind, value)
        self.state = stop(self.state, self.fail == "exit")
        return kind is ValueError

    def __eq__(self, other):
        stop(self.state, self.fail)
        return isinstance(other, int)

    def __bool__(self):
        stop(self.state, self.fail)
        return True

    def __call__(self, x):
        return stop(x, self.fail) + self.state

    def __getitem__(self, key):
        return stop(self.state, self.fail) * key


def in_init(x, fail):
    y = x * 2.0
    model = Model(y, fail)
    return y.tolist(), model.before.tolist(), model.state.tolist(), model.after.tolist()


def with_model(use):
    @functools.wraps(use)
    def run(x, fail):
        model = Model(x, False)
        model.fail = fail
        y = x * 3.0
        got = use(model, y)
        return got.tolist() if isinstance(got, kt.Tensor) else got, y.tolist()

    return run


@with_model
def in_property(model, y):
    return model.doubled + y


@with_model
def in_enter_and_exit(model, y):
    with model as m:
        z = m.state + y
    return z + model.state


@with_model
def in_exit_after_an_error(model, y):
    with model:
        raise ValueError("inside")
    return model.state + y


@with_model
def in_eq_of_contains(model, y):
    return (7 in [model], "x" in (model,))


@with_model
def in_truth(model, y):
    return y + 1.0 if model else y


@with_model
def in_call_and_item(model, y):
    return model(y) + model[2.0]


def in_comprehension(x, fail):
    return [stop(x * float(i), fail and i == 1).tolist() for i in range(3)]


def in_lambda(x, fail):
    scale = 3.0
    f = lambda v: stop(v, fail) * scale  # noqa: E731
    return (f(x) + f(x + 1.0)).tolist()


def in_callbacks(x, fail):
    key = lambda v: float(stop(x, fail)[0]) * v  # noqa: E731
    return sorted([3, 1, 2], key=key), list(map(key, [1, 2])), min([3, 1], key=key), sum(key(v) for v in (1, 2))


def in_loop(x, fail):
    total = x
    for i in range(12):
        total = stop(total, fail and i == 7) * 0.5
    return total.tolist()


def in_try(x, fail):
    log = []
    try:
        y = x * 2.0
        log.append(1)
        y = stop(y, fail)
        log.append(2)
    except ValueError as error:
        return "caught", str(error), y.tolist(), log
    finally:
        log.append("finally")
    return y.tolist(), log


def in_defaults_and_stars(x, fail):
    def inner(v, *rest, scale=2.0, **more):
        return stop(v, fail) * scale + float(len(rest)) + more["k"]

    return inner(x, 1, 2, k=1.5).tolist()


def branches_on_data(x, fail):
    if x.sum() > 2.0:
        y = x * 2.0
    else:
        y = x + 1.0
    while y.sum().item() < 40.0:
        y = y * 2.0
    return stop(y, fail).tolist()


INSIDE = [depth_1, depth_2, depth_5, in_init, in_property, in_enter_and_exit, in_exit_after_an_error, in_eq_of_contains,
          in_truth, in_call_and_item, in_comprehension, in_lambda, in_callbacks, in_loop, in_try, in_defaults_and_stars,
          branches_on_data]


@pytest.mark.parametrize("fail", [False, True], ids=["break", "raise"])
@pytest.mark.parametrize("function", INSIDE, ids=lambda f: f.__name__)
def test_break_inside(function, fail):
    make = [lambda: kt.tensor([1.0, 2.0]), lambda: kt.tensor([1.0, 2.0]), lambda: kt.tensor([0.5, 0.25, 0.125]),
            lambda: kt.tensor([3, 4])]
    fast = kt.compile(function)
    for x in make:
        expected = outcome(lambda: function(x(), fail))
        assert outcome(lambda: fast(x(), fail)) == expected


def test_references_are_balanced():
    marker = object()

    def f(x, marker, fail):
        kept = [marker, (marker, x)]
        y = nest(x, 2, fail)
        return kept, y

    fast = kt.compile(f)
    x = kt.ones(3)

    def run(fail):
        try:
            fast(x, marker, fail)
        except ValueError:
            pass

    for fail in (False, True):
        for _ in range(5):
            run(fail)
        gc.collect()
        before = sys.getrefcount(marker), sys.getrefcount(x), sys.getrefcount(stop), sys.getrefcount(fast)
        for _ in range(50):
            run(fail)
        gc.collect()
        assert (sys.getrefcount(marker), sys.getrefcount(x), sys.getrefcount(stop), sys.getrefcount(fast)) == before


def test_callees_of_a_call_out_are_captured(stress):
    def callee(x):
        return x * 2.0 + 1.0

    # getattr through a builtin that has no model: the callee is reached from C.
    call = functools.partial(opaque, None)

    def outer(x):
        call(x)
        return list(filter(None, [list(map(callee, iter([x])))[0].sum().item()]))

    fast = kt.compile(outer)
    for _ in range(3):
        assert fast(kt.ones(2)) == [6.0]


def test_signal_in_a_loop():
    def spin(x):
        while True:
            x = x + 1.0

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            start = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                kt.compile(spin)(kt.ones(2))
            assert time.perf_counter() - start < 5
    finally:
        signal.signal(signal.SIGALRM, old)


def test_another_thread_goes_on():
    progress = [0]
    done = threading.Event()

    def count():
        while not done.is_set():
            progress[0] += 1

    def spin(x, end):
        while x.sum().item() < end:
            x = x + 1.0
        return x

    thread = threading.Thread(target=count)
    thread.start()
    try:
        kt.compile(spin)(kt.zeros(4), 40000.0)
    finally:
        done.set()
        thread.join()
    assert progress[0] > 100


def test_disabled_functions_are_plain(stress):
    seen = []

    def helper(x):
        return x + 1.0

    @kt.compiler.disable
    def off(x):
        seen.append(sys._getframe().f_code.co_name)
        return helper(x) * 2.0

    def f(x):
        return off(x * 3.0) + 1.0

    for _ in range(3):
        assert kt.compile(f)(kt.ones(2)).tolist() == [9.0, 9.0]
    assert seen == ["off"] * 3


def test_tracer_started_in_a_callee():
    lines = []

    def tracer(frame, event, arg):
        lines.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def start():
        sys.settrace(tracer)
        sys._getframe(1).f_trace = tracer

    def f(x):
        y = x + 1.0
        start()
        z = y * 2.0
        sys.settrace(None)
        return z

    f(kt.ones(2))
    plain, lines[:] = list(lines), []
    fast = kt.compile(f)
    for _ in range(3):
        lines.clear()
        assert fast(kt.ones(2)).tolist() == [4.0, 4.0]
        assert lines == plain


def test_a_compiled_function_met_in_a_trace_is_its_function():
    @kt.compile
    def inner(x, k=2.0):
        return x * k

    class Scaled:
        k = 3.0

        @kt.compile
        def scale(self, x):
            return x * self.k

    scaled = Scaled()
    names = {"inner": inner, "scaled": scaled}
    exec("def outer(x):\n return inner(x) + inner(x, k=5.0) + scaled.scale(x)", names)
    outer = kt.compile(names["outer"], fullgraph=True)  # a break would raise
    x = kt.ones(2)
    for _ in range(3):
        assert outer(x).tolist() == [10.0, 10.0]
    names["inner"] = kt.compile(lambda x, k=2.0: x - k)
    assert outer(x).tolist() == names["outer"](x).tolist() == [-2.0, -2.0]
    Scaled.scale = lambda self, x: x * 0.0
    assert outer(x).tolist() == [-5.0, -5.0]
