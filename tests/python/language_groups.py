"""Exception groups and except*."""
import kintsugi as kt
from language_programs import effects, followed, x3


class Named(ExceptionGroup):
    def derive(self, exceptions):
        return Named(self.message + "'", exceptions)


@followed(lambda: (x3(),))
def group_split_by_class(x):
    log = []
    try:
        raise ExceptionGroup("all", [ValueError(1), TypeError(2), ExceptionGroup("in", [KeyError("k"), ValueError(3)])])
    except* ValueError as group:
        log.append((str(group), [str(e) for e in group.exceptions[:1]], len(group.exceptions), group.exceptions[1].message))
        x = x * 2
    except* (TypeError, KeyError) as group:
        log.append((group.message, len(group.exceptions), type(group.exceptions[1]).__name__))
    return x, log


@followed(lambda: (x3(),))
def naked_exception_in_except_star(x):
    try:
        raise ValueError("naked")
    except* TypeError:
        x = x + 100
    except* ValueError as group:
        x = x * len(group.exceptions)
        text = str(group), str(group.exceptions[0]), group.args[1][0] is group.exceptions[0], group.__traceback__ is None
    return x, text


@followed(lambda: (x3(),))
def what_is_left_goes_on(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            x = x + 1
    except ExceptionGroup as rest:
        return x, str(rest), type(rest.exceptions[0]).__name__, rest.__suppress_context__, rest.__traceback__ is not None


@followed(lambda: (x3(),))
def nothing_matches(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* OSError:
            x = x + 1
        finally:
            x = x * 2
    except* Exception as all:
        return_value = len(all.exceptions), all.message
    return x, return_value


@followed(lambda: (x3(),))
def raise_in_except_star(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
        except* ValueError as group:
            raise RuntimeError("new")
        except* KeyError:
            raise
    except ExceptionGroup as outer:
        inner = outer.exceptions
        return (x * len(inner), outer.message, type(inner[0]).__name__, str(inner[0].__context__),
                inner[1].message, [type(e).__name__ for e in inner[1].exceptions])


@followed(lambda: (x3(),))
def raise_from_in_except_star(x):
    try:
        try:
            raise ValueError(1)
        except* ValueError as group:
            raise TypeError(2) from group
    except TypeError as error:
        return x + 1, str(error.__cause__), error.__suppress_context__
    except BaseException as other:
        return x, type(other).__name__


@followed(lambda: (x3(),))
def derive_of_a_class(x):
    try:
        try:
            raise Named("n", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            x = x * 2
            name = group.message, type(group).__name__
    except Named as rest:
        return x, rest.message, name
    return x


@followed(lambda: (x3(),))
def split_and_subgroup(x):
    group = BaseExceptionGroup("b", [ValueError(1), KeyError(2), ExceptionGroup("c", [ValueError(3)])])
    match, rest = group.split(ValueError)
    some = group.subgroup(lambda e: isinstance(e, KeyError))
    none = group.subgroup(OSError)
    again, empty = group.split((ValueError, KeyError))
    return (x * len(match.exceptions), str(match), str(rest), type(group).__name__, str(some), none, again.message,
            empty, group.derive([KeyError("d")]).message, group.split(ExceptionGroup)[1])


@followed(lambda: (x3(),))
def group_of_base_exceptions(x):
    group = BaseExceptionGroup("b", [KeyboardInterrupt(), ValueError(1)])
    try:
        ExceptionGroup("e", [KeyboardInterrupt()])
    except TypeError as error:
        text = str(error)
    try:
        ExceptionGroup("e", [])
    except ValueError as error:
        other = str(error)
    return x + 1, type(group).__name__, type(group.split(ValueError)[0]).__name__, text, other


@followed(lambda: (x3(),))
def except_star_in_a_loop(x):
    seen = []
    for kinds in ([ValueError], [ValueError, KeyError], []):
        try:
            if kinds:
                raise ExceptionGroup("g", [k() for k in kinds])
        except* KeyError:
            seen.append("k")
        except* ValueError:
            seen.append("v")
        else:
            seen.append("none")
    return x * len(seen), seen


def thrower(x, deep):
    if deep:
        thrower(x, deep - 1)
    raise ExceptionGroup(f"level {deep}", [ValueError(deep)])


@followed(lambda: (x3(),))
def group_through_frames(x):
    try:
        thrower(x, 2)
    except* ValueError as group:
        x = x - 1
        text = str(group), [str(e) for e in group.exceptions]
    return x, text


@followed(lambda: (x3(),))
def group_that_leaves(x):
    try:
        raise ExceptionGroup("kept", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        effects["group"] = [str(e) for e in group.exceptions]
        kept = ExceptionGroup("made", [KeyError("a")])
    except* TypeError:
        pass
    return x + 1, kept, kept.exceptions


@followed(lambda: (x3(),))
def catching_groups_is_an_error(x):
    try:
        try:
            raise ValueError(1)
        except* ExceptionGroup:
            pass
    except TypeError as error:
        return x + 1, str(error)
