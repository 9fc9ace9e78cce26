"""Handlers, `with` and `finally` against plain runs: whole tracebacks, what is handled where, what chains to what, and that
a function goes on natively after its handlers."""
import contextlib
import signal
import sys
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


# ---- The tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, makes, expected", program, ids=program.names())
def test_same_as_plain(function, makes, expected):
    compare(function, *makes, **expected)


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
