"""Generators that end, raise, are thrown into and closed; context managers made of them; exceptions passed through both."""
import contextlib
import sys
import types

from language_programs import effects, followed, x3


def counted(n, x):
    for i in range(n):
        yield x * i
    return x + n


def guarded(x, log):
    try:
        got = yield x
        log.append(got)
        yield x + 1
    except ValueError as error:
        log.append(repr(error))
        got = yield x * 2
        log.append(got)
    finally:
        log.append("end")
    return "done"


@followed(lambda: (x3(),))
def stop_iteration_caught(x):
    steps = counted(1, x)
    first = next(steps)
    try:
        next(steps)
    except StopIteration as stop:
        x = x + stop.value
        args = stop.args[0] is stop.value
    try:
        next(steps)
    except StopIteration as stop:
        last = stop.value
    try:
        steps.send(None)
    except StopIteration as stop:
        return x, first, args, last, stop.args


@followed(lambda: (x3(),))
def stop_iteration_from_send(x):
    def echo():
        got = yield 1
        return got
    steps = echo()
    next(steps)
    try:
        steps.send(x * 2)
    except StopIteration as stop:
        return stop.value + 1


@followed(lambda: (x3(),))
def stop_iteration_becomes_runtime_error(x):
    def wrong():
        yield x
        raise StopIteration(5)

    def wrong_too():
        yield next(iter(()))
    steps = wrong()
    log = [next(steps) is x]
    try:
        next(steps)
    except RuntimeError as error:
        cause = error.__cause__
        log += [str(error), repr(cause), error.__context__ is cause, error.__suppress_context__, cause.value]
    try:
        for _ in wrong_too():
            pass
    except RuntimeError as error:
        log += [str(error), repr(error.__cause__)]
    return x * 2, log, next(steps, "over")


def reader(items):
    it = iter(items)

    def read():
        return next(it)
    return read


class UpTo:
    def __init__(self, n, x):
        self.n, self.x, self.i = n, x, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.x * self.i


@followed(lambda: (x3(),))
def stop_iteration_ends_builtins(x):
    log = [sum(UpTo(3, x)), list(UpTo(2, x)), tuple(zip(UpTo(2, x), UpTo(3, x))), max(UpTo(3, 2)), [*UpTo(1, x)]]
    read = reader([1, 2])
    log.append(list(map(lambda _: read(), range(5))))
    a, b = UpTo(2, x)
    return log, a, b, any(UpTo(2, 0)), dict(enumerate(UpTo(2, 3)))


@followed(lambda: (x3(),))
def error_out_of_an_iteration(x):
    def failing():
        yield x
        raise KeyError("inside")
    log = []
    for walk in (list, tuple, sum, max):
        try:
            walk(failing())
        except KeyError as error:
            log.append(repr(error))
        except TypeError:
            log.append("type")
    try:
        for y in failing():
            x = x + y
    except KeyError as error:
        log.append(error.args[0])
    try:
        a, b = failing()
    except KeyError:
        x = x * 2
    try:
        list(map(lambda i: 1 // i, (2, 1, 0)))
    except ZeroDivisionError as error:
        log.append(str(error))
    return x, log


@followed(lambda: (x3(),))
def handlers_in_generators(x):
    log = []

    def careful():
        for i in range(3):
            try:
                if i == 1:
                    raise ValueError(i)
                yield x * i
            except ValueError as error:
                log.append((repr(error), repr(sys.exc_info()[1])))
                yield x + 10
                log.append(repr(sys.exc_info()[1]))
            finally:
                log.append(("finally", i))
    total = x
    for y in careful():
        total = total + y
        log.append(sys.exc_info() == (None, None, None))
    return total, log


@followed(lambda: (x3(),))
def generators_in_handlers(x):
    log = []

    def inner():
        log.append(repr(sys.exc_info()[1]))
        try:
            raise KeyError("k")
        except KeyError as error:
            log.append(repr(error.__context__))
            yield x
            log.append(repr(sys.exc_info()[1]))
        log.append(repr(sys.exc_info()[1]))
        yield x + 1
    try:
        raise ValueError("outer")
    except ValueError:
        for y in inner():
            log.append(repr(sys.exc_info()[1]))
            x = x + y
    return x, log


@followed(lambda: (x3(), []))
def throw_and_go_on(x, log):
    steps = guarded(x, log)
    a = next(steps)
    b = steps.throw(ValueError("thrown"))
    try:
        steps.send(7)
    except StopIteration as stop:
        return a, b, stop.value


@contextlib.contextmanager
def opened(name, log, suppressed=()):
    log.append(("open", name))
    try:
        yield name * 2
    except suppressed as error:
        log.append(("caught", name, repr(error)))
    finally:
        log.append(("close", name))


@contextlib.contextmanager
def added(x):
    yield x + 1


@contextlib.contextmanager
def renaming():
    try:
        yield
    except LookupError as error:
        raise ValueError("renamed") from error


@followed(lambda: (x3(),))
def manager_of_a_generator(x):
    with added(x) as y:
        x = x * y
    return x


@followed(lambda: (x3(), []))
def manager_effects(x, log):
    with opened("a", log) as name, opened("b", log):
        log.append(("body", name))
        x = x + 1
    for _ in range(2):
        with opened("loop", log):
            x = x * 2
    return x


@followed(lambda: (x3(), []))
def manager_suppresses(x, log):
    with opened("a", log), opened("b", log, ValueError):
        x = x + 1
        raise ValueError("inside")
    try:
        with opened("c", log, ValueError), opened("d", log):
            x = x * 2
            raise KeyError("out")
    except KeyError as error:
        log.append((repr(error), error.__context__))
    return x


@followed(lambda: (x3(),))
def manager_renames(x):
    try:
        with renaming():
            x = x * 2
            raise KeyError("k")
    except ValueError as error:
        text = str(error), repr(error.__cause__), error.__context__ is error.__cause__
    return x, text


@followed(lambda: (x3(), []))
def manager_left_early(x, log):
    def early(i):
        for j in range(3):
            with opened(j, log):
                if j == i:
                    continue
                if j > i:
                    return x + j
        return x
    return early(0), early(1), early(2)


@followed(lambda: (x3(),))
def suppress_and_null(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        {}["missing"]
    with contextlib.suppress():
        x = x * 2
    with contextlib.nullcontext(x) as y, contextlib.nullcontext():
        x = x + y
    try:
        with contextlib.suppress(KeyError):
            [][2]
    except IndexError as error:
        return x, str(error)


class Thing:
    def __init__(self, x):
        self.x, self.closed = x, 0

    def close(self):
        self.closed += 1


@followed(lambda: (x3(), Thing(2)))
def closing_things(x, thing):
    with contextlib.closing(thing) as same:
        x = x * same.x
    with contextlib.closing(counted(3, x)) as steps:
        x = x + next(steps)
    made = Thing(x)
    with contextlib.closing(made):
        pass
    return x, made.closed, next(steps, "closed")


@followed(lambda: (x3(), []))
def manager_as_decorator(x, log):
    @opened("decorated", log)
    def work(y):
        log.append("work")
        return y * 2
    return work(x), work(x + 1)


@followed(lambda: (x3(),))
def traceback_looked_at(x):
    lines = []
    try:
        try:
            raise KeyError("k")
        except KeyError as error:
            first = error.__traceback__
            raise
    except KeyError as error:
        lines += [error.__traceback__ is first, first.tb_next, first.tb_lineno]
        again = error.with_traceback(None)
        lines += [again is error, again.__traceback__, sys.exc_info()[0] is KeyError, sys.exc_info()[1] is error]
    return x + 1, lines


@followed(lambda: (x3(),))
def effects_between(x):
    def noisy():
        try:
            effects["in"] = 1
            yield x
        except ValueError as error:
            effects["caught"] = str(error)
            yield x + 1
        finally:
            effects["out"] = 2
    with contextlib.closing(noisy()) as steps:
        a = next(steps)
        b = steps.throw(ValueError("v"))
    return a + b


@followed(lambda: (x3(),))
def methods_made(x):
    method = types.MethodType(lambda self, y: self * y, x)

    def inner():
        return method(3)
    inner.__wrapped__ = method
    return method(2), inner.__wrapped__ is method, method.__self__ is x, inner()


class Leaves:
    def __init__(self, suppress):
        self.suppress = suppress

    def __enter__(self):
        return self

    def __exit__(self, kind, value, where):
        effects[kind] = repr(value), where is sys.exc_info()[2]
        return self.suppress and kind is not None


@followed(lambda: (x3(),))
def manager_of_a_class_and_a_generator(x):
    log = []
    with Leaves(True), opened("in", log), Leaves(False):
        x = x + 1
        raise ValueError("v")
    return x, log
