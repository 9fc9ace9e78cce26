"""inspect.signature() where its code is not followed to the end: one call; and functions that change between calls."""
import functools
import inspect

import pytest

import kintsugi as kt
from test_expected_native import outcome
from test_language import x3

native = kt._dynamo.utils.counters["native"]


class Told:
    __signature__ = inspect.Signature([inspect.Parameter("told", inspect.Parameter.KEYWORD_ONLY)])

    def __call__(self, *arguments):
        return arguments


class Telling:
    @property
    def __signature__(self):
        return inspect.signature(lambda a: a)

    def __call__(self, *arguments):
        return arguments


class Meta(type):
    def __call__(cls, first, *rest):
        return super().__call__()


class OfMeta(metaclass=Meta):
    pass


def loop(a):
    return a


loop.__wrapped__ = loop


def text(x, callable_):
    try:
        return x * 2, str(inspect.signature(callable_))
    except (ValueError, TypeError) as error:
        return x * 2, type(error), str(error)


@pytest.mark.parametrize("subject", [
    len, print, int, "no callable", Told(), Told, Telling(), OfMeta, loop, dict, type, object, functools.partial(len),
    functools.partial(print, 1, sep=""), functools.partialmethod(loop), [].append, "".join, str.join, x3, kt.ones,
    functools.lru_cache(x3), staticmethod(x3), classmethod(x3), property(x3), ValueError, inspect.Parameter],
    ids=lambda subject: getattr(subject, "__name__", type(subject).__name__))
def test_any_callable(subject):
    kt._dynamo.reset()
    fast = kt.compile(text)
    for _ in range(3):
        assert outcome(fast, lambda: (x3(), subject)) == outcome(text, lambda: (x3(), subject))


def names(x, function):
    return x * 2, [(p.name, p.default, p.annotation) for p in inspect.signature(function).parameters.values()]


def test_a_function_changes():
    def changing(a, b=1, *, c=2):
        return a

    fast = kt.compile(names)
    x = x3()

    def check():
        for _ in range(2):
            assert fast(x, changing)[1] == names(x, changing)[1]
    check()
    changing.__defaults__ = (5,)
    check()
    changing.__kwdefaults__ = {"c": 7}
    check()
    changing.__kwdefaults__["c"] = 8
    check()
    changing.__annotations__ = {"a": int}
    check()
    changing.__annotations__["b"] = float
    check()
    changing.__signature__ = inspect.signature(x3)
    check()
    del changing.__signature__
    check()
    changing.__wrapped__ = x3
    check()
    del changing.__wrapped__
    changing.__code__ = (lambda u, v: u).__code__
    check()


def test_annotations_are_made_once():
    def noted(a: int):
        return a

    fast = kt.compile(names)
    x = x3()
    assert fast(x, noted)[1] == [("a", inspect.Parameter.empty, int)]
    noted.__annotations__["a"] = float
    assert fast(x, noted)[1] == [("a", inspect.Parameter.empty, float)]
    assert noted.__annotations__ is noted.__annotations__


def test_a_class_changes():
    class Growing:
        def __init__(self, a):
            self.a = a

    fast = kt.compile(names)
    x = x3()
    for init in (Growing.__init__, lambda self, b, c=3: None):
        Growing.__init__ = init
        for _ in range(2):
            assert fast(x, Growing)[1] == names(x, Growing)[1]


def test_signatures_are_each_their_own():
    def two(x):
        return inspect.signature(x3), inspect.signature(x3), x * 2

    first, second, _ = kt.compile(two)(x3())
    assert first == second and first is not second and first.parameters == second.parameters
