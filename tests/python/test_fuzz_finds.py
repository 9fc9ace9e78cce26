"""Faults that random programs found, each as the smallest program that showed it: (title, source, arguments)."""
import enum
import functools
import gc
import inspect
import types

import pytest

import kintsugi as kt
from comparing import STRESS, snapshot

FINDS = [
    ("a default argument of a closure", """
def counter(start):
    def step(by=1):
        nonlocal start
        start += by
        return start
    return step
def f(x, n):
    step = counter(n)
    return x + step(), step(4)
""", [2]),
    ("a generator is dropped by break", """
def steps(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("ended")
def f(x, log):
    for step in steps(log):
        break
    log.append("after")
    return x + step
""", [[]]),
    *[(f"the end of an object: {ends}", f"""
class Noisy:
    def __init__(self, log):
        self.log = log
    def __del__(self):
        self.log.append("ended")
def f(x, log, held=[]):
    {ends}
    log.append("after")
    return x + 1
""", [[]]) for ends in ("noisy = Noisy(log); noisy = None", "noisy = Noisy(log); del noisy", "Noisy(log)",
                      "parts = [Noisy(log)]; parts.clear()", "parts = [Noisy(log)]; parts[0] = 2",
                      "parts = {1: Noisy(log)}; del parts[1]", "held.append(Noisy(log)); held.pop()",
                      "noisy = Noisy(log); log.append(0)")],
    *[(f"the end of an object in an object of C: {holds}", f"""
class Noisy:
    def __init__(self, log):
        self.log = log
    def __del__(self):
        self.log.append("ended")
    def method(self):
        return 1
class Mine(Exception):
    pass
def f(x, log):
    held = None
    try:
        {holds}
    except Exception as error:
        held = error
    log.append("before")
    del held
    log.append("after")
    return x + 1
""", [[]]) for holds in ("raise KeyError(Noisy(log))", "raise Mine([Noisy(log)])", "raise Mine from KeyError(Noisy(log))",
                       "held = {Noisy(log)}", "held = frozenset([Noisy(log)])", "held = Noisy(log).method",
                       "held = iter([Noisy(log)])", "held = [Noisy(log)].copy", "held = StopIteration(Noisy(log))",
                       "held = slice(Noisy(log))", "held = iter({Noisy(log): 1})")],
    ("a bound builtin method that leaves", """
def f(x, values):
    count = values.count
    return x + 1, type(count), count(3), count
""", [[3, 1]]),
    # A traceback holds the frame, and the frame what its locals hold: until the collector comes.
    *[(f"a cycle through a traceback: {number}", f"""
def echo(log):
    try:
        yield 1
    finally:
        log.append("ended")
def f(x, n, log):
    {body}
    return x + 1
""", [0, []]) for number, body in enumerate([
        """error = ValueError(1)
    try:
        raise error
    except ValueError:
        pass
    steps = echo(log); steps.send(None)""",
        """steps = echo(log); steps.send(None)
    error = ValueError(1)
    try:
        raise error
    except ValueError:
        pass""",
        """steps = echo(log); steps.send(None)
    try:
        kt.ones(3, dtype=kt.int64) // n
    except ZeroDivisionError as error:
        kept = error""",
        """try:
        kt.ones(3, dtype=kt.int64) // n
    except ZeroDivisionError as error:
        steps = echo(log); steps.send(None)""",
        """errors = []
    try:
        raise ValueError(1)
    except ValueError as error:
        errors.append(error)
    steps = echo(log); steps.send(None)"""])],
    *[(f"a new object in each run: {made}", f"""
def f(x, n, log, text="abc", pair=(1, 2)):
    made = {made}
    log.append(made), log.append([made]), log.append((made, 1)), log.append(made)
    return x + 1, log[-1] is log[-2][0], log[-2][0] is made, {made} is made
""", [3, []]) for made in ("frozenset()", "frozenset([1, 4])", "frozenset([1]) | frozenset([2])", "pair + (3,)",
                           "pair * 2", "pair[0:1]", "divmod(7, 2)", "text.partition('b')", "(1.5).as_integer_ratio()",
                           "range(3)", "range(9)[1:]", "range(n)", "slice(1, 2)", "slice(1, n)", "(1, (n, 2))",
                           "((1, (pair[0], 2)) * 2)[3]", "((1, (pair[0], 2)) + (3,))[1]")],
    ("the very range that was given", """
def f(x, n, log):
    log.append(n), log.append([n])
    return x + 1, log[-1][0] is n, n is n, [*n]
""", [range(3), []]),
    *[(f"a group leads back to its groupby: {takes}", f"""
import itertools
from collections import deque
def f(x, values):
    taken = []
    for key, group in itertools.groupby([2, 2, 3], key=lambda v: v):
        {takes}
        taken.append(one)
    return x + 1, taken
""", [[1]]) for takes in ("one = [*group]", "one = [0]; one.extend(group)", "one = deque(); one.extend(group)",
                         "one = {1}; one.update(group)", "one = {}; one.update(zip(group, group))",
                         "one = zip(group, zip(group, group)); values.extend(one)")],
]


FINDS += [(f"methods get the member of an IntEnum, no int: {what}", f"""
import enum
class Level(enum.IntEnum):
    HIGH = 3
class Given:
    def __ior__(self, other):
        return other
    __or__ = __radd__ = __lt__ = __eq__ = __getitem__ = __call__ = __matmul__ = __imul__ = __rsub__ = __gt__ = __ior__
def f(x, log):
    given = Given()
    {what}
    return x + 1, given is Level.HIGH
""", [[]]) for what in ("given |= Level.HIGH", "given *= Level.HIGH", "given = given | Level.HIGH", "given = Level.HIGH + given",
                      "given = given < Level.HIGH", "given = Level.HIGH < given", "given = given == Level.HIGH",
                      "given = given[Level.HIGH]", "given = given(Level.HIGH)", "given = Level.HIGH - given")]

# Each ends with a `finally`, a `with`, another generator that does.
SUSPENDED = """
import kintsugi as kt
class Noted:
    def __init__(self, log):
        self.log = log
    def __enter__(self):
        pass
    def __exit__(self, kind, error, where):
        self.log.append("exit")
        return True
def first(log):
    try:
        yield 1
    finally:
        log.append("out")
def second(log):
    with Noted(log):
        yield 1
def third(log):
    yield from first(log)
def raised(log, at):
    for one in second(log):
        raise KeyError(at)
"""
FINDS += [(f"what an exception drops ends before the handler: {within}, {what}", SUSPENDED + f"""
def f(x, log):
    {handles}
        for one in {within}:
            {what}
    {handler}
    return x + 1
""", [[]]) for within in ("first(log)", "second(log)", "third(log)", "enumerate(first(log))", "zip([1, 2], second(log))")
          for what in ("raise ValueError(1)", "1 // 0", "[].missing", "raised(log, 2)")
          for handles, handler in (("try:", "except Exception:\n        log.append('handler')"), ("with Noted(log):", "log.append(2)"))]

LEVELS = """
import enum
class Level(enum.IntEnum):
    HIGH = 3
class Name(str):
    pass
def text_of(work):
    try:
        return work()
    except TypeError as error:
        return str(error)
def f(x, n):
    texts = [text_of(lambda: str(n)[0:] + Level.HIGH), text_of(lambda: str(n) < Level.HIGH), text_of(lambda: Level.HIGH + "a"),
             text_of(lambda: "a" < Level.HIGH), text_of(lambda: 3 + Name("b")), text_of(lambda: n + Name("b")),
             text_of(lambda: n < Name("b")), text_of(lambda: -Name("b")), text_of(lambda: f"{n}" * Level.HIGH)]
    return x + n, texts
"""
FINDS += [("texts of errors name the class", LEVELS, [n]) for n in (2, 5)]


def outcome(function, arguments):
    try:
        value = function(kt.ones(3), *arguments)
    except Exception as error:
        value = error
    return snapshot([value, arguments])


def sharing(arguments):
    """Of each object in these lists: where it was met first."""
    parts = [part for given in arguments if isinstance(given, list) for part in given]
    return [next(i for i, other in enumerate(parts) if other is part) for part in parts]


@pytest.fixture
def no_collector():
    gc.disable()  # what a cycle ends with, it ends when it is collected
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("title, source, arguments", FINDS, ids=[find[0] for find in FINDS])
def test_finds(title, source, arguments):
    plain, ours = {"kt": kt}, {"kt": kt}
    exec(source, plain)
    exec(source, ours)
    inspect.signature(plain["f"]).bind(None, *arguments)  # the row fits its program
    compiled = kt.compile(ours["f"])
    every = [[], []]  # what the calls left: nothing is shared between them that plain calls would not share
    for _ in range(3):
        given = eval(repr([arguments, arguments]))
        assert outcome(compiled, given[1]) == outcome(plain["f"], given[0])
        every[0] += given[0]
        every[1] += given[1]
    assert sharing(every[0]) == sharing(every[1])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Held:
    mark, other = [type("Mark", (), {})() for _ in range(2)]


def inner():
    pass


@pytest.mark.parametrize("test", [
    "given is Color.RED", "Color.RED is given", "given == Color.RED", "given in (Color.RED,)", "given in {Color.RED: 1}",
    "given is Held.mark", "given == Held.mark", "given is not Held.mark", "{given: 1}.get(Held.mark)", "given is inner",
    "[given].count(Color.RED)", "given is Held", "given is asked"])
def test_an_argument_that_the_code_names_too(test):
    """The guards say which object it was, not of which class alone."""
    space = {"Color": Color, "Held": Held, "inner": inner}
    exec(f"def asked(given, x):\n    kind = type(given)\n    return x + 1 if {test} else x\n", space)
    asked = space["asked"]
    every = [Color.RED, Color.BLUE, Held.mark, Held.other, inner, asked, lambda: None, Held, Color]
    for turn in range(len(every)):
        compiled = kt.compile(types.FunctionType(asked.__code__.replace(), space, "asked"))
        for given in every[turn:] + every[:turn]:
            assert compiled(given, kt.ones(1)).tolist() == asked(given, kt.ones(1)).tolist(), given


@pytest.mark.skipif(STRESS != "", reason="it counts segments")
def test_bound_builtin_methods_share_a_segment():
    """Each access makes another bound method; the guard looks at what it is bound to."""
    def f(x, values):
        append = values.append
        kt._dynamo.graph_break()
        append(3)
        return x + len(values)

    native = kt._dynamo.utils.counters["native"]
    compiled = kt.compile(f)
    compiled(kt.ones(3), [1])
    compiled(kt.ones(3), [1])
    before = native["segments"]
    for _ in range(5):
        values = [1]
        assert compiled(kt.ones(3), values).tolist() == [3.0] * 3 and values == [1, 3]
    assert STRESS == "miss_every_guard" or native["segments"] == before


def test_no_sizes_are_a_size_too():
    def f(x, log):
        log.append(x.argmax().shape)
        return x.sum().shape

    compiled = kt.compile(f)
    for shape in ((3, 4), (3, 5), (2, 2)):
        ours, plain = [], []
        assert type(compiled(kt.ones(*shape), ours)) is type(f(kt.ones(*shape), plain))
        assert ours == plain and type(ours[0]) is type(plain[0])


def test_a_break_after_a_check_builds_with_no_error_pending():
    """The check of two operators at once fails in the sort's callback: the sort is performed, from objects made anew."""
    def f(n, items):
        inner = [v for v in () for w in n if v]
        try:
            items.sort(key=lambda v: 1 // v)
        except ZeroDivisionError as error:
            inner.append(str(error))
        return n, inner

    compiled = kt.compile(f)
    for length in (4, 5, 4, 6):
        items = [kt.zeros(length, dtype=kt.int64), kt.ones(length, length)]
        assert compiled("n", items) == f("n", list(items))


def test_a_class_made_in_c_is_no_plain_class():
    """What stood in for its instance in a class's model had never been initialised."""
    @functools.lru_cache(maxsize=None)
    def remembered(n):
        return n * 3

    def f(x, n):
        class Base:
            def __init_subclass__(cls, flag=n, **more):
                cls.flag = flag

        class Derived(Base, flag=remembered):
            pass
        return x * 2, Derived.flag is remembered, Derived.flag(n)

    compiled = kt.compile(f)
    for _ in range(3):
        assert compiled(kt.ones(2), 7)[1:] == f(kt.ones(2), 7)[1:]
