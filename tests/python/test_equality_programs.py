"""Compiled equals eager, continued from test_equality.py: random chains of operations, in-place updates over overlapping
views, read-only sources, values of 0-d tensors."""
import itertools
import random

import kintsugi as kt
import numpy as np
import pytest
from kintsugi._runtime import _driver

from test_equality import (BINARY, DTYPES, NUMBERS, OPS, REDUCTIONS, SAMPLED, STRESS, UNARY, check, compiled_anew, contiguous,
                           literal, no_fallbacks, outcome, sliced, strided, transposed, values)

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

SHAPES = [(4, 5), (5,), (4, 1), (1, 5), (), (1,)]
BY_BITS = [name for name, row in OPS.items() if row.dtype_rule in ("kPromoteBits", "kPromoteInteger")]  # floats raise
NO_ZERO_DIVISION = {"floor_divide": "div", "remainder": "mul"}  # on integers these raise now and then; few chains do


def random_chain(draw):
    """Source of f(a, b, c): 2 to 12 operations over earlier values, one time in two with a reduction at the end."""
    names = ["a", "b", "c"]
    lines = []
    for step in range(draw.randint(2, 12)):
        name = draw.choice(BINARY + UNARY + ["where"])
        if name in NO_ZERO_DIVISION and draw.random() < 0.8:
            name = NO_ZERO_DIVISION[name]
        operands = [draw.choice(names) for _ in range(OPS[name].arity)]
        kind = draw.choice(["int", "float", "bool"])
        if name in BY_BITS and draw.random() < 0.9:
            operands = [f"{operand}.{draw.choice(['int', 'long'])}()" for operand in operands]
            kind = "int"
        if OPS[name].arity > 1 and draw.random() < 0.3:
            operands[-1] = literal(draw.choice(NUMBERS[kind]))
        if name == "where":
            operands[0] = f"{draw.choice(names)} > {draw.choice(names)}"
        lines.append(f" v{step} = kt.{name}({', '.join(operands)})")
        names.append(f"v{step}")
    end = names[-1]
    if draw.random() < 0.5:
        lines.append(f" r = kt.{draw.choice(REDUCTIONS)}({end}{draw.choice(['', ', -1', ', 0'])})")
        end = "r" if draw.random() < 0.5 else f"r, {draw.choice(names)}"
    return "def f(a, b, c):\n" + "\n".join(lines) + f"\n return {end}"


@pytest.mark.parametrize("seed", range(12))
def test_chains(seed):
    """Fixed sizes: each chain compiled for its own operands."""
    draw = random.Random(seed)
    for number in range(10 if SAMPLED else 50):
        source = random_chain(draw)
        dtypes = [draw.choice(DTYPES) for _ in range(3)]
        shapes = [draw.choice(SHAPES) for _ in range(3)]
        place = draw.choice([contiguous, sliced])
        arrays = [values(dtype, shape, number + i) for i, (dtype, shape) in enumerate(zip(dtypes, shapes))]
        check(source, lambda: [place(array) for array in arrays], kernels=False)


@pytest.mark.parametrize("seed", range(6))
def test_chains_of_many_sizes(seed):
    draw = random.Random(1000 + seed)
    for _ in range(5 if SAMPLED else 25):
        plain, compiled = compiled_anew(random_chain(draw))
        dtypes = [draw.choice(DTYPES) for _ in range(3)]
        shapes = draw.choice([("n", "n", "n"), ("n", (), "n"), ("mn", "n", ()), ("mn", "m1", "n"), ("mn", "mn", "mn")])
        for n, m in [(5, 3), (6, 3), (17, 4), (1, 1), (0, 2), (70, 2), (33, 3), (5, 3)]:
            sizes = {"n": (n,), "mn": (m, n), "m1": (m, 1)}
            arrays = [values(dtype, sizes.get(shape, shape), n) for dtype, shape in zip(dtypes, shapes)]
            want = outcome(plain, [contiguous(array) for array in arrays])
            assert outcome(compiled, [contiguous(array) for array in arrays]) == want, (plain.__code__.co_consts, n, m)
    no_fallbacks()


# Over a vector x of n elements, in program order whatever meets in memory; y another.
ALIASING = [
    "x[1:] += x[:-1]", "x[:-1] += x[1:]", "x[1:] = x[:-1]", "x[:-1] = x[1:]", "x[2:] *= x[:-2] + 1", "x[::2] += x[1::2][:1]", "x[:] = x * 2 + x",
    "v = x[1:]; w = x[:-1]; v += 1; w *= 2; v -= w", "v = x[1:]; t = x * 2; v.copy_(t[1:]); t += v.sum()", "t = x[1:] + x[:-1]; x *= 0; x[1:] = t",
    "t = x + 1; x += 1; t2 = t + x; x -= t2", "v = x.reshape(-1); v += 1; x *= v", "v = x[None]; v += x; v *= 2", "s = x.sum(); x += s; s2 = x.sum(); x -= s2",
    "y = x; y += 1; x = x * y", "y = x.clone(); y += x; x -= y", "x[0] = x[-1]; x[-1] = x[0] * 2", "v = x[1:]; x += 1; y = v * 2; v += y",
    "m = x > 0; x *= 2; x[:] = kt.where(m, x, -x) if x.dtype != kt.bool else x", "x += x", "x.add_(x).mul_(x)", "x[1:].add_(x[:-1]).mul_(2)",
    "v = x.expand(3, x.shape[0]); t = v + 1; x += 1; t = t + v; x += t[0]", "v = x[::2]; w = x[1::2]; v += 1; w += v.sum(); v *= 2",
    "a, b = x[:2], x[-2:]; a += b; b += a", "for i in range(1, min(4, len(x))): x[i] += x[i - 1]", "v = x.view(len(x)); t = v + v; v.zero_(); x += t",
]
MATRIX_ALIASING = ["x[:] = x.T", "x += x.T", "x.T[1:] += x[:-1]", "x[0] = x[:, 0]", "x[:, 0] += x[0]", "v = x.T; x *= 2; v += 1; x -= v", "x[1:, 1:] += x[:-1, :-1]",
                   "x[:] = x @ x", "d = x[0]; x += d; x -= d", "x -= x[:1]", "x *= x[:, :1]", "t = x.T + x; x.copy_(t)"]


@pytest.mark.parametrize("statements", ALIASING)
def test_aliasing(statements):
    source = f"def f(x):\n {statements}\n return x"
    for dtype, length in zip(itertools.cycle(DTYPES), (2, 3, 8, 9, 17, 33, 70, 4, 5, 16)):
        for place in (contiguous, strided):
            check(source, lambda: [place(values(dtype, (length,), 1))], kernels=False)
    plain, compiled = compiled_anew(source)
    for length in (5, 9, 17, 2, 70):  # one function, many lengths
        array = values("float64", (length,), 2)
        assert outcome(compiled, [contiguous(array)]) == outcome(plain, [contiguous(array)]), length


@pytest.mark.parametrize("statements", MATRIX_ALIASING)
def test_aliasing_of_matrices(statements):
    for dtype, size in zip(itertools.cycle(DTYPES), (2, 3, 4, 9, 17, 5, 8)):
        for place in (contiguous, sliced, transposed):
            check(f"def f(x):\n {statements}\n return x", lambda: [place(values(dtype, (size, size), 1))], kernels=False)


@pytest.mark.parametrize("source", ["x += y\n return x, y", "x[1:] = y[:-1]\n return x + y", "x *= 2\n y += x\n return x, y", "z = x + y\n x -= z\n return z * y",
                                    "x.copy_(y)\n y[0] = 7\n return x, y", "t = y * 2\n x += 1\n return t + y"])
def test_arguments_that_overlap(source):
    """The same function with separate, identical, shifted and strided arguments, in every order."""
    def separate():
        return [contiguous(values("float32", (9,), 1)), contiguous(values("float32", (9,), 2))]

    def same():
        return [contiguous(values("float32", (9,), 1))] * 2

    def shifted():
        base = contiguous(values("float32", (12,), 1))
        return [base[1:10], base[:9]]

    def ahead():
        base = contiguous(values("float32", (12,), 1))
        return [base[:9], base[3:]]

    def interleaved():
        base = contiguous(values("float32", (18,), 1))
        return [base[::2], base[1::2]]

    makers = (separate, same, shifted, ahead, interleaved)
    for order in itertools.permutations(makers, 3):
        plain, compiled = compiled_anew(f"def f(x, y):\n {source}")
        for make in order * 2:
            assert outcome(compiled, make()) == outcome(plain, make()), (make.__name__, [each.__name__ for each in order])


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return kt.from_numpy(array)


READ_ONLY = ["x + 1", "x.sum()", "x[1:] * 2", "x.T", "x.add_(1)", "x[1:].fill_(0)", "x.clone().add_(1)", "x.reshape(-1) + x.reshape(-1)", "x.copy_(x + 1)"]


@pytest.mark.parametrize("text", READ_ONLY)
def test_read_only_sources(text):
    for dtype in DTYPES:
        check(f"def f(x):\n return {text}", lambda: [read_only(values(dtype, (4, 3), 1))], kernels=False)
        check(f"def f(x):\n y = {text}\n x[0] = 1\n return y", lambda: [read_only(values(dtype, (4, 3), 1))], kernels=False)
    # Compiled for one that may be written: the flag belongs to the memory, not to the layout.
    plain, compiled = compiled_anew(f"def f(x):\n return {text}")
    for make in (contiguous, read_only, contiguous, read_only):
        array = values("float32", (4, 3), 1)
        assert outcome(compiled, [make(array)]) == outcome(plain, [make(array)]), make.__name__


SCALARS = ["x.item()", "x + x.item()", "float(x)", "int(x)", "bool(x)", "1 if x else 2", "x.item() * 2 + 1", "[x.item(), -x.item()]", "f'{x.item()}'", "x.tolist()",
           "x > 0", "x and 5", "not x", "round(x.item(), 2)", "x.item() == x", "max(x.item(), 0)", "(x.item(), x.sum().item(), (x + x).item())", "x.item() is x.item()"]


@pytest.mark.parametrize("text", SCALARS)
def test_values_of_scalars(text):
    """One function over values that change its branches and their types."""
    for dtype in DTYPES:
        plain, compiled = compiled_anew(f"def f(x):\n return {text}")
        for number in (0, 1, -1, 2.5, -0.0, 1e9, float("nan"), float("inf"), 7, 2**31 - 1):
            array = np.asarray(number).astype(dtype)
            want = outcome(plain, [kt.from_numpy(array)])
            if "is x" in text and want[0][0] is float:
                continue
            for _ in range(2):
                assert outcome(compiled, [kt.from_numpy(array)]) == want, (dtype, number)
    no_fallbacks()


def test_random_draws():
    """The same draws at the same places in the stream, whatever runs around them."""
    sources = ["kt.manual_seed(s)\n a = kt.rand(5)\n b = kt.randn(3)\n return a, b, kt.rand(2, 2)", "kt.manual_seed(s)\n t = kt.zeros(3)\n for _ in range(4):\n  t = t + kt.randn(3)\n return t, kt.rand(1).item()",
               "kt.manual_seed(s)\n if kt.rand(1).item() < 0.5:\n  return kt.randn(4)\n return kt.rand(4), kt.rand(4)", "kt.manual_seed(s)\n return [kt.rand(n).sum() for n in (1, 2, 3)]"]
    for source in sources:
        plain, compiled = compiled_anew(f"def f(s):\n {source}")
        for seed in (0, 1, 2, 0, 2**40, -1, 3):
            assert outcome(compiled, [seed]) == outcome(plain, [seed]), (source, seed)


# ---- What is followed without a break ------------------------------------------------------------------------------------

FOLLOWED_PRELUDE = """
import enum
from abc import ABC

class Mode(enum.Enum):
    SLOW = 1
    FAST = 2

class Base(ABC):
    factor = 3
    @classmethod
    def scaled(cls, x): return x * cls.factor

class Vec:
    def __init__(self, data): self.data = data
    def __mul__(self, other): return Vec(self.data * (other.data if isinstance(other, Vec) else other))
    def __rmul__(self, other): return Vec(self.data * other)
    def __truediv__(self, other): return self * (1.0 / other)
    def __abs__(self): return (self.data * self.data).sum()
"""
FOLLOWED = [
    "return (Vec(x) * kt.ones(3)).data", "return (kt.ones(3) * 2 * Vec(x)).data", "v = Vec(x)\n return (v / abs(v)).data", "t = kt.ones(3)\n t *= Vec(x)\n return t.data",
    "return x * 2 if mode is Mode.FAST else x * 3", "return Base.scaled(x) + Base.factor",
    "for i in (-1, 0, 1):\n  for j in (-1, 0, 1):\n   if i or j: x = x + i * x * j\n return x",
]


@pytest.mark.parametrize("body", FOLLOWED)
def test_followed(body, stress):
    space = {"kt": kt}
    exec(FOLLOWED_PRELUDE + f"def f(x, mode):\n {body}", space)
    compiled = kt.compile(space["f"])
    for mode in (space["Mode"].FAST, space["Mode"].SLOW, space["Mode"].FAST):
        assert outcome(compiled, [kt.arange(3) + 1, mode]) == outcome(space["f"], [kt.arange(3) + 1, mode])
    if not stress:
        assert _driver.counts("native")["call_outs"] == 0, _driver.counts("graph_break")


def test_keys_of_every_kind():
    """A dict whose keys are numbers, tuples, classes and plain instances: found, missing, and equal to another kind."""
    keys = [1, 2.5, "a", (1, 2), (1, "a"), int, kt.Tensor, object(), None, True, -1, b"x"]
    known = {2.5: 1.0, (1, 2): 2.0, int: 3.0, keys[7]: 4.0, "a": 5.0, None: 6.0, 1.0: 7.0}
    plain, compiled = compiled_anew("def f(x, known, key):\n return x * known.get(key, 0.5) if key in known or key is None else -x")
    for key in keys * 2:
        assert outcome(compiled, [kt.ones(2), known, key]) == outcome(plain, [kt.ones(2), known, key]), key
    assert "tiny_code_memory" in STRESS or all("limit" in text for text in _driver.counts("fallback"))  # more kinds of key than an entry has segments


class Scale(float):
    """A number to tensors, whatever its class says about being multiplied."""
    def __rmul__(self, other):
        return "never asked"

    def __mul__(self, other):
        return "asked"


@pytest.mark.parametrize("text", ["x * s", "s * x", "x + s", "x - s", "s - x"])
def test_numbers_of_a_class_of_their_own(text):
    plain, compiled = compiled_anew(f"def f(x, s):\n return {text}")
    for number in (2.0, 3.0, 2.0):
        assert outcome(compiled, [kt.ones(2), Scale(number)]) == outcome(plain, [kt.ones(2), Scale(number)])


def test_an_int_that_stops_fitting():
    """A number that varies is an input; beside int32 it is refused, from whichever call on it does not fit."""
    source = "def f(x, n):\n return x * n"
    for order in ((1, 2, 3, 2**31, 4, -2**31 - 1, 5), (2**31, 2**32, 2**33, 1, 2**34)):
        space = {}
        exec(source, space)
        compiled = kt.compile(space["f"])
        for n in order:
            x = kt.tensor([1, -1], dtype=kt.int32)
            if -2**31 <= n < 2**31:
                assert compiled(x, n).tolist() == [n, -n]
            else:
                with pytest.raises(OverflowError, match=f"{n} does not fit into int32"):
                    compiled(x, n)
