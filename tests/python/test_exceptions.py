"""Handlers, `with` and `finally` against plain runs: whole tracebacks, what is handled where, what chains to what, and that
a function goes on natively after its handlers."""
import collections.abc
import contextlib
import ctypes
import itertools
import operator
import re
import signal
import sys
import typing
import weakref

import pytest

import kintsugi as kt
from comparing import Programs, compare, native, what_is_left

program = Programs()
graph_break = kt._dynamo.graph_break


def three():
    return (kt.ones(3),)


def three_and(*values):
    return [lambda value=value: (kt.ones(3), value) for value in values]


@kt.compiler.disable
def handled():
    """What is being handled, as code outside of the compiled function sees it."""
    error = sys.exc_info()[1]
    return error and (type(error).__name__, error.args, type(error.__context__).__name__)


@kt.compiler.disable
def raise_again():
    raise


@kt.compiler.disable
def fail(kind, *args):
    raise kind(*args)


# ---- Exceptions that callees really raise: each handler is an entry ----------------------------------------------------


@program(three, hand_overs=0)
def seen_in_handlers(x):
    log = [handled()]
    try:
        fail(ValueError, 1)
    except ValueError:
        log.append(handled())
        try:
            fail(KeyError, 2)
        except KeyError as inner:
            log.append((handled(), repr(inner.__context__)))
        log.append(handled())
        x = x + 1
    log.append(handled())
    return x * 2, log


@program(three, hand_overs=0)
def again_from_a_callee(x):
    y = x + 1
    try:
        try:
            fail(ValueError, "first")
        except ValueError:
            y = y * 2
            raise_again()
    except ValueError as error:
        y = y + 1
        return y, error, handled()


@program(three, hand_overs=0)
def again_with_nothing(x):
    try:
        raise
    except RuntimeError as error:
        return x + 1, error


@program(*three_and(0, 1, 2, 3), hand_overs=0)
def bare_raise(x, how):
    try:
        try:
            x = x + 1
            if how:
                fail(ValueError, how)
        except ValueError:
            x = x * 2
            if how == 1:
                raise
            if how == 2:
                raise KeyError(how) from None
            x = x + handled()[1][0]
        else:
            x = x + 10
        finally:
            x = x - 1
    except (ValueError, KeyError) as error:
        return x, error, handled()
    return x, handled()


@program(*three_and(0, 1), hand_overs=0)
def not_caught(x, how):
    try:
        x = x + 1
        if how == 0:
            fail(ValueError, "a")
        fail(OSError, 2, "b")
    except KeyError:
        return x
    finally:
        x = x + 1
        handled()


@program(*three_and("body", "exit", "none"), hand_overs=0)
def managers(x, where):
    log = []

    class Manager:
        def __init__(self, suppress):
            self.suppress = suppress

        def __enter__(self):
            return self

        def __exit__(self, kind, value, traceback):
            log.append((kind, repr(value), traceback is None, handled()))
            if where == "exit":
                fail(IndexError, "exit")
            return self.suppress

    try:
        with Manager(False), Manager(False):
            x = x + 1
            if where != "none":
                fail(ValueError, "body")
        with Manager(True):
            x = x * 2
            fail(ValueError, "kept in")
    except (ValueError, IndexError) as error:
        return x, log, error
    return x, log


@program(three, hand_overs=0)
def library_managers(x):
    log = []
    with contextlib.suppress(KeyError):
        x = x + 1
        fail(KeyError, 1)
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "called")
        stack.enter_context(contextlib.suppress(ValueError))
        x = x + 1
        fail(ValueError, 2)
    return x, log, handled()


@program(three, hand_overs=0)
def loop_of_handlers(x):
    log = []
    for i in range(30):
        try:
            x = x + i
            if i % 7 == 3:
                continue
            if i == 25:
                break
            fail((ValueError, KeyError, ZeroDivisionError)[i % 3], i)
        except ValueError:
            x = x * 0.5
        except (KeyError, OSError) as error:
            log.append(error.args)
            continue
        except Exception as error:
            log.append(repr(error))
        finally:
            log.append(i)
    return x, log, handled()


def yields(x, log):
    try:
        yield x + 1
        log.append(handled())
        yield x + 2
    except ValueError as error:
        log.append(repr(error))
        yield x + 3
    finally:
        log.append("closed")


@program(three, hand_overs=0)
def generators_around(x):
    log = []
    items = yields(x, log)
    try:
        a = next(items)
        fail(KeyError, "outer")
    except KeyError:
        b = next(items)
        c = items.throw(ValueError("thrown"))
        log.append(handled())
    items.close()
    return a, b, c, log, handled()


@program(*three_and(1, 2), hand_overs=0)
def with_causes(x, how):
    try:
        try:
            fail(KeyError, "k")
        except KeyError as error:
            x = x + 1
            if how == 1:
                raise ValueError("v") from error
            raise ValueError("v") from OSError
    except ValueError as error:
        return x, error


@program(three, hand_overs=0)
def wrong_class(x):
    try:
        try:
            fail(KeyError, 1)
        except (ValueError, int):
            x = x + 1
    except TypeError as error:
        return x + 2, error


def deep(x, n):
    y = x + 1
    try:
        return fail(ValueError, "deep") if n == 0 else deep(y, n - 1)
    except ValueError as error:
        if n == 2:
            raise KeyError(n) from error
        raise
    finally:
        graph_break()


@program(*three_and(0, 1, 3), hand_overs=0)
def through_frames(x, n):
    try:
        return deep(x, n)
    except (ValueError, KeyError) as error:
        return error, handled()


@program(three)
def groups(x):
    log = []
    try:
        fail(ExceptionGroup, "g", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        log.append(repr(group))
    except* KeyError as group:
        log.append(repr(group))
    return x + 1, log, handled()


@program(three)
def traced_from_a_handler(x):
    lines = []

    def tracer(frame, event, argument):
        lines.append((frame.f_code.co_name, frame.f_lineno, event))
        return tracer

    try:
        fail(ValueError, 1)
    except ValueError:
        sys.settrace(tracer)
        sys._getframe().f_trace = tracer
        x = x + 1
        try:
            fail(KeyError, 2)
        except KeyError:
            x = x + 2
    sys.settrace(None)
    return x, lines, handled()


@program(three)
def signals(x):
    try:
        signal.raise_signal(signal.SIGINT)
        x = x * 100
    except KeyboardInterrupt:
        x = x + 1
    return x, handled()


def endless(x):
    try:
        return endless(x + 1)
    except KeyError:
        return None


@program(three)
def recursion(x):
    try:
        endless(x)
    except RecursionError as error:
        return x + 1, str(error), handled()[0]


@program(three, hand_overs=0)
def name_is_gone(x):
    try:
        fail(ValueError, 1)
    except ValueError as error:
        x = x + error.args[0]
    try:
        return error
    except UnboundLocalError as other:
        return x, other


# ---- Exceptions of the trace, and what of them must become real ---------------------------------------------------------


class Custom(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


PLACES = ["", "body", "handler", "finally", "after", "deep", "deep handler"]


def here(where, place, log):
    if where == place:
        log.append((place, handled()))


def deep_raise(x, n, where, log):
    y = x * 2
    try:
        if n == 0:
            here(where, "deep", log)
            raise Custom(n)
        return deep_raise(y, n - 1, where, log)
    except KeyError:
        return y
    finally:
        here(where, "deep handler", log)


@program(*three_and(*[(place, n) for place in PLACES for n in (0, 2)]), hand_overs=0)
def breaks_in_handlers(x, how):
    where, n = how
    log = []
    try:
        x = x + 1
        here(where, "body", log)
        x = x + deep_raise(x, n, where, log)
    except Custom as error:
        here(where, "handler", log)
        x = x * 2
        if where:
            log.append(error)
        code = error.code
    finally:
        here(where, "finally", log)
        x = x + 1
    here(where, "after", log)
    return x, code, log, handled()


@program(*three_and(*range(9)), hand_overs=0)
def kept(x, how):
    log = []
    try:
        raise ValueError("v", how)
    except ValueError as error:
        x = x + 1
        if how == 0:
            return x, error
        if how == 1:
            log.append(error)
        if how == 2:
            graph_break()
            log.append(repr(error))
        if how == 3:
            log.append(str(error.__traceback__.tb_lineno - error.__traceback__.tb_frame.f_code.co_firstlineno))
        if how == 4:
            error.more = [x, error]
            log.append(handled())
        if how == 5:
            effects[:] = [error]
        if how == 6:
            raise KeyError(how)
        if how == 7:
            raise error
        if how == 8:
            raise
    return x, log


effects = []


@program(*three_and(0, 1, 2), hand_overs=0)
def raised_twice(x, how):
    log = []
    error = ValueError(1)
    for turn in range(3):
        try:
            x = x + 1
            raise error
        except ValueError as caught:
            log.append(caught is error)
            if how == 1:
                graph_break()
    if how == 2:
        raise error
    return x, log, error


@program(*three_and(0, 1, 2, 3), hand_overs=0)
def chained(x, how):
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            try:
                x = x + 1
                raise ValueError("second") from (first if how == 1 else None)
            except ValueError as second:
                if how == 2:
                    graph_break()
                if how == 3:
                    second.__cause__ = first
                raise TypeError("third") from OSError("fourth")
    except TypeError as error:
        graph_break()
        return x, error


@program(*three_and(0, 1, 2), hand_overs=0)
def virtual_in_real(x, how):
    try:
        fail(KeyError, "real")
    except KeyError:
        x = x + 1
        try:
            raise ValueError("made")
        except ValueError as error:
            if how == 1:
                graph_break()
            kept = error
        log = [handled()]
        if how == 2:
            raise kept
    return x, kept, log, handled()


class Manager:
    def __init__(self, log, suppress, breaks):
        self.log, self.suppress, self.breaks = log, suppress, breaks

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append((kind, str(value), traceback is None))
        if self.breaks:
            self.log.append(handled())
            self.log.append(traceback is not None and traceback.tb_lineno - traceback.tb_frame.f_code.co_firstlineno)
        return self.suppress


@program(*three_and(*[(s, b) for s in (False, True) for b in (False, True)]), hand_overs=0)
def managers_of_the_trace(x, how):
    log = []
    try:
        with Manager(log, how[0], how[1]) as outer, Manager(log, False, False):
            x = x + 1
            raise Custom(outer.suppress)
    except Custom as error:
        x = x * 2
        log.append(error.code)
    return x, log, handled()


@program(*three_and(0, 1, 2, 3, 4), hand_overs=0)
def errors_in_handlers(x, how):
    try:
        try:
            raise ValueError(how)
        except ValueError:
            x = x + 1
            if how == 0:
                x = x // kt.zeros(3, dtype=kt.int64)
            if how == 1:
                x = kt.tensor([1, 2, 3]) // kt.tensor([1, 0, 1])
            if how == 2:
                x = [1, 2][how]
            if how == 3:
                x = x @ kt.ones(5)
            if how == 4:
                x = undefined_name  # noqa: F821
    except (ZeroDivisionError, ValueError, RuntimeError, IndexError, NameError) as error:
        return error, handled()
    return x


@program(*three_and(0, 1, 3), hand_overs=0)
def callbacks(x, limit):
    def check(n):
        if n > limit:
            raise KeyError(n)
        return -n

    try:
        order = sorted([2, 1, 3], key=check)
    except KeyError as error:
        return x + 1, error.args, repr(error)
    return x, order


@program(*three_and(*range(6)), hand_overs=None)
def texts(x, how):
    errors = [ValueError(), KeyError("k"), KeyError(1, 2), Custom(3), OSError(2, "no"), ValueError("a", (1, 2.5))]
    error = errors[how]
    try:
        raise error
    except Exception as caught:
        return x + 1, str(caught), repr(caught), f"{caught} {caught!r}", caught.args


def numbers(n):
    for i in range(n):
        try:
            yield i
        except ValueError as error:
            yield repr(error)


@program(three)
def with_generators(x):
    log = []
    items = numbers(5)
    for item in items:
        try:
            if item == 1:
                raise ValueError(item)
            x = x + item
        except ValueError as error:
            log.append(items.throw(error))
            log.append(handled())
    return x, log


@program(*three_and([1, 2], [1], [1, 2, 3], {}, 5), hand_overs=0)
def of_builtins(x, values):
    log = []
    for action in (lambda: values[1], lambda: values["k"], lambda: values.pop(7), lambda: 1 // (len(values) - 1),
                   lambda: 1.5 % (len(values) - 1), lambda: values.nothing, lambda: int(str(values))):
        try:
            a, b = values
            log.append(action())
        except Exception as error:
            log.append((repr(error), getattr(error, "name", None)))
        try:
            log.append(action())
        except Exception as error:
            log.append(error)
    return x + 1, log


# ---- The tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, makes, expected", program, ids=program.names())
def test_same_as_plain(function, makes, expected):
    compare(function, *makes, **{name: value for name, value in expected.items() if value is not None})


@pytest.mark.parametrize("function, makes, expected", program[::3], ids=program.names()[::3])
def test_nothing_is_left(function, makes, expected, stress):
    if stress:
        pytest.skip("takes long, and the switches change nothing that is kept")
    blocks, buffers, layouts = what_is_left(function, *makes)
    assert blocks < 0.8 and buffers == layouts == 0


def test_native_after_the_handler(stress):
    if stress:
        pytest.skip("counts what was compiled")

    def f(x):
        try:
            fail(ValueError)
        except ValueError:
            x = x + 1
        y = x * 2
        y = y - x
        return y.sum()

    compiled = kt.compile(f)
    for _ in range(3):
        before = dict(native)
        assert compiled(kt.ones(3)).item() == f(kt.ones(3)).item()
    assert native["hand_overs"] == before["hand_overs"]
    assert native["kernels"] > before["kernels"]
    assert native["segments"] == before["segments"]


def test_exceptions_die_with_their_handlers():
    class Error(Exception):
        pass

    seen = []

    def kept(error):
        seen.append(weakref.ref(error))
        return error

    @kt.compiler.disable
    def fail_and_tell():
        raise kept(Error())

    def f(x):
        for _ in range(3):
            try:
                x = x + 1
                fail_and_tell()
            except Error:
                x = x * 2
        return x, [ref() is None for ref in seen]

    compiled = kt.compile(f)
    for _ in range(3):
        seen.clear()
        assert compiled(kt.ones(2))[1] == [True, True, True]


def test_loops_that_are_interrupted_use_no_stack():
    def f(x, n):
        for i in range(n):
            try:
                fail(ValueError)
            except ValueError:
                pass
        return x + i

    assert kt.compile(f)(kt.ones(2), 100_000).tolist() == [100_000.0] * 2


def test_an_exception_that_is_its_own_context():
    def f(x):
        try:
            raise ValueError(1)
        except ValueError as error:
            error.__context__ = error
            raise TypeError(2)

    compiled = kt.compile(f)
    for function in (f, compiled, compiled):
        with pytest.raises(TypeError) as caught:
            function(kt.ones(2))
        context = caught.value.__context__
        assert type(context) is ValueError and context.__context__ is context


def test_a_handler_of_a_signal_runs_after_tracing():
    """One raises: not lost. It comes between two calls in C, where nobody looks for signals before tracing does."""
    class Stop(Exception):
        pass

    def handler(number, frame):
        seen.append(limits["n"])
        limits["n"] = 5
        raise Stop

    def program(x):
        class Made:
            n = 7
            text = "text"
        return x * limits["n"], Made.n, [3.5, 123]

    seen, limits = [], {"n": 2}
    fast = kt.compile(program)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Stop):
            list(itertools.starmap(operator.call, [(send, signal.SIGALRM), (fast, kt.ones(2))]))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [2] and fast(kt.ones(2))[0].tolist() == [5.0, 5.0]


class Alarm(Exception):
    pass


send = getattr(ctypes.CDLL(None), "raise")  # and looks for no handler itself, as os.kill does


@contextlib.contextmanager
def alarm():
    def handler(number, frame):
        raise Alarm
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def number_as_text(x):
    return x * 2, str(7.5)


def pattern(x):
    return x * 2, re.compile("a+b{2}").pattern


def named_tuple(x):
    Pair = collections.namedtuple("Pair", "a b")
    return x * Pair(1, 2).b


def typed_tuple(x):
    class Pair(typing.NamedTuple):
        a: int
        b: int = 2
    return x * Pair(1).b


def abstract_class(x):
    return x * 2, isinstance(Alarm(), collections.abc.Sized)


@pytest.mark.parametrize("program", [number_as_text, pattern, named_tuple, typed_tuple, abstract_class],
                         ids=lambda each: each.__name__)
def test_what_a_handler_of_a_signal_raises_amid_tracing_is_not_lost(program):
    kt._dynamo.reset()
    re.purge()
    fast = kt.compile(program)
    with alarm(), pytest.raises(Alarm):
        list(itertools.starmap(operator.call, [(send, signal.SIGALRM), (fast, kt.ones(2))]))
    for _ in range(2):
        assert repr(fast(kt.ones(2))) == repr(program(kt.ones(2)))


def test_a_pattern_that_takes_long_is_interrupted():
    kt._dynamo.reset()
    long = re.compile("(a*)*b")
    fast = kt.compile(lambda x, text: (x * 2, long.search(text)))
    for size in range(3, 6):
        fast(kt.ones(2), "a" * size)
    with alarm(), pytest.raises(Alarm):
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        fast(kt.ones(2), "a" * 40)
