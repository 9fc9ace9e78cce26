"""Followed programs: operations that tensors refuse, with handlers that see the exception."""
import traceback

import kintsugi as kt
from language_programs import effects, followed, x23, x3


def told(error):
    entries = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
    return type(error).__name__, str(error), error.args, entries, error.__context__ is None


@followed(lambda: (x3(), x23()))
def refused_operators(x, y):
    seen = []
    try:
        y = y + kt.ones(4)
    except RuntimeError as error:
        seen.append(str(error))
    try:
        x @ kt.ones(4)
    except ValueError:
        seen.append("never")
    except (KeyError, RuntimeError) as error:
        seen.append(str(error))
    try:
        x < kt.ones(2)
    except Exception as error:
        seen.append(error.args)
    else:
        seen.append("never")
    finally:
        x = x * 2
    return seen, x + 1


@followed(lambda: (x23(),))
def refused_calls(x):
    seen = []
    for make in (lambda: x.reshape(4), lambda: kt.add(x, kt.ones(5)), lambda: x.sum(dim=(0, 0)), lambda: x.permute(0, 0)):
        try:
            make()
        except RuntimeError as error:
            seen.append(str(error))
    return seen, x * 2


@followed(lambda: (x23(),))
def refused_indices(x):
    seen = []
    try:
        x[7]
    except IndexError as error:
        seen.append(str(error))
    try:
        x[0, 1, 2]
    except IndexError as error:
        seen.append(str(error))
    return seen, x[1] * 2


@followed(lambda: (x3(),))
def refused_in_place(x):
    try:
        x.add_(kt.ones(5))
    except RuntimeError as error:
        effects["error"] = str(error)
    try:
        x += kt.ones(2)
    except RuntimeError as error:
        effects["operator"] = str(error)
    x.mul_(2)
    return x


def fails(x):
    effects["before"] = 1
    return x + kt.ones(7)


@followed(lambda: (x3(),))
def refused_inside_of_a_callee(x):
    try:
        return fails(x)
    except RuntimeError as error:
        try:
            raise KeyError("k") from error
        except KeyError as other:
            return str(other.__cause__), x + effects["before"]


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        effects["kind"] = kind.__name__, str(error)
        return True


@followed(lambda: (x3(),))
def refused_under_a_manager(x):
    with Manager():
        x = x + 1
        x + kt.ones(4)
        x = x + 100
    return x
