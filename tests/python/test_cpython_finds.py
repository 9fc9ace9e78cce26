"""Faults that CPython's own tests found in capture-everything mode, each as the smallest program that showed it."""
import ast
import collections
import enum
import functools
import importlib.util
import pathlib
import sys
import weakref

import pytest

import kintsugi as kt
from comparing import Programs, compare

program = Programs()
graph_break = kt._dynamo.graph_break
opaque = kt._dynamo.testing.opaque


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


@program(lambda: (Derived(),), lambda: (Base(),))
def super_of_what_is_no_instance(x):
    try:
        return super(Derived, x).name()
    except TypeError as error:
        return str(error)


class Odd:
    """A key of an instance's dict that meets every name."""

    def __init__(self, log):
        self.log = log

    def __hash__(self):
        return hash("attr")

    def __eq__(self, other):
        self.log.append(other)
        return False


def with_an_odd_name(log):
    x = Plain()
    x.__dict__[Odd(log)] = 0
    return x, log


@program(lambda: with_an_odd_name([]))
def names_that_are_no_text(x, log):
    found = getattr(x, "attr", "none"), hasattr(x, "attr")
    x.attr = 3
    return found, x.attr, len(log) > 0


class OddText(str):
    def __hash__(self):
        return str.__hash__(self)

    def __eq__(self, other):
        return str.__eq__(self, other)


def with_odd_globals(x):
    return absolute(x) + 1  # noqa: F821


@program(lambda: (-2,))
def globals_with_odd_names(x):
    return type(with_odd_globals)(with_odd_globals.__code__, {OddText("absolute"): abs, "a": 1})(x)


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


@program(lambda: (1, 1.5), lambda: (2, 1.5), lambda: (2, 2.5), lambda: (3, 3.0), together=True)
def truths_are_one_object(n, f):
    even, same = n % 2 == 0, n == f
    graph_break()
    return even is True, same is even, same is not False, (n > 1) is (f > 1)


@program(lambda: ("abc",), lambda: ([1, 2, 3],), lambda: ((1, 2, 3),))
def iterators_stay_of_their_kind(items):
    fresh, used, done = iter(items), iter(items), iter(items)
    next(used)
    for _ in done:
        pass
    return [(type(each).__name__, each.__reduce__()[1], list(each)) for each in (fresh, used, done)]


class Plain:
    pass


# ---- Ends that run code ----------------------------------------------------------------------------------------------------


class Ending:
    def __init__(self, log, name):
        self.log, self.name = log, name

    def __del__(self):
        self.log.append(self.name)


def make_ending(log, name):
    return Ending(log, name)


@program(lambda: ([],))
def finalisers_run_in_order(log):
    x = Ending(log, "deleted")
    log.append(1)
    del x
    log.append(2)
    x = Ending(log, "overwritten")
    x = None
    log.append(3)
    Ending(log, "dropped")
    log.append(4)
    held = [Ending(log, "in a list")]
    held[0] = 5
    log.append(6)
    by_name = {"a": Ending(log, "in a dict"), "b": [Ending(log, "deeper")]}
    by_name["a"] = 7
    log.append(8)
    del by_name["b"]
    log.append(9)
    holder = Plain()
    holder.x = Ending(log, "attribute")
    graph_break()
    holder.x = 10
    log.append(11)
    nested = ([Ending(log, "nested")], 1)
    nested = None
    log.append(12)
    return x, nested


@program(lambda: ([],))
def finalisers_change_what_is_walked_over(log):
    class Clearing:
        def __del__(self):
            walked.clear()

    walked = {i: Clearing() for i in range(4)}
    graph_break()
    try:
        for key, value in walked.items():
            value = None
            if key == 2:
                walked[2] = None
    except RuntimeError as error:
        return str(error)


@program(lambda: ([],))
def callbacks_of_weak_references(log):
    x = Plain()
    watch = weakref.ref(x, lambda _: log.append("gone"))
    log.append(1)
    del x
    log.append(2)
    return watch() is None


def generate(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


@program(lambda: ([],))
def generators_are_closed_in_order(log):
    walk = generate(log)
    log.append(next(walk))
    walk = None
    log.append(3)


@program()
def a_long_deque_walked_by_its_iterators_class():
    klass = type(reversed(collections.deque()))
    return [list(klass(collections.deque(items))) for items in ("abcd", range(2000))]


# ---- Texts of errors -----------------------------------------------------------------------------------------------------


KeyWrapper = type(functools.cmp_to_key(lambda a, b: 0))


@program(lambda: (KeyWrapper,))
def a_class_that_makes_no_instances(made):
    try:
        return made()
    except TypeError as error:
        return str(error)


# ---- Ordered dicts -------------------------------------------------------------------------------------------------------


def ordered(*keys):
    return collections.OrderedDict((key, ord(key)) for key in keys)


@program(*[lambda keys=keys: (ordered("a", "b", "c"), ordered(*keys), kt.ones(2)) for keys in ("abc", "bca", "abd", "ab")], together=True)
def ordered_dicts_compare_by_order(a, b, x):
    return x + 1, a == b, a != b, dict(a) == b, a == dict(b), b == a


@program()
def a_method_of_dict_leaves_the_order_behind():
    made = collections.OrderedDict(x=1, y=2)
    dict.pop(made, "x")
    try:
        text = repr(made)
    except KeyError as error:
        text = error.args
    return text, dict.get(made, "y"), len(made)


# ---- Frames ------------------------------------------------------------------------------------------------------------------


@program()
def frames_of_callers_show_what_is_dead():
    def inner():
        return sorted(sys._getframe(1).f_locals)

    def outer(*rest, **others):
        unused = [1]
        return inner()

    return outer(1, a=2)


@program()
def what_only_a_dead_local_holds():
    def look():
        thing = Plain()
        seen.append(weakref.ref(thing))
        graph_break()
        return seen[0]() is not None

    seen = []
    return look(), seen[0]() is None


# ---- Identity ------------------------------------------------------------------------------------------------------------


class Mark:
    on, off = object(), object()

    def __init__(self, state):
        self.state = state


@program(*[lambda state=state: (Mark(state), kt.ones(2)) for state in (Mark.on, Mark.off, object(), Mark.on)], together=True)
def an_attribute_that_was_one_of_the_class(mark, x):
    return x + 1 if mark.state is Mark.on else x + 2


@pytest.mark.parametrize("row", program, ids=program.names())
def test_program(row):
    function, makes, expected = row
    compare(function, *makes, **expected)


def made_anew(kind):
    return {str: lambda: "".join(["ab", "cd"]), bytes: lambda: b"".join([b"ab", b"cd"]), int: lambda: int("1000"),
            float: lambda: float("2.5"), complex: lambda: complex("2j")}[kind]()


@pytest.mark.parametrize("kind", [str, bytes, int, float, complex])
def test_what_was_compared_is_handed_on(kind):
    """A guard compares such a value by its worth; what the function gives back is the object that came."""
    def f(x, value, values):
        return (x + 1, value, [each for each in values if each == value]) if value != kind() else x

    compiled = kt.compile(f)
    for _ in range(4):
        value, values = made_anew(kind), [made_anew(kind), made_anew(kind)]
        _, back, kept = compiled(kt.ones(2), value, values)
        assert back is value and len(kept) == 2 and kept[0] is values[0] and kept[1] is values[1]


@pytest.mark.parametrize("sign", ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", "<<=", ">>="])
def test_texts_of_in_place_operators(sign):
    space = {}
    exec(f"def f(x, a, b):\n    a {sign} b\n    return x, a", space)
    compiled = kt.compile(space["f"])

    def outcome(function, a, b):
        try:
            return function(kt.ones(1), a, b)[1]
        except TypeError as error:
            return str(error)

    for a, b in [(2, "ab"), (3, "ab"), ("a", 2), (None, 3), (7, 2)]:
        assert outcome(compiled, a, b) == outcome(space["f"], a, b)


@pytest.mark.parametrize("taken", ["items.pop()", "items.pop(0)", "table.pop('k')"])
def test_what_is_taken_out_lives_until_a_branch_shows_it(taken):
    """textwrap: only the exit of a check named what a list had given up."""
    space = {}
    exec(f"def f(items, table, n):\n    first = {taken}\n    if n > 3:\n        return 0\n    return first", space)
    compiled = kt.compile(space["f"])

    def text(number):
        return "text " + str(number)

    for n in (5, 6, 7, 1, 2):
        want, got = (function([text(8), text(9), text(8)], {"k": text(8)}, n) for function in (space["f"], compiled))
        others = [text(number) for number in range(10, 40)]  # where freed memory would be
        assert got == want and len(others) == 30


class Declines:
    def __add__(self, other):
        return NotImplemented

    __iadd__ = __sub__ = __add__


class Breaks:
    def __init__(self, how):
        self.how = how

    def __radd__(self, other):
        return self.told(opaque(1), self.how(2))

    __rsub__ = __radd__

    def told(self, *values):
        return values


@pytest.mark.parametrize("sign", ["+", "-", "+="])
def test_a_break_in_the_second_operand_s_method(sign):
    """datetime: the NotImplemented of the first operand's method lay on the stack of the frame of the second's,
    which then was one value deeper than the frame has room for."""
    space = {}
    exec("def f(a, b):\n    a {} b\n    return a".format(sign) if sign == "+=" else f"def f(a, b):\n    return a {sign} b", space)
    compiled = kt.compile(space["f"])

    def how(n):
        return n + 1

    a, b = Declines(), Breaks(kt.compiler.disable(how))
    direct = kt.compile(lambda a, b: b.__radd__(a))  # what is compiled after the break serves both
    compiled(a, b), direct(a, b)
    before = sys.getrefcount(how), sys.getrefcount(NotImplemented)
    for _ in range(200):
        assert compiled(a, b) == direct(a, b) == space["f"](a, b) == (1, 3)
    assert sys.getrefcount(how) == before[0] and abs(sys.getrefcount(NotImplemented) - before[1]) < 20


class Bare:
    pass


@pytest.mark.parametrize("a, b", [(Bare(), object()), (Bare(), Bare()), (object(), object()), (Bare(), 3)])
def test_what_object_s_own_comparisons_answer(a, b):
    """ipaddress: asked by name they answer NotImplemented, which the trace forgot to put on the stack."""
    def asked(x, a, b):
        return x, [a.__eq__(b), a.__ne__(b), object.__eq__(a, b), object.__ne__(b, a), a.__eq__(a), a.__ne__(a)], (a == b) + 1

    theirs = object.__eq__(a, b), object.__ne__(b, a)
    got, want = kt.compile(asked)(kt.ones(1), a, b), asked(kt.ones(1), a, b)
    assert got[1:] == want[1:] == ([NotImplemented, NotImplemented, *theirs, True, False], 1)


def test_differences_are_listed_of_tests_that_exist():
    """In cpython_differences.toml; a name that no test has would hide nothing, and stay."""
    from kintsugi import cpython_tests
    for module, rows in cpython_tests.listed_differences().items():
        spec = importlib.util.find_spec(f"test.{module}")
        if spec is None:
            pytest.skip("the interpreter's own tests are not installed")
        defined = {each.name for each in ast.walk(ast.parse(pathlib.Path(spec.origin).read_text())) if hasattr(each, "name")}
        for name in rows:
            assert name.startswith(f"test.{module}.") and defined.issuperset(name.split(".")[2:]), name
