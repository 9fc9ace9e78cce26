"""Faults that random programs found, each as the smallest program that showed it: (title, source, arguments)."""
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
""", [2, 5]),
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
""", []),
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
""", []) for ends in ("noisy = Noisy(log); noisy = None", "noisy = Noisy(log); del noisy", "Noisy(log)",
                      "parts = [Noisy(log)]; parts.clear()", "parts = [Noisy(log)]; parts[0] = 2",
                      "parts = {1: Noisy(log)}; del parts[1]", "held.append(Noisy(log)); held.pop()",
                      "noisy = Noisy(log); log.append(0)")],
    ("a bound builtin method that leaves", """
def f(x, values):
    count = values.count
    return x + 1, type(count), count(3), count
""", [[3, 1]]),
]


def outcome(function, arguments):
    try:
        value = function(kt.ones(3), *arguments)
    except Exception as error:
        value = error
    return snapshot([value, arguments])


@pytest.mark.parametrize("title, source, arguments", FINDS, ids=[find[0] for find in FINDS])
def test_finds(title, source, arguments):
    plain, ours = {"kt": kt}, {"kt": kt}
    exec(source, plain)
    exec(source, ours)
    compiled = kt.compile(ours["f"])
    for _ in range(3):
        expected = outcome(plain["f"], eval(repr(arguments)))
        assert outcome(compiled, eval(repr(arguments))) == expected


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
