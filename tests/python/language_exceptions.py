"""Exceptions that are raised, caught and looked at in the trace."""
import kintsugi as kt
from language_programs import effects, followed, x3


class Custom(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

    def __str__(self):
        return f"{self.code}: {self.args[0]}"


class Plain(ValueError):
    kind = "plain"


@followed(lambda: (x3(),))
def raise_and_except(x):
    try:
        raise ValueError("wrong", 3)
    except ValueError as error:
        x = x * error.args[1]
        text = str(error), repr(error), f"{error}", error.args[0]
    return x + 1, text


@followed(lambda: (x3(),))
def raise_a_class(x):
    try:
        raise ValueError
    except ValueError:
        x = x * 2
    return x


@followed(lambda: (x3(),))
def except_by_class(x):
    log = []
    for kind in (KeyError, IndexError, ZeroDivisionError, Plain):
        try:
            raise kind("k")
        except LookupError as error:
            log.append(str(error))
        except (TypeError, ArithmeticError) as error:
            log.append(repr(error))
        except Exception as error:
            log.append(error.kind)
    return x * len(log), log


@followed(lambda: (x3(),))
def bare_except(x):
    try:
        raise KeyError("a")
    except:  # noqa: E722
        x = x + 1
    return x


@followed(lambda: (x3(),))
def else_and_finally(x):
    log = []
    for fails in (False, True):
        try:
            log.append("try")
            if fails:
                raise ValueError
        except ValueError:
            log.append("except")
        else:
            log.append("else")
        finally:
            log.append("finally")
            x = x + 1
    return x, log


def finish(x, fails):
    try:
        if fails:
            raise ValueError("f")
        return x + 1
    finally:
        effects["finished"] = fails


@followed(lambda: (x3(),))
def finally_in_a_callee(x):
    y = finish(x, False)
    try:
        y = finish(y, True)
    except ValueError as error:
        y = y * len(error.args)
    return y


@followed(lambda: (x3(),))
def raise_again(x):
    try:
        try:
            raise ValueError(1)
        except ValueError as error:
            x = x + error.args[0]
            raise
    except ValueError as error:
        x = x * (error.args[0] + 1)
    return x


@followed(lambda: (x3(),))
def raise_from(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        cause, context = error.__cause__, error.__context__
        log = [repr(cause), cause is context, error.__suppress_context__, str(cause)]
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None
    except ValueError as error:
        log += [error.__cause__ is None, repr(error.__context__), error.__suppress_context__]
    return x + len(log), log


def checked(x, n):
    if n > 2:
        raise Custom(n, "too many")
    return x * n


def checked_twice(x, n):
    try:
        return checked(x, n) + checked(x, n + 1)
    except KeyError:
        return x


@followed(lambda: (x3(),))
def through_inlined_frames(x):
    total = x
    for n in range(4):
        try:
            total = total + checked_twice(x, n)
        except Custom as error:
            total = total - error.code
            text = str(error)
    return total, text


@followed(lambda: (x3(),))
def asserts(x):
    try:
        assert x.ndim == 1, "one"
        assert x.shape[0] == 4, f"four, not {x.shape[0]}"
    except AssertionError as error:
        return x * 2, str(error)


class Bare:
    pass


def unpacked(items):
    a, b = items
    return a + b


def missing(x):
    if x.ndim == 2:
        y = x
    return y


def caught(action):
    try:
        return action()
    except (LookupError, ArithmeticError, ValueError, NameError, AttributeError, StopIteration) as error:
        return repr(error)


@followed(lambda: (x3(), [1, 2, 3], {"a": 1}))
def of_builtins(x, items, names):
    log = [caught(lambda: items[7]), caught(lambda: names["b"]), caught(lambda: 1 // 0), caught(lambda: int("x")),
           caught(lambda: next(iter(()))), caught(lambda: (1, 2)[5]), caught(lambda: "abc"[9]),
           caught(lambda: 1.5 / 0), caught(lambda: names.pop("c")), caught(lambda: [].pop()), caught(lambda: max(())),
           caught(lambda: unpacked(items)), caught(lambda: missing(x)), caught(lambda: Bare().nothing)]
    return x + len(log), log


class Manager:
    def __init__(self, suppress):
        self.suppress = suppress

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        effects[kind] = str(value), traceback is None
        return self.suppress


@followed(lambda: (x3(),))
def with_that_raises(x):
    with Manager(True):
        x = x + 1
        raise ValueError("kept in")
    try:
        with Manager(True), Manager(False):
            raise KeyError("k")
        with Manager(False):
            raise IndexError("let out")
    except IndexError as error:
        x = x * 2
        text = str(error)
    return x, text


@followed(lambda: (x3(),))
def nested_handlers(x):
    try:
        raise ValueError(1)
    except ValueError as first:
        try:
            raise KeyError(2)
        except KeyError as second:
            same = second.__context__ is first
            x = x + 1
        x = x * first.args[0]
    return x, same


@followed(lambda: (x3(),))
def own_fields(x):
    error = AttributeError("text", name="n", obj=3)
    stop = StopIteration(5)
    custom = Custom(7, "seven")
    custom.extra = [1, 2]
    try:
        raise custom
    except Custom as caught:
        x = x * caught.code
        extra = caught.extra
    return x, error.name, error.obj, stop.value, StopIteration().value, isinstance(custom, Exception), extra


@followed(lambda: (x3(),))
def never_raised(x):
    errors = [ValueError("a"), Plain(1, 2)]
    names = {type(error).__name__: error.args for error in errors}
    return x + 1, names


@followed(lambda: (x3(),))
def loop_control_in_handlers(x):
    for i in range(6):
        try:
            if i % 2:
                raise ValueError(i)
        except ValueError as error:
            if error.args[0] == 3:
                break
            continue
        x = x + i
    return x


def error_names(error):
    return [type(error).__name__] + (error_names(error.__cause__) if error.__cause__ else [])


@followed(lambda: (x3(),))
def chained_causes(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("b") from error
    except ValueError as error:
        names = error_names(error)
    return x * 2, names
