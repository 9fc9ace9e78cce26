"""Faults that CPython's own tests found in capture-everything mode, each as the smallest program that showed it."""
import enum
import weakref

import pytest

import kintsugi as kt
from comparing import Programs, compare

program = Programs()
graph_break = kt._dynamo.graph_break


# ---- Truth ---------------------------------------------------------------------------------------------------------------


class Filled:
    def __init__(self, level):
        self.level = level

    def __bool__(self):
        return bool(self.level)


class Sized:
    def __init__(self, level):
        self.level = level

    def __len__(self):
        return self.level


class Access(enum.Flag):
    READ = 1
    WRITE = 2


def levels(kind):
    return [lambda level=level: (kind(level),) for level in (3, 0, 2, 1, 0)]


@program(*levels(Filled), together=True)
@program(*levels(Sized), together=True)
@program(*[lambda member=member: (member,) for member in (Access.READ, Access.WRITE, Access.READ & Access.WRITE, Access.READ)],
         together=True)
def truth_by_a_method(x):
    return "yes" if x else "no", not x, bool(x), x and 1, x or 2, any([x]), all([x])


# ---- Classes -------------------------------------------------------------------------------------------------------------


class Base:
    @classmethod
    def name(cls, *rest):
        return cls.__name__, rest

    @property
    def broken(self):
        raise AttributeError("no luck")


class Derived(Base):
    def of_super(self):
        return super().name(1), super(Derived, self).name.__self__.__name__

    def __getattr__(self, name):
        if name == "empty":
            raise AttributeError
        if name == "broken":
            return "the fallback"
        raise AttributeError(name)


class Disguised:
    @property
    def __class__(self):
        return Base


class Turned:
    def __getattribute__(self, name):
        return Base if name == "__class__" else object.__getattribute__(self, name)


@program(lambda: (Derived(),))
def class_methods_through_super(x):
    return x.of_super()


@program(lambda: (Disguised(),), lambda: (Turned(),), lambda: (Base(),), lambda: (Filled(1),))
def instances_by_what_they_say(x):
    return isinstance(x, Base), isinstance(x, (int, Base)), isinstance(x, Filled)


@program(lambda: (Derived(),), lambda: (Base(),))
def attribute_errors_know_name_and_object(x):
    found = []
    for read in (lambda: x.broken, lambda: x.empty, lambda: x.absent, lambda: x.broken(), lambda: x.absent(),
                 lambda: getattr(x, "broken"), lambda: getattr(x, "empty")):
        try:
            found.append(read())
        except AttributeError as error:
            found.append((str(error), error.name, error.obj is x))
    return found


# ---- Objects that are one ------------------------------------------------------------------------------------------------


@program(lambda: ((1, [2]),))
def tuples_that_stay_themselves(t):
    u = (t, 3)
    empty = ()
    return (tuple(t) is t, tuple(u) is u, t[:] is t, u[0:2] is u, t * 1 is t, u * 1 is u, t + () is t, () + u is u,
            tuple([]) is empty, empty * 3 is empty, t[2:] is empty, t[1:] is t)


@program()
def a_default_that_is_used_later():
    add = lambda a, b=2: a + b  # noqa: E731
    graph_break()
    return add(1), add(1, 5)


class Plain:
    pass


@program()
def what_only_a_dead_local_holds():
    def look():
        thing = Plain()
        seen.append(weakref.ref(thing))
        graph_break()
        return seen[0]() is not None

    seen = []
    return look(), seen[0]() is None


@pytest.mark.parametrize("row", program, ids=program.names())
def test_program(row):
    function, makes, expected = row
    compare(function, *makes, **expected)
