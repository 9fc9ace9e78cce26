"""Presses the rules behind language_rest.py: numbers and text that vary from call to call, values at the edges, exceptions, what
must not be folded. Everything against plain Python."""
import codecs
import math
import os
import random
import re
import sys
import time
import types

import pytest

import kintsugi as kt
from test_expected_native import outcome
from test_language import check, native, x3

pytestmark = pytest.mark.usefixtures("fresh")


def calls(function, *rows, segments=None):
    """One history of one compiled function: the rows are its arguments after the tensor, in turn."""
    fast = kt.compile(function)
    for row in rows * 3:
        assert outcome(fast, lambda: (x3(), *row)) == outcome(function, lambda: (x3(), *row)), row
    if segments is not None and not os.environ.get("KINTSUGI_STRESS"):
        assert native["segments"] <= segments, native["segments"]


BIG, LONG = 2 ** 63, 10 ** 30
INTS = [(3,), (4,), (-5,), (0,), (BIG - 1,), (-BIG,), (BIG,), (LONG,), (-LONG,), (7,), (True,), (2.5,), ("3",), (None,)]
FLOATS = [(2.5,), (-0.0,), (1e300,), (float("inf"),), (float("nan"),), (3,), (0.0,), (-7.25,), ("2",), (1 + 2j,)]
TEXTS = [("abc",), ("a",), ("",), ("xyz" * 9,), ("d%s",), ("\ud800",), (b"abc",), (5,), ("a12",), (None,), ("ABC",), ("zz",)]
PROGRAMS = {
    "format": (lambda x, n: (x + 1, f"{n}|{n!r:>30}|{n:>5}|{n!s}", str(n), repr(n), format(n)), INTS + FLOATS + TEXTS),
    "spec": (lambda x, n: (x + 1, f"{n:05}|{n:+}"), INTS + FLOATS),
    "percent": (lambda x, n: (x + 1, "%s %r" % (n, n), "%d" % n), INTS + FLOATS),
    "template": (lambda x, n: (x + 1, "{0} {0!r} {a:>4}".format(n, a=n), "-".join([str(n), "x"])), INTS + FLOATS),
    "shift": (lambda x, n: (x + 1, n << 3, n >> 2, 1 << (n & 7), ~n, -n, +n), INTS),
    "power": (lambda x, n: (x + 1, n ** 3, n * n, n + n, n - 1, (n & 3) ** n if n < 9 else 0), INTS),
    "root": (lambda x, n: (x + 1, n ** 0.5, n ** -1), INTS + FLOATS),
    "divide": (lambda x, n: (x + 1, divmod(100, n), divmod(n, 7), n // -1, n % -3, pow(n, 2, 7)), INTS),
    "floats": (lambda x, f: (x + 1, divmod(f, 2), f // 1, int(f), round(f), round(f, 1)), FLOATS),
    "methods": (lambda x, n: (x + 1, n.bit_length(), n.bit_count(), n.real, n.imag, n.as_integer_ratio()), INTS),
    "float methods": (lambda x, f: (x + 1, f.is_integer(), f.hex(), f.real, f.conjugate()), FLOATS),
    "math": (lambda x, f: (x + 1, math.floor(f), math.hypot(f, 2.0), math.isnan(f)), FLOATS),
    "numbers": (lambda x, n: (x + 1, int(n), float(n), bool(n), complex(n), hash(n) if n == n else 0, abs(n)), INTS + FLOATS),
    "order": (lambda x, n: x + 1 if n < 5 else x - 1 if n == 7 else x * 2, INTS + FLOATS),
    "upper": (lambda x, s: (x + 1, s.upper(), s[::-1], s[:1], len(s), s + "!", s * 2, s.split("b"), s.partition("b")), TEXTS),
    "find": (lambda x, s: (x + s.find("b"), s.startswith("a"), "b" in s, s == "abc", s < "b", s != "a", not s), TEXTS),
    "branch": (lambda x, s: x + 1 if s else x - 1, TEXTS + INTS),
    "or": (lambda x, s: (x + 1, s or "none", s and "some"), TEXTS + INTS),
    "chosen": (lambda x, s: x * 2 if s == "abc" else x * 3 if s in ("a", "zz") else x, TEXTS),
    "pattern": (lambda x, s: (x + 1, (m := re.match(r"([a-z])(\d*)", s)) and (m.group(2), m.groups(), m.span()), re.sub("b", "-", s)), TEXTS),
    "as int": (lambda x, s: (x + 1, int(s), float(s)), [("1",), ("22",), ("x",), ("3.5",), (" 7 ",), ("0x1",), ("1" * 40,)]),
    "range": (lambda x, n: (x + 1, range(n)[-1], len(range(0, n, 2)), range(n).stop, 3 in range(n)), INTS[:4] + [(9,), (10,)]),
    "slice": (lambda x, s: (x[s], [1, 2, 3, 4, 5][s], "abcde"[s], s.indices(4), s.start), [(slice(1, 3),), (slice(None, 2),), (slice(1, 3),),
              (slice(0, None, 2),), (slice(3, 0, -1),), (slice("a", 2),), (1,)]),
    "complex": (lambda x, c: (x + 1, c * 2, c + 1, c.real, c == 1, abs(c), f"{c:.2f}", c ** 2), [(1 + 2j,), (3j,), (0j,), (1 + 0j,), (-0j,), (1.0,), (5,)]),
}


@pytest.mark.parametrize("limit", [3, 64])  # few segments: text becomes an object like others
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_that_vary(name, limit):
    function, rows = PROGRAMS[name]
    with kt._dynamo.config.patch(recompile_limit=limit):
        calls(function, *rows)


@pytest.mark.parametrize("name", ["format", "shift", "power", "divide", "floats", "methods", "math"])
def test_one_segment_serves_many_numbers(name, stress):
    function = PROGRAMS[name][0]
    rows = [(float(n) + 0.5,) if name in ("floats", "math") else (n + 3,) for n in range(10)]
    calls(function, *rows, segments=3)
    assert native["call_outs"] == 0 or stress


# ---- match ---------------------------------------------------------------------------------------------------------


class Odd:
    __match_args__ = ["a"]  # no tuple
    a = 1


class Twice:
    __match_args__ = ("a", "a")
    a = 1


class Raising:
    __match_args__ = ("a",)

    @property
    def a(self):
        raise ValueError("a")


class Missing:
    __match_args__ = ("a", "b")

    def __init__(self):
        self.a = 1


class Fallback:
    def __getattr__(self, name):
        if name == "c":
            raise AttributeError(name)
        return 5


ONE = types.SimpleNamespace(real=1)


def matched(x, v):
    match v:
        case Odd(a):
            return x + a
        case Twice(a, b):
            return x + a + b
        case Raising(a):
            return x
        case Missing(a, b=b):
            return x * 2
        case Missing(a):
            return x * 3 + a
        case Fallback(c=c):
            return x
        case Fallback(d=d):
            return x * d
        case int(a, b):
            return x
        case [*_, 7]:
            return x - 7
        case {1: a, types.FunctionType.__itemsize__: b, ONE.real: c}:
            return x
        case {"a": 1, **rest}:
            return x, rest
        case str(s) | bytes(s):
            return x, s
        case (1 | 2.0) as n:
            return x * n
    return None


@pytest.mark.parametrize("make", [Odd, Twice, Raising, Missing, Fallback, lambda: 5, lambda: [1, 7], lambda: {1: 2}, lambda: {"a": 1},
                                  lambda: {"a": 1, "b": 2}, lambda: "s", lambda: b"s", lambda: 2, lambda: 1.0, lambda: None,
                                  lambda: types.SimpleNamespace(a=1), lambda: (7,), lambda: range(8), lambda: {7}])
def test_match(make):
    check(matched, lambda: (x3(), make()))


def test_match_in_turn():
    check(matched, *[lambda v=v: (x3(), v) for v in ("s", b"t", {"a": 1}, {"a": 1, "k": 3}, (1, 7), [7], None)])


def test_a_class_that_becomes_a_sequence():
    import collections.abc

    class Listed:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            if i > 1:
                raise IndexError(i)
            return i + 1

    def pair(x, v):
        match v:
            case [a, b]:
                return x + a * b
            case _:
                return x
    check(pair, lambda: (x3(), Listed()))
    collections.abc.Sequence.register(Listed)
    check(pair, lambda: (x3(), Listed()))
    fast = kt.compile(pair)
    assert fast(x3(), Listed()).tolist() == [3.0, 4.0, 5.0]


# ---- Names ---------------------------------------------------------------------------------------------------------


def test_an_import_sees_what_sys_modules_has():
    def use(x):
        import a_module_of_this_test as m
        from a_module_of_this_test import value
        return x * m.value + value
    fast = kt.compile(use)
    with pytest.raises(ModuleNotFoundError):
        fast(x3())
    try:
        for number in (1.0, 2.0):
            module = sys.modules["a_module_of_this_test"] = types.ModuleType("a_module_of_this_test")
            with pytest.raises(ImportError):
                fast(x3())
            module.value = number
            for more in (0, 1, 2):
                module.value += more
                assert fast(x3()).tolist() == use(x3()).tolist()
    finally:
        del sys.modules["a_module_of_this_test"]
    with pytest.raises(ModuleNotFoundError):
        fast(x3())


def test_a_replaced_import_function_is_called(monkeypatch):
    import builtins

    def use(x):
        import math
        return x * math.pi
    fast = kt.compile(use)
    assert fast(x3()).tolist() == use(x3()).tolist()
    asked = []
    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda *a, **k: asked.append(a[0]) or original(*a, **k))
    assert fast(x3()).tolist() == (x3() * 3.141592653589793).tolist()
    monkeypatch.undo()
    assert asked == ["math"]


def deleted(x, n):
    v = n

    def read():
        return v
    before = read()
    del v
    try:
        read()
    except NameError as error:
        after = str(error)
    v = n * 2
    return x * before, after, read()


def twice_local(x):
    a = locals()
    b = 1
    c = locals()
    return x, a is c, sorted(c)


def local_loop(x, n):
    found = []
    for i in range(n):
        found.append(sorted(locals()))
    return x, found


def unbound(x, flag):
    if flag:
        y = x
    return y, locals()


@pytest.mark.parametrize("function, arguments", [(deleted, (3,)), (twice_local, ()), (local_loop, (3,)), (unbound, (True,)), (unbound, (False,))])
def test_names(function, arguments):
    check(function, lambda: (x3(), *arguments))


# ---- Never folded --------------------------------------------------------------------------------------------------


def drawn(x):
    return x * random.random(), random.randint(1, 1000), random.choice([1, 2, 3])


def test_random_draws_differ_as_in_plain_python():
    random.seed(5)
    want = [drawn(x3()) for _ in range(4)]
    fast = kt.compile(drawn)
    random.seed(5)
    got = [fast(x3()) for _ in range(4)]
    assert [(a.tolist(), b, c) for a, b, c in got] == [(a.tolist(), b, c) for a, b, c in want]


def test_time_goes_on():
    fast = kt.compile(lambda x: (x + 1, time.perf_counter_ns(), time.monotonic()))
    stamps = [fast(x3())[1:] for _ in range(4)]
    assert stamps == sorted(stamps) and len(set(stamps)) == 4


def test_environment_is_read_anew(monkeypatch):
    def read(x):
        return x + 1, os.environ.get("KN_TEST_NAME", "none"), os.getenv("KN_TEST_NAME"), "KN_TEST_NAME" in os.environ
    fast = kt.compile(read)
    for value in (None, "a", "b", None, "a"):
        monkeypatch.delenv("KN_TEST_NAME", raising=False)
        if value is not None:
            monkeypatch.setenv("KN_TEST_NAME", value)
        for _ in range(2):
            assert fast(x3())[1:] == read(x3())[1:]


def test_nan_hashes_by_identity():
    check(lambda x, f: (x + 1, hash(f) == hash(f)), lambda: (x3(), float("nan")))


def test_large_results_are_not_made_early():
    check(lambda x, n: (x + 1, len("x" * n), len(str(2 ** 5000)) if n < 0 else 0, len("a".ljust(n)), (10 ** 400) % 7),
          lambda: (x3(), 100_000), lambda: (x3(), 200_000), lambda: (x3(), 5))


def test_an_assertion_is_checked_each_time():
    def positive(x):
        assert x.sum() > 0, f"sum of {len(x)}"
        return x * 2
    check(positive, x_maker(1.0), x_maker(-1.0), x_maker(2.0), x_maker(float("nan")))


def x_maker(value):
    return lambda: (kt.tensor([value, value]),)


def test_match_after_an_effect():
    """The flags of a class that a pattern looks at are a number, not an object to hold on to."""
    class Plain:
        pass

    def work(x, table, subject):
        table["a"] = 1
        match subject:
            case {"p": found}:
                return x + found
            case [first, *_]:
                return x * first
        return x + 1
    check(work, lambda: (x3(), {"q": 2}, Plain()))


def answer(data, errors="strict"):
    asked.append(len(data))
    return b"%d" % len(asked) if isinstance(data, str) else str(len(asked)), len(data)


def find_codec(name):
    return codecs.CodecInfo(answer, answer, name=name) if name == "of_this_test" else None


asked = []
codecs.register(find_codec)
codecs.register_error("of_this_test", lambda error: (asked.append(error.reason) or f"({len(asked)})", error.end))


@pytest.mark.parametrize("function", [lambda: "abc".encode("of_this_test"), lambda: b"abc".decode(encoding="of_this_test"),
                                      lambda: str(b"abc", "of_this_test"), lambda: bytes("abc", "of_this_test"),
                                      lambda: "a\u1234".encode("ascii", "of_this_test")])
def test_codecs_of_the_program_run_each_time(function):
    def whole(x):
        return x * 2, function()

    fast, counts = kt.compile(whole), []
    function()
    for each in (whole, fast):
        asked.clear()
        counts.append([(outcome(each, lambda: (x3(),)), len(asked)) for _ in range(3)])
    assert counts[0] == counts[1]


HUGE, DIGITS = 10 ** 1000, "7" * 1000


@pytest.mark.parametrize("function", [lambda: str(HUGE), lambda: f"{HUGE}", lambda: "%d" % HUGE, lambda: "{}".format(HUGE),
                                      lambda: repr([HUGE]), lambda: int(DIGITS) % 7])
def test_the_limit_of_digits_may_change(function):
    def whole(x):
        try:
            return x * 2, len(repr(function())) > 0
        except ValueError as error:
            return x + 1, str(error)[:20]

    fast, before = kt.compile(whole), sys.get_int_max_str_digits()
    try:
        for limit in (0, 700, 0, 700):
            sys.set_int_max_str_digits(limit)
            assert outcome(fast, lambda: (x3(),)) == outcome(whole, lambda: (x3(),))
    finally:
        sys.set_int_max_str_digits(before)
