"""Exceptions through generators and context managers, plain against compiled: what is seen of them in between (effects in
order, sys.exc_info(), tracebacks with their lines), of generators that leave the function while they wait inside a handler,
and that nothing is left. What is followed without a break is in language_managers.py."""
import contextlib
import inspect
import sys
import types

import pytest

import kintsugi as kt
from comparing import compare, observe, what_is_left
from language_managers import guarded, opened
from language_programs import x3

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]
PROGRAMS = {}


def program(*cases):
    """A program that takes a tensor, one of the cases, and a list that it may write to."""
    def keep(function):
        PROGRAMS[function.__name__] = (function, [lambda case=case: (x3(), case, []) for case in cases or (None,)])
        return function
    return keep


def handled():
    kind, value, where = sys.exc_info()
    return kind and kind.__name__, repr(value), where and where.tb_lineno, repr(value.__context__) if value else None


def lines(error):
    entries, where = [], error.__traceback__
    while where is not None:
        entries.append((where.tb_frame.f_code.co_name, where.tb_lineno))
        where = where.tb_next
    return repr(error), entries, lines(error.__context__) if error.__context__ else None, error.__suppress_context__


@program()
def throw_uncaught(x, case, log):
    steps = guarded(x, log)
    next(steps)
    try:
        steps.throw(KeyError, KeyError("other"))
    except KeyError as error:
        x = x + 1
        log.append(repr(error))
    fresh = guarded(x, log)
    for _ in range(2):
        try:
            fresh.throw(ValueError)
        except ValueError as error:
            log.append((repr(error), next(fresh, "over")))
    return x


@program()
def throw_through_yield_from(x, case, log):
    def outer():
        try:
            result = yield from guarded(x, log)
            log.append(("result", result))
        except KeyError as error:
            log.append(("outer", repr(error)))
            yield x + 5
        yield x + 6
    steps, other = outer(), outer()
    a, b, c = next(steps), steps.throw(ValueError("v")), next(steps)
    d, e, f = next(other), other.throw(KeyError("k")), next(other)
    return [a, b, c, d, e, f]


@program("returns", "raises", "other", "yields")
def close_runs_finally(x, kind, log):
    def ending():
        try:
            yield x
        except GeneratorExit as error:
            log.append((kind, repr(error), error.__context__ is None))
            if kind == "raises":
                raise
            if kind == "other":
                raise ValueError("other")
            if kind == "yields":
                yield x * 3
        finally:
            log.append(("finally", kind))
    steps = ending()
    next(steps)
    try:
        log.append(steps.close())
    except (ValueError, RuntimeError) as error:
        log.append(lines(error))
    log.append(next(steps, "over"))
    return x * 2


@program("enter", "exit", "no yield", "twice", "none")
def raises_in_enter_and_exit(x, where, log):
    @contextlib.contextmanager
    def bad():
        if where == "enter":
            raise ValueError("enter")
        if where == "no yield":
            return
        yield
        if where == "exit":
            raise ValueError("exit")
        if where == "twice":
            yield
    try:
        with opened("outer", log), bad():
            log.append("body")
    except (ValueError, RuntimeError) as error:
        log.append(lines(error))
        x = x + 1
    return x


PLACES = ["before", "yielded", "caught", "finally", "after", "body", "never"]


@program(*PLACES)
def looked_at_everywhere(x, place, log):
    def look(here):
        if here == place:
            log.append((here, handled(), sys._getframe(1).f_lineno))

    @contextlib.contextmanager
    def looking(y):
        look("before")
        try:
            yield y + 1
            look("yielded")
        except ValueError as error:
            look("caught")
            log.append(repr(error))
        finally:
            look("finally")
        look("after")
    for fails in (False, True):
        with looking(x) as z:
            look("body")
            x = x + z
            if fails:
                raise ValueError("in the body")
    log.append(handled())
    return x


@program("next", "throw", "close", "drop")
def left_inside_a_handler(x, how, log):
    def waits():
        try:
            raise KeyError("held")
        except KeyError as error:
            log.append(handled())
            got = yield x * 2
            log.append((handled(), lines(error), got))
            try:
                yield x * 3
            except ValueError as other:
                log.append((handled(), lines(other)))
            finally:
                log.append("inner")
        finally:
            log.append("outer")
    steps = waits()
    next(steps)
    return steps


@program(True, False)
def left_inside_with(x, suppress, log):
    def waits():
        with opened("held", log, ValueError if suppress else ()), contextlib.suppress(IndexError):
            yield x * 2
            log.append(handled())
        log.append("after")
        yield x * 3
    steps = waits()
    next(steps)
    return steps


@program(*range(4))
def errors_out_of_iterations(x, case, log):
    def failing():
        yield 1
        raise KeyError(case)

    def stopping():
        yield 1
        next(iter(()))
    try:
        if case == 0:
            x = x + sum(failing())
        elif case == 1:
            x = x + sum(stopping())
        elif case == 2:
            log.extend(failing())
        else:
            log += [*zip(range(5), failing())]
    except (KeyError, RuntimeError) as error:
        log.append(lines(error))
    return x


@program("suppress", "null", "closing", "stack")
def standard_managers(x, which, log):
    class Closes:
        def close(self):
            log.append(("closed", handled()))
    manager = {"suppress": contextlib.suppress(KeyError), "null": contextlib.nullcontext(3),
               "closing": contextlib.closing(Closes()), "stack": contextlib.ExitStack()}[which]
    try:
        with manager as entered:
            log.append(type(entered).__name__)
            if which == "stack":
                entered.callback(log.append, 5)
                entered.enter_context(opened("in", log, IndexError))
                entered.push(lambda *details: log.append([repr(detail) for detail in details[:2]]))
            x = x + 1
            raise KeyError("k")
    except KeyError as error:
        log.append(lines(error))
    return x


class Restarts:
    """iter() of it begins anew, as making a list of the rest asks for."""
    def __init__(self, log):
        self.log = log

    def __iter__(self):
        self.log.append("iter")
        self.i = 0
        return self

    def __next__(self):
        self.i += 1
        self.log.append(self.i)
        if self.i > 3:
            raise StopIteration
        return self.i


class Walks(Restarts):
    def __iter__(self):
        return Restarts(self.log).__iter__()


@program(Restarts, Walks)
def unpacked(x, kind, log):
    a, *b = kind(log)
    *c, d = kind(log)
    e, f, g = kind(log)
    h, *i, j, k, m = kind(log) if kind is Restarts else (1, 2, 3, 4)
    try:
        n, o = kind(log)
    except ValueError as error:
        log.append(str(error))
    try:
        n, o, p, q = kind(log)
    except ValueError as error:
        log.append(str(error))
    return x, a, b, c, d, e, f, g, h, i, j, k, m


@program(*[(d, inside) for d in (1, 0) for inside in (False, True)])
def native_errors_in_handlers(x, how, log):
    by, inside = kt.tensor([how[0]] * 3), how[1]

    def divides(y):
        if inside:
            try:
                raise KeyError("k")
            except KeyError:
                yield y // by
        else:
            yield y // by
    try:
        try:
            raise ValueError("outer")
        except ValueError:
            for z in divides(kt.tensor([1, 2, 3])):
                x = x + z
    except ZeroDivisionError as error:
        log.append(lines(error))
    return x


@program()
def methods_that_leave(x, case, log):
    def inner(self, y):
        return self * y
    method = types.MethodType(inner, x)
    inner.__wrapped__ = method
    log.append(inner)
    return method, inner, inner.__wrapped__ is method


@program(*range(6))
def groups(x, case, log):
    def deep(error):
        raise error
    try:
        if case == 0:
            raise ValueError("plain")
        if case == 1:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
        if case == 2:
            deep(ValueError("deep"))
        if case == 3:
            raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2)])])
        if case == 4:
            deep(KeyError("k"))
        x = x * 2
    except* ValueError as group:
        log.append(lines(group))
        x = x + 1
    except* TypeError as group:
        log.append([lines(error) for error in group.exceptions])
        if case == 3:
            raise IndexError("new")
    else:
        log.append("else")
    finally:
        x = x * 3
    return x


@program()
def uncaught(x, case, log):
    with opened("a", log), opened("b", log):
        x = x + 1
        raise LookupError(len(log))


@program()
def uncaught_stop(x, case, log):
    with opened("a", log):
        x = x + 1
        return next(iter(()))


@program("value", "class", "class and value", "nothing", "wrong")
def throw_arguments(x, form, log):
    def waits():
        try:
            yield x
        except Exception as error:
            log.append(lines(error))
            yield x + 1
    steps = waits()
    next(steps)
    try:
        if form == "value":
            return steps.throw(ValueError(1))
        if form == "class":
            return steps.throw(ValueError)
        if form == "class and value":
            return steps.throw(Exception, ValueError(2), None)
        if form == "nothing":
            return steps.throw()
        return steps.throw(3)
    except TypeError as error:
        log.append(str(error))
    return x


@program(*range(3))
def context_of_what_is_thrown(x, depth, log):
    def waits():
        try:
            raise IndexError("own")
        except IndexError:
            try:
                yield x
            except ValueError as error:
                log.append(lines(error))
                raise KeyError("next")
    steps = waits()
    next(steps)
    try:
        if depth == 0:
            steps.throw(ValueError("plain"))
        try:
            raise TypeError("outer")
        except TypeError as outer:
            if depth == 1:
                steps.throw(ValueError("in a handler"))
            steps.throw(ValueError("with context").with_traceback(outer.__traceback__))
    except KeyError as error:
        log.append(lines(error))
    return x * 2


def finish(result, log):
    """A generator that left is used up outside, in the way that its case says."""
    if not inspect.isgenerator(result):
        return result
    seen = [inspect.getgeneratorstate(result), result.gi_frame.f_lineno]
    try:
        seen.append(next(result))
        seen.append(result.throw(ValueError("outside")))
    except (StopIteration, ValueError) as error:
        seen.append(repr(error))
    result.close()
    return seen, log


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_plain(name):
    function, makes = PROGRAMS[name]
    if not name.startswith("left"):
        for make in makes:
            compare(function, make)
        return
    compiled = kt.compile(function)
    for _ in range(3):
        for make in makes:
            want = observe(lambda *given: finish(function(*given), given[-1]), make)
            assert observe(lambda *given: finish(compiled(*given), given[-1]), make) == want


@pytest.mark.parametrize("name", list(PROGRAMS)[::3])
def test_nothing_is_left(name, stress):
    if stress:
        pytest.skip("takes long, and the switches change nothing that is kept")
    blocks, buffers, layouts = what_is_left(PROGRAMS[name][0], *PROGRAMS[name][1])
    assert blocks < 0.8 and buffers == layouts == 0


def test_called_in_a_handler():
    """What the caller handles shows through: segments made with nothing handled do not fit."""
    def f(x):
        info = sys.exc_info()
        try:
            raise KeyError("k")
        except KeyError as error:
            context = error.__context__
        return x + 1, info[0], repr(context)
    compiled = kt.compile(f)
    for _ in range(2):
        assert str(compiled(x3())) == str(f(x3()))
        try:
            raise ValueError("outer")
        except ValueError:
            assert str(compiled(x3())) == str(f(x3()))
