"""The table of common constructs, section 4 of graph_breaks.md: each entry of its first column followed under fullgraph=True, each of
its second a break with the same result. FOLLOWED_TOO: breaks there, followed here."""
import collections
import copy
import dataclasses
import datetime
import enum
import functools
import gc
import inspect
import itertools
import json
import math
import os
import pickle
import random
import re
import sys
import threading
import time

import numpy  # noqa: F401  "numpy()" is followed where it is loaded
import pytest

import kintsugi as kt
from language_programs import x3
from language_rest import asserted  # not one of those that pytest rewrites
from test_expected_native import outcome

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


def imported(x):
    import math as m
    from os import sep
    return x * m.pi, sep


def matched(x):
    match {"k": [1, 2]}:
        case {"k": [a, *rest]}:
            return x * a, rest


def chained(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            raise ValueError("b") from error
    except ValueError as error:
        return x + 1, str(error)


def tried(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y * 2
    finally:
        y = y + 3
    return y


class Manager:
    def __enter__(self):
        return 2.0

    def __exit__(self, *exception):
        return False


def managed(x):
    with Manager() as a, Manager() as b:
        return x * a * b


class Base:
    def __init__(self, gain=2.0):
        self.gain = gain
        self.items = [1.0, 2.0]

    def scaled(self, x):
        return x * self.gain

    @property
    def doubled(self):
        return self.gain * 2

    @doubled.setter
    def doubled(self, value):
        self.gain = value / 2

    def __getattr__(self, name):
        return len(name)

    def __getitem__(self, index):
        return self.items[index]

    def __call__(self, x):
        return x + self.gain

    def __lt__(self, other):
        return self.gain < other.gain


class Derived(Base):
    def scaled(self, x):
        return super().scaled(x) + 1


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Counting(type):
    def __call__(cls, *arguments):
        return super().__call__(*arguments)


class Made(metaclass=Counting):
    def __init__(self, k=2.0):
        self.k = k


@dataclasses.dataclass
class Data:
    a: float
    b: float = 2.0


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b")


def setter(x):
    b = Base()
    b.doubled = 8.0
    return x * b.gain


def slotted(x):
    s = Slotted(2.0)
    s.a = s.a + 1
    return x * s.a


@functools.lru_cache
def cached(n):
    return n + 1


def signed(a, b=1, *, c=2):
    return a


FOLLOWED = {
    "import": imported,
    "match": matched,
    "walrus": lambda x: x * y if (y := len(x)) > 2 else x,
    "comprehensions": lambda x: ([x * i for i in range(2)], {i: x for i in range(2)}),
    "set comprehensions": lambda x: (x * 2, sorted({i % 2 for i in range(4)})),
    "star-unpacking": lambda x: (lambda first, *rest: first * len(rest))(*[x, 1, 2], *(3,)),
    "dict merge": lambda x: {**{"a": x}, "b": 1} | {"c": 2},
    "chained raise": chained,
    "try/else": tried,
    "multiple managers": managed,
    "properties": lambda x: x * Base().doubled,
    "setters": setter,
    "slots": slotted,
    "__getattr__": lambda x: x * Base().absent,
    "__getitem__": lambda x: x * Base()[1],
    "__call__": lambda x: Base()(x),
    "__lt__": lambda x: x * 2 if Base(1.0) < Base(2.0) else x,
    "super()": lambda x: Derived().scaled(x),
    "metaclass __call__": lambda x: x * Made(3.0).k,
    "dataclass": lambda x: x * Data(2.0).b,
    "type(name, bases, dict)": lambda x: x * type("T", (), {"k": 2.0}).k,
    "enum": lambda x: x * 2 if Color.RED is Color.RED and Color.RED != Color.BLUE else x,
    "namedtuple": lambda x: x * Pair(1.0, 2.0).b,
    "math": lambda x: x * math.sin(1.0),
    "re": lambda x: x * len(re.match("a+", "aab").group()),
    "os.environ reads": lambda x: x * len(os.environ["PATH"]),
    "hash of constants": lambda x: (x * 2, hash("a") == hash("a"), hash(5), hash((1, "b")) == hash((1, "b"))),
    "id(tensor)": lambda x: (x * 2, id(x) == id(x)),
    "locals()": lambda x: (x * 2, sorted(locals())),
    "inspect.signature": lambda x: x * len(inspect.signature(signed).parameters),
    "collections types": lambda x: (x * 2, list(collections.OrderedDict(a=1)), list(collections.deque([1, 2]))),
    "itertools": lambda x: [x * i for i in itertools.chain([1], [2])],
    "functools.partial": lambda x: functools.partial(lambda a, b: a * b, x)(2.0),
    "lru_cache": lambda x: x * cached(2),
    "len(tensor)": lambda x: x * len(x),
    "iterating a tensor": lambda x: [part * 2 for part in x],
    "x is x": lambda x: (x * 2, x is x),
    "x in [x]": lambda x: (x * 2, x in [x]),
    "isinstance": lambda x: x * 2 if isinstance(x, kt.Tensor) and not isinstance(x, (int, str)) else x,
    "indexing a list with a scalar tensor": lambda x: (x * 2, [1, 2, 3][kt.tensor(1)]),
    "slicing a list with a scalar tensor": lambda x: (x * 2, [1, 2, 3][kt.tensor(1):]),
    "numpy()": lambda x: (x * 2, x.numpy().tolist()),
    "random tensor creation": lambda x: x + kt.rand(3) * 0,
    "assert on a tensor": asserted,
}
# These need more of the tracer than their own rule: whether they are followed is asked in the rows of expected_native.toml.
ELSEWHERE = {"set comprehensions", "chained raise", "properties", "metaclass __call__", "namedtuple", "collections types",
             "functools.partial", "lru_cache"}

def class_statement(x):
    class Local:
        k = 2.0
    return x * Local.k


def delete_global(x):
    global scratch
    scratch = 1
    del scratch
    return x * 2


def except_star(x):
    try:
        raise ExceptionGroup("g", [ValueError("a")])
    except* ValueError:
        x = x + 1
    return x * 2


async def waited(x):
    return x * 2


def run_async(x):
    try:
        waited(x).send(None)
    except StopIteration as stop:
        return stop.value


def counted():
    n = 1.0
    while True:
        n += 1
        yield n


@kt.compiler.disable
def outside():
    return counted()


BREAKS = {
    "delete global": delete_global,
    "async code": run_async,
    "repr of a tensor": lambda x: (x * 2, repr(x)),
    "str of a tensor": lambda x: (x * 2, str(x)),
    "formatting a tensor": lambda x: (x * 2, f"{x}"),
    "open": lambda x: (x * 2, open(os.devnull).close()),
    "print": lambda x: (x * 2, print("a")),
    "exec": lambda x: (x * 2, exec("1 + 1")),
    "eval": lambda x: (x * 2, eval("1 + 1")),
    "globals()": lambda x: (x * 2, "Base" in globals()),
    "time": lambda x: (x * 2, time.time() > 0),
    "os.getpid": lambda x: (x * 2, os.getpid()),
    "datetime.now": lambda x: (x * 2, datetime.datetime.now().year > 2000),
    "threads": lambda x: (x * 2, threading.current_thread().name),
    "locks": lambda x: (x * 2, threading.Lock().locked()),
    "gc": lambda x: (x * 2, gc.isenabled()),
    "pickle": lambda x: (x * 2, pickle.dumps(1)),
    "json.dumps": lambda x: (x * 2, json.dumps({"a": 1})),
    "sys._getframe": lambda x: (x * 2, sys._getframe().f_code.co_name),
    "seeding": lambda x: (x * 2, random.seed(1)),
    "tolist() of floats": lambda x: (x * 2).tolist(),
    "data_ptr() arithmetic": lambda x: (x * 2, x.data_ptr() - x.data_ptr() + 1),
    "copy.deepcopy(tensor)": lambda x: copy.deepcopy(x) * 2,
    "random.random()": lambda x: (random.seed(1), x * random.random()),
    "advancing an outside generator": lambda x: x * next(outside()),
    "sorting tensors by a tensor key": lambda x: sorted([x[0], x[1]], key=lambda t: t * -1),
}


FOLLOWED_TOO = {"copy.copy(list)": lambda x: (x * 2, copy.copy([1, 2])), "class statement": class_statement, "except*": except_star}


def same(function, **settings):
    fast = kt.compile(function, **settings)
    for _ in range(3):
        assert outcome(fast, lambda: (x3(),)) == outcome(function, lambda: (x3(),))


@pytest.mark.parametrize("name", [*FOLLOWED, *FOLLOWED_TOO])
def test_followed(name, stress):
    if stress or name in ELSEWHERE:
        return same({**FOLLOWED, **FOLLOWED_TOO}[name])
    same({**FOLLOWED, **FOLLOWED_TOO}[name], fullgraph=True)
    assert native["call_outs"] == native["hand_overs"] == 0


@pytest.mark.parametrize("name", BREAKS)
def test_breaks(name):
    function = BREAKS[name]
    same(function)
    assert kt._dynamo.explain(function)(x3()).break_reasons
