"""Chains of element-wise operations over sizes that are known only at run time: one kernel where the sizes turn out equal, else one
operation after the other; the same values, layouts and errors. Loops whose end returns a local, from the loop's own segment."""
import random
import traceback

import pytest

import kintsugi as kt
from comparing import STRESS, native, snapshot


def chain(x, a, b):
    y = x * a + b
    return (y - x) * y + 1.5


def several(x, a, b):
    y = x * a
    z = y - b
    return y, z > 0, kt.where(z > 0, y, z), abs(z)


def mixed(x, a, b):
    return (x * a + 2).double() / (abs(b) + 1) - x


def summed(x, a, b):
    y = (x - a) * b
    return y.sum(), (y * y).mean(), y.max() if len(y) else y


def divided(x, a, b):
    whole = (x * 4).long()
    return (whole + 7) // (abs(b * 4).long() + 1) + whole * 2


def in_place(x, a, b):
    y = x * a + b
    y += a
    y *= y - b
    return y, y * 2 + x


def many(x, a, b):
    t = [x * k + a for k in range(1, 9)]
    u = [v * b for v in t]
    return sum(u[1:], u[0]), t[3]


def numbers(x, a, b, k=3, f=0.25, t=True):
    return (x * k + f) * a - t * b + len(x)


PROGRAMS = [chain, several, mixed, summed, divided, in_place, many, numbers]
KERNELS = {chain: 1, several: 1, numbers: 2}  # of a run over equal sizes


def floats(count, seed, dtype=kt.float32):
    draw = random.Random(seed)
    return kt.tensor([draw.uniform(-3, 3) for _ in range(count)], dtype=dtype)


def outcome(function, arguments):
    try:
        return snapshot(function(*arguments)), snapshot(list(arguments))
    except Exception as error:
        lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), str(error), lines


def arguments_of_every_kind(lengths):
    for count in [5, 6, *lengths]:
        yield floats(count, 1), floats(count, 2), floats(count, 3)
    base = floats(200, 4)
    yield base[:60], base[30:90], base[60:120]  # views that overlap
    yield base[::3], base[:67], base[100:167]
    yield base[:100][::2], base[:100][1::2], base[:50]
    yield floats(1, 5), floats(40, 6), floats(40, 7)  # broadcast
    yield floats(40, 8), floats(1, 9), floats(40, 10)
    yield floats(12, 11), floats(12, 11), floats(12, 11)
    same = floats(33, 12)
    yield same, same, same
    yield floats(9, 13), floats(9, 14), floats(8, 15)  # does not fit: raises at the second operation
    yield floats(9, 16), floats(8, 17), floats(9, 18)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_length_and_layout(program):
    compiled = kt.compile(program, dynamic=True)
    for arguments in arguments_of_every_kind(range(71) if program in KERNELS else (0, 1, 7, 31, 32, 33, 64, 70)):
        twins = [[argument.clone() for argument in arguments] if program is in_place else arguments for _ in range(2)]
        assert outcome(compiled, twins[0]) == outcome(program, twins[1]), [tuple(argument.shape) for argument in arguments]


@pytest.mark.parametrize("program", KERNELS, ids=lambda program: program.__name__)
@pytest.mark.skipif(STRESS != "", reason="counts kernels")
def test_equal_sizes_are_one_kernel(program):
    compiled = kt.compile(program, dynamic=True)
    for count in (5, 6, 7):
        arguments = floats(count, 1), floats(count, 2), floats(count, 3)
        compiled(*arguments)
    before = native["kernels"], native["segments"]
    compiled(*arguments)
    assert (native["kernels"], native["segments"]) == (before[0] + KERNELS[program], before[1])


@pytest.mark.parametrize("program", [chain, several, many], ids=lambda program: program.__name__)
def test_dtypes_and_ranks(program):
    for dtypes in ((kt.float64, kt.float32, kt.float32), (kt.int64, kt.int32, kt.float32), (kt.int32, kt.int32, kt.int32)):
        compiled = kt.compile(program, dynamic=True)
        for rows, columns in ((2, 3), (4, 5), (6, 7), (5, 1), (1, 5), (3, 3)):
            flat = [floats(rows * columns, seed, kt.float32).to(dtype) for seed, dtype in enumerate(dtypes)]
            whole = [one.reshape(rows, columns) for one in flat]
            turned = [one.reshape(columns, rows).t() for one in flat]
            for arguments in (whole, turned, [whole[0], turned[1], whole[2]], [whole[0], whole[1][:1], whole[2]],
                              [whole[0], whole[1].sum(), whole[2]], [whole[0].sum(), whole[1], whole[2][:, :1]]):
                assert outcome(compiled, arguments) == outcome(program, arguments)


def test_large_ones_run_without_the_lock():
    compiled = kt.compile(chain, dynamic=True)
    for count in (5, 6, 70_000):
        arguments = [kt.arange(count) * scale for scale in (0.001, 0.5, -0.25)]
        assert bool((compiled(*arguments) == chain(*arguments)).all())


def test_an_error_is_raised_at_its_operation():
    def guarded(x, a, b):
        done = []
        try:
            y = x + a
            done.append(y)
            z = y * b
            done.append(z)
            return z - x, done
        except RuntimeError as error:
            return str(error), done
    compiled = kt.compile(guarded, dynamic=True)
    for sizes in ((4, 4, 4), (5, 5, 5), (6, 6, 6), (6, 6, 5), (6, 5, 6), (7, 7, 7)):
        arguments = [floats(size, seed) for seed, size in enumerate(sizes)]
        assert outcome(compiled, arguments) == outcome(guarded, arguments)


def unlooked_at(x, a, b):
    x + a
    y = x * 2
    y - b
    return y


def test_an_error_is_raised_though_nobody_looks_at_the_result():
    compiled = kt.compile(unlooked_at, dynamic=True)
    for n, m, k in ((3, 3, 3), (4, 4, 4), (4, 5, 4), (4, 4, 5), (1, 4, 4), (4, 1, 1), (4, 4, 4)):
        said = []
        for function in (unlooked_at, compiled):
            try:
                said.append(snapshot(function(kt.ones(n), kt.ones(m), kt.ones(k))))
            except RuntimeError as error:
                said.append((str(error), [each.lineno for each in traceback.extract_tb(error.__traceback__)[1:]]))
        assert said[0] == said[1]


@pytest.mark.parametrize("dynamic", [None, True])
def test_many_values(dynamic):
    """Each exit shows them all: neither the compiler's time nor the C stack may feel it."""
    count = 900
    space = {}
    exec("def f(x, y):\n kept = []\n" + " x = x * y\n kept.append(x)\n" * count + " return kept", space)
    for n in (3, 4):
        made = kt.compile(space["f"], dynamic=dynamic)(kt.ones(n), kt.ones(n) * 0.5)
        assert len(made) == count and made[1].tolist() == [0.25] * n and made[-1].tolist() == made[-2].mul(0.5).tolist()


def test_gradients_and_marks_stay():
    compiled = kt.compile(chain, dynamic=True)
    for count in (4, 5, 6):
        x = floats(count, 1).requires_grad_(count == 6)
        marked = floats(count, 2)
        kt._dynamo.mark_dynamic(marked, 0)
        arguments = x, marked, floats(count, 3)
        results = [function(*arguments) for function in (compiled, chain)]
        assert results[0].requires_grad == results[1].requires_grad
        assert snapshot(results[0]) == snapshot(results[1])


# ---- Loops that end in a return --------------------------------------------------------------------------------------


def scaled(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x


def kept(x, n):
    first = x
    for i in range(n):
        x = x + i
    return first


def counted(x, n):
    total = 0
    for i in range(n):
        x = x * 0.5
        total = total + i
    return total


def unbound(x, n):
    if n < 0:
        late = x
    for _ in range(n):
        x = x + 1
    return late  # noqa: F821


def handled(x, n):
    try:
        for _ in range(n):
            x = x + 1
        return x
    finally:
        TOLD.append(n)


def from_generator(x, n):
    def inside():
        y = x
        for _ in range(n):
            y = y + 1
            yield y
        return y
    walk = inside()
    while True:
        try:
            next(walk)
        except StopIteration as end:
            return end.value


def shared_iterator(x, n):
    walk = iter(range(n))
    for _ in walk:
        x = x + 1
    return walk


TOLD = []


@pytest.mark.parametrize("program", [scaled, kept, counted, unbound, handled, from_generator, shared_iterator],
                         ids=lambda program: program.__name__)
def test_loops_that_end_in_a_return(program):
    compiled = kt.compile(program)
    for n in (40, 100, 40, 200, 17, 1, 0, 1000):
        def run(function):
            TOLD.clear()
            result = outcome(lambda x, n: function(x, n) if program is not shared_iterator else list(function(x, n)), (floats(8, 3), n))
            return result[:2], list(TOLD)
        assert run(compiled) == run(program)


@pytest.mark.skipif(STRESS != "", reason="counts segments")
def test_a_returning_loop_is_two_segments():
    def halved(x, n):
        for _ in range(n):
            x = x * 0.5
        return x
    before = native["segments"], native["hand_overs"]
    compiled = kt.compile(halved)
    expected = halved(floats(8, 3), 500).tolist()
    assert compiled(floats(8, 3), 500).tolist() == expected
    assert (native["segments"], native["hand_overs"]) == (before[0] + 2, before[1])


# ---- Dimensions that vary ------------------------------------------------------------------------------------------------

DIMENSIONS = [lambda x, a, b: x.sum((a, b)), lambda x, a, b: x.sum([a, b]), lambda x, a, b: x.amax(dim=(a, b), keepdim=True),
              lambda x, a, b: x.mean((a,)), lambda x, a, b: x.sum(a, a > b), lambda x, a, b: x.argmax(a, keepdim=b > 1),
              lambda x, a, b: x.flatten(a), lambda x, a, b: x.flatten(min(a, b), end_dim=max(a, b)),
              lambda x, a, b: x.squeeze(a), lambda x, a, b: kt.amin(x, (a, b)).sum(-1)]


@pytest.mark.parametrize("number", range(len(DIMENSIONS)))
def test_dimensions_that_vary(number):
    """Numbers that vary decide what a result looks like, within tuples and lists too."""
    reduce = DIMENSIONS[number]

    def f(x, a, b):
        y = reduce(x, a, b)
        return y, y.dim(), tuple(y.shape), y + 1, y.sum()

    kt._dynamo.reset()
    compiled = kt.compile(f)
    draw = random.Random(number)
    for _ in range(60):
        sizes = draw.choice([(2, 3, 4), (2, 3, 4), (5, 3, 4), (1, 3, 1), (3, 1, 2)])
        a, b = draw.sample(range(3), 2)
        x = floats(sizes[0] * sizes[1] * sizes[2], number).reshape(sizes)
        assert snapshot(compiled(x, a, b)) == snapshot(f(x, a, b)), (sizes, a, b)
