"""Compiled results equal eager results: dtype, shape, strides and bits, any NaN equal to any NaN (docs: decision 4).

Every callable of the runtime's own tables has a row here (a test sees to it), and each row runs over dtypes and memory
layouts, with sizes fixed and varying. A check calls the plain function and three times the compiled one, each with
arguments of its own, compares results and arguments, and reads in the counters that kernels ran natively. The same
results meet NumPy where it has the operation. test_equality_programs.py goes on with chains, aliasing and programs.
"""
import functools
import itertools
import pathlib
import random
import sys
import types
import zlib

import kintsugi as kt
import numpy as np
import pytest
from kintsugi._runtime import _driver

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "kernels"))
import ops_table
from comparing import SANITIZED, STRESS

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.isa, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

OPS = {row.name: row for row in ops_table.read_ops()}
DTYPES = [row.name for row in ops_table.read_dtypes()]
FLOATS = [name for name in DTYPES if name.startswith("float")]
# The switches do not change kernels, and the sanitizers are slow: some lengths suffice.
SAMPLED = STRESS != "" or SANITIZED
LENGTHS = (0, 1, 5, 8, 16, 17, 33, 70) if SAMPLED else range(71)
ELEMENTWISE = [name for name, row in OPS.items() if row.op_class == "kElementwise" and hasattr(kt, name)]
BINARY = [name for name in ELEMENTWISE if OPS[name].arity == 2]
UNARY = [name for name in ELEMENTWISE if OPS[name].arity == 1]
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "eq": "==", "ne": "!=",
             "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
             "bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


# ---- Checks, also for test_equality_programs.py ----------------------------------------------------------------------


def bits(tensor):
    """Everything about a tensor that must agree, as plain data."""
    array = tensor.numpy()
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type("nan"), array)  # one NaN for all
    return str(tensor.dtype), tuple(tensor.shape), tensor.stride(), array.tobytes()


def seen(value):
    if isinstance(value, kt.Tensor):
        return bits(value)
    if isinstance(value, (tuple, list)):
        return type(value), [seen(item) for item in value]
    return type(value), repr(value)


def outcome(function, arguments):
    """The result or the exception, and the arguments afterwards."""
    try:
        result = seen(function(*arguments))
    except Exception as error:
        result = type(error), str(error)
    return result, [seen(argument) for argument in arguments]


def compiled_anew(source, cache={}):
    """f of the source, plain and compiled; a code object that has no segments yet."""
    if source not in cache:
        space = {"kt": kt, "np": np}
        exec(source, space)
        cache[source] = space["f"]
    plain = cache[source]
    return plain, kt.compile(type(plain)(plain.__code__.replace(), plain.__globals__, "f"))


def no_fallbacks():
    if "tiny_code_memory" not in STRESS:  # whose purpose they are
        assert _driver.counts("native")["fallbacks"] == 0, _driver.counts("fallback")


def check(source, make_arguments, kernels=True):
    """Three compiled calls against a plain one. kernels: the third one runs some, unless it raises."""
    plain, compiled = compiled_anew(source)
    arguments = make_arguments()
    want = outcome(plain, arguments)
    for call in range(3):
        before = _driver.counts("native")
        got = outcome(compiled, make_arguments())
        assert got == want, (source, call, arguments)
    no_fallbacks()
    after = _driver.counts("native")
    raised = isinstance(want[0][0], type) and issubclass(want[0][0], Exception)
    # Where every instruction is a break nothing is left for kernels; code memory that is full runs the call plain.
    if kernels and not raised and STRESS not in ("break_everywhere", "tiny_code_memory"):
        assert after["kernels"] > before["kernels"], source
    return None if raised else plain(*make_arguments())


# ---- Data: by dtype, shape and seed; every layout holds the same elements ---------------------------------------------

SPECIAL = {"f": [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-40, -5e-324, 3e38, 0.5, 1e17],
           "i": [0, 1, -1, 2, -2**31, 2**31 - 1, 7, -7]}


@functools.cache
def values(dtype, shape, seed=0):
    """Common numbers, with special ones mixed in from the eleventh element on; read-only."""
    draw = np.random.default_rng(zlib.crc32(repr((dtype, shape, seed)).encode()))
    if dtype == "bool":
        array = draw.integers(0, 2, shape)
    else:
        array = draw.uniform(-4, 4, shape) if dtype in FLOATS else draw.integers(-9, 10, shape)
    array = np.asarray(array).astype(dtype)
    flat = array.reshape(-1)
    special = SPECIAL.get(array.dtype.kind)
    for at in range(10, flat.size, 3) if special else ():
        flat[at] = np.asarray(special[(at + seed) // 3 % len(special)]).astype(dtype)
    array.setflags(write=False)
    return array


def nonzero(array):
    return np.where(array == 0, np.ones_like(array), array)


def contiguous(array):
    return kt.from_numpy(array.copy())


def sliced(array):
    """Inside something larger: an offset, and rows apart from each other."""
    wide = np.full(tuple(size + 3 for size in array.shape), 1, array.dtype)
    inside = tuple(slice(1, size + 1) for size in array.shape)
    wide[inside] = array
    return kt.from_numpy(wide)[inside]


def strided(array):
    wide = np.full(array.shape[:-1] + (array.shape[-1] * 2,), 1, array.dtype)
    wide[..., ::2] = array
    return kt.from_numpy(wide)[..., ::2]


def transposed(array):
    return kt.from_numpy(array.T.copy()).T


def repeated(array):
    """The first row or element, broadcast: stride 0."""
    return kt.from_numpy(array[:1].copy()).expand(*array.shape) if array.shape[0] else contiguous(array)


LAYOUTS = {1: (contiguous, sliced, strided, repeated), 2: (contiguous, sliced, strided, transposed, repeated),
           3: (contiguous, sliced, transposed)}


def layouts_in_turn(rank, operands):
    """Combinations of layouts without end."""
    return itertools.cycle(itertools.product(LAYOUTS[rank], repeat=operands))


# ---- Spellings: how a row of ops.def is written in Python --------------------------------------------------------------


def spellings(name):
    """(source of f, whether it writes into its first argument)."""
    letters = "abc"[:OPS[name].arity]
    commas, rest = ", ".join(letters), ", ".join(letters[1:])
    head = f"def f({commas}):\n return "
    yield head + f"kt.{name}({commas})", False
    if hasattr(kt.Tensor, name) and name != "where":
        yield head + f"a.{name}({rest})", False
    if name == "where":
        yield head + "b.where(a, c)", False
    if name in OPERATORS:
        yield head + f"a {OPERATORS[name]} b", False
        if name not in COMPARISONS:
            yield f"def f(a, b):\n a {OPERATORS[name]}= b\n return a", True
    if name in ("neg", "abs", "bitwise_not"):
        yield head + {"neg": "-a", "abs": "abs(a)", "bitwise_not": "~a"}[name], False
    if hasattr(kt.Tensor, name + "_"):
        yield head + f"a.{name}_({rest})", True


def operands_of(name, dtypes, shape, seed):
    arrays = [values(dtype, shape, seed + 5 * i) for i, dtype in enumerate(dtypes)]
    if OPS[name].may_raise and seed % 8:  # one of eight keeps its zeros, and raises for integers
        arrays[-1] = nonzero(arrays[-1])
    if name == "where":
        arrays[0] = arrays[0].astype(bool)
    return arrays


# ---- The tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_lengths(name, dtype):
    """Every length from 0 to 70, spellings and layouts in turn."""
    turns = zip(itertools.cycle(spellings(name)), layouts_in_turn(1, OPS[name].arity))
    for length, ((source, writes), layouts) in zip(LENGTHS, turns):
        if writes and layouts[0] is repeated:
            layouts = (sliced, *layouts[1:])
        arrays = operands_of(name, [dtype] * OPS[name].arity, (length,), length)
        result = check(source, lambda: [place(array) for place, array in zip(layouts, arrays)])
        if result is not None and not writes and repeated not in layouts:
            compare_with_numpy(name, arrays, result)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_layouts(name, dtype):
    """All combinations of layouts of matrices, some of rank 3; each spelling at least once."""
    seed = itertools.count()
    ways = itertools.cycle(spellings(name))
    for rank, shape in ((2, (3, 21)), (3, (2, 3, 5))):
        for layouts in itertools.product(LAYOUTS[rank], repeat=min(2, OPS[name].arity)):
            (source, writes), layouts = next(ways), (*layouts, contiguous)
            if writes and layouts[0] is repeated:
                layouts = (transposed, *layouts[1:])
            arrays = operands_of(name, [dtype] * OPS[name].arity, shape, next(seed))
            check(source, lambda: [place(array) for place, array in zip(layouts, arrays)])


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if OPS[name].arity > 1])
def test_mixed_dtypes_and_broadcasting(name):
    shapes = itertools.cycle([((5,), (5,)), ((4, 1), (7,)), ((), (9,)), ((3, 5), ()), ((2, 1, 3), (4, 1)), ((17,), (1,)), ((0, 3), (3,))])
    ways = itertools.cycle(spellings(name))
    for seed, dtypes in enumerate(itertools.product(DTYPES, repeat=2)):
        left, right = next(shapes)
        arrays = [operands_of(name, dtypes, shape, seed)[i] for i, shape in enumerate((left, right))]
        if name == "where":
            arrays.insert(0, values("bool", left))
        if seed % 8 and OPS[name].may_raise:
            arrays[-1] = nonzero(arrays[-1])
        check(next(ways)[0], lambda: [contiguous(array) for array in arrays])


NUMPY = {"div": np.true_divide, "neg": np.negative, "abs": np.abs, "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal,
         "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "add": np.add, "sub": np.subtract,
         "mul": np.multiply, "relu": lambda a: np.where(a < 0, np.zeros_like(a), a), "floor_divide": np.floor_divide,
         "remainder": np.remainder, "where": np.where}


def compare_with_numpy(name, arrays, result):
    """Exact, or within the row's bound and NumPy's own error."""
    got = result.numpy()
    if OPS[name].dtype_rule == "kPromoteFloat":
        arrays = [array.astype(got.dtype) for array in arrays]
    if name == "pow" and got.dtype.kind == "i":  # NumPy has no negative powers of integers
        usual = arrays[1] >= 0
        got, arrays = got[usual], [array[usual] for array in arrays]
    want = np.asarray(NUMPY.get(name, getattr(np, name, None))(*arrays)).astype(got.dtype)
    if name in ("floor_divide", "remainder") and got.dtype.kind == "f":  # NumPy and Python differ at infinities
        usual = np.isfinite(arrays[0]) & np.isfinite(arrays[1]) & (arrays[1] != 0)
        got, want = got[usual], want[usual]
    bound = OPS[name].max_ulp_f32
    if bound == 0 or got.dtype.kind != "f":
        assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f"), (name, arrays, got, want)
        return
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
    steps = np.abs(got[finite].astype("float64") - want[finite]) / np.maximum(np.spacing(np.abs(want[finite])), 1e-320)
    assert steps.size == 0 or steps.max() <= bound + 4, (name, arrays, got, want)


# Numbers as operands: a literal of the source, and a parameter whose value changes from call to call.
NUMBERS = {
    "int": [0, 1, -1, 3, -7, 100, 2**31 - 1, -2**31, 2**31, 2**53 + 1, 2**62, -2**63, 2**63, 2**70, 5],
    "float": [0.0, -0.0, 1.0, -1.0, 2.5, -0.75, float("nan"), float("inf"), -float("inf"), 5e-324, 1e300, 3.5e38, 0.1],
    "bool": [True, False, True],
    "numpy float": [np.float32(2.5), np.float32("nan"), np.float64(-0.0), np.float64(1e300), np.float32(0.1)],
    "numpy int": [np.int8(3), np.int64(-7), np.int32(2**31 - 1), np.uint8(200), np.int64(2**62), np.bool_(True)],
}


def literal(number):
    if isinstance(number, np.generic):
        return f"np.{type(number).__name__}({str(number)!r})" if not isinstance(number, np.bool_) else f"np.bool_({bool(number)})"
    return f"float({str(number)!r})" if isinstance(number, float) and not np.isfinite(number) else f"({number!r})"


def with_number(name):
    yield f"def f(a, n):\n return kt.{name}(a, n)", f"kt.{name}(a, {{}})"
    if name in OPERATORS:
        operator = OPERATORS[name]
        yield f"def f(a, n):\n return a {operator} n", f"a {operator} {{}}"
        yield f"def f(a, n):\n return n {operator} a", f"{{}} {operator} a"
        if name not in COMPARISONS:
            yield f"def f(a, n):\n a {operator}= n\n return a", None
    if hasattr(kt.Tensor, name + "_"):
        yield f"def f(a, n):\n return a.{name}_(n)", None


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", BINARY)
def test_numbers(name, kind):
    for dtype, length in zip(DTYPES, (3, 17, 8, 19, 5)):
        array = operands_of(name, [dtype] * 2, (length,), length)[1]
        for source, text in with_number(name):
            plain, compiled = compiled_anew(source)
            for number in NUMBERS[kind] * 2:
                want = outcome(plain, (contiguous(array), number))
                assert outcome(compiled, (contiguous(array), number)) == want, (source, dtype, number)
            if text is not None:
                number = random.choice(NUMBERS[kind])
                check(f"def f(a):\n return {text.format(literal(number))}", lambda: [contiguous(array)], kernels="numpy" not in kind)
    no_fallbacks()


def test_where_with_numbers():
    for dtype, (x, y) in itertools.product(DTYPES, [(1, 2.5), (True, 3), (-0.0, 0.0), (7, 2**40), (float("nan"), 1)]):
        check("def f(m, x, y):\n return kt.where(m, x, y)", lambda: [contiguous(values("bool", (13,))), contiguous(values(dtype, (13,))), y])
        check("def f(m, x, y):\n return kt.where(m, x, y)", lambda: [contiguous(values("bool", (13,))), x, contiguous(values(dtype, (13,)))])
        check("def f(m, x, y):\n return kt.where(m, x, y)", lambda: [contiguous(values("bool", (13,))), x, y])


REDUCTIONS = [name for name, row in OPS.items() if row.op_class == "kReduction"]


def reductions(name, rank):
    yield f"x.{name}()"
    yield f"kt.{name}(x)"
    for dim in (*range(-rank, rank), *(() if name == "argmax" else [(0, rank - 1)] if rank > 1 else [(0,)])):
        yield f"x.{name}({dim})"
        yield f"kt.{name}(x, dim={dim}, keepdim=True)"
    if name in ("sum", "mean"):
        yield f"x.{name}(dim=0, dtype=kt.float64)"
    if name in ("amax", "amin"):
        yield f"x.{name.removeprefix('a')}()"
        yield f"kt.{name.removeprefix('a')}(x)"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    """Alone, and at the end of a chain; every length, every layout, every dimension."""
    ways = itertools.cycle(reductions(name, 1))
    for length, (place,) in zip(LENGTHS, layouts_in_turn(1, 1)):
        array = values(dtype, (length,), length)
        check(f"def f(x):\n return {next(ways)}", lambda: [place(array)])
    for rank, shapes in ((2, [(3, 21), (16, 5), (0, 3), (2, 0), (70, 70)]), (3, [(2, 3, 5), (4, 1, 17)])):
        places = itertools.cycle(LAYOUTS[rank])
        for shape, way in itertools.product(shapes, reductions(name, rank)):
            place, array = next(places), values(dtype, shape, len(way))
            check(f"def f(x):\n return {way}", lambda: [place(array)])
            check(f"def f(x):\n x = x * x + x\n return {way}", lambda: [place(array)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul(dtype):
    shapes = [((n, k), (k, m)) for n, k, m in itertools.product((0, 1, 2, 3, 4, 8, 9), repeat=3) if (n + k + m) % 2 or n == k == m]
    shapes += [((k,), (k,)) for k in (0, 1, 5, 16)] + [((3, k), (k,)) for k in (0, 1, 4, 20)] + [((k,), (k, 3)) for k in (0, 1, 4, 20)]
    shapes += [((2, 3, 4), (4, 5)), ((2, 1, 3, 3), (4, 3, 3)), ((3, 4), (2, 4, 1)), ((2, 3, 4), (4,)), ((33, 17), (17, 40)), ((2, 3), (4, 5))]
    for turn, (left, right) in enumerate(shapes):
        places = [LAYOUTS.get(len(shape), LAYOUTS[3])[(turn + i) % 3] if 0 not in shape else contiguous for i, shape in enumerate((left, right))]
        arrays = [values(dtype, shape, 1 + i) for i, shape in enumerate((left, right))]
        text = ("a @ b", "kt.matmul(a, b)", "a.matmul(b)")[turn % 3]
        check(f"def f(a, b):\n return {text}", lambda: [place(array) for place, array in zip(places, arrays)], kernels=False)
        if turn % 4 == 0 and dtype != "bool":
            check(f"def f(a, b):\n return ({text} * 2 + 1).sum()", lambda: [place(array) for place, array in zip(places, arrays)])


# Other functions and methods, by name: expressions over x (a matrix of 3 x 4 or what `data` says) and y (another).
OTHERS = {
    "reshape": ["x.reshape(4, 3)", "x.reshape((2, -1))", "kt.reshape(x, (12,))", "x.T.reshape(3, 4)", "x.reshape(-1) + 1"],
    "view": ["x.view(12)", "x.view(2, 6)", "x.T.view(12)", "x.view(4, 3) * 2"],
    "flatten": ["x.flatten()", "kt.flatten(x)", "x.flatten(0, 1)", "x.T.flatten()", "x[None].flatten(1)"],
    "transpose": ["x.transpose(0, 1)", "kt.transpose(x, -1, 0)", "x.transpose(0, 1) + y.transpose(0, 1)"],
    "permute": ["x.permute(1, 0)", "kt.permute(x, (1, 0))", "x[None].permute(2, 0, 1) * 2"],
    "t": ["x.t()", "kt.t(x)", "x.t() + 1", "x.t().t()"],
    "T": ["x.T", "x.T + y.T", "x[0].T"],
    "expand": ["x[:1].expand(5, 4)", "x[:, :1].expand(-1, 6) + 1", "x[0].expand(2, 3, 4)", "x.expand(7, 4)"],
    "unsqueeze": ["x.unsqueeze(0)", "kt.unsqueeze(x, -1)", "x.unsqueeze(1) * y"],
    "squeeze": ["x[:1].squeeze()", "kt.squeeze(x[None])", "x[:, :1].squeeze(1)", "x.squeeze(0) + 1"],
    "detach": ["x.detach()", "x.detach() * 2"],
    "nonzero": ["x.nonzero()", "kt.nonzero(x) + 1", "x.T.nonzero(as_tuple=True)"],
    "clone": ["x.clone()", "kt.clone(x)", "x.T.clone()", "x[:, ::2].clone() + 1"],
    "contiguous": ["x.contiguous()", "x.T.contiguous()", "x[:, ::2].contiguous() + 1"],
    "cpu": ["x.cpu()", "x.cpu() + 1"],
    "to": [f"x.to(kt.{dtype})" for dtype in DTYPES] + ["x.to(dtype=kt.float64) + 1", "x.to('cpu')", "x.to(y)", "x.to(float)", "x.to(kt.int32, copy=True)"],
    "float": ["x.float()", "x.T.float() + y"], "double": ["x.double()", "x.double() / 3"], "int": ["x.int()", "x.int() + 1"],
    "long": ["x.long()", "x[:, 1:].long() * y.long()[:, 1:]"], "bool": ["x.bool()", "~x.bool()", "x.bool().sum()"],
    "max": ["x.max()", "kt.max(x)", "kt.max(x, y)", "x.max(y)", "x.max(1)"],
    "min": ["x.min()", "kt.min(x)", "kt.min(x, y)", "x.min(y)"],
    "where": ["x.where(x > y, y)", "kt.where(x > y, x, y)", "kt.where(x > 0, x, 0)", "kt.where(x > y, 1.5, y)"],
    "copy_": ["x.copy_(y)", "x[:, 1:].copy_(y[:, :3])", "x.copy_(y[:1])", "x[0].copy_(y + 1)"],
    "fill_": ["x.fill_(3)", "x[1].fill_(2.5)", "x[:, ::2].fill_(True)", "x.T.fill_(-0.0)"],
    "zero_": ["x.zero_()", "x[:, 1].zero_()"],
    "size": ["x.size()", "x.size(1)", "x.size(-1) + 0 * x.sum()"], "dim": ["x.dim()"], "numel": ["x.numel()", "x[:, 1:].numel()"],
    "ndim": ["x.ndim"], "shape": ["x.shape", "x[1:].shape[0] * x"], "dtype": ["x.dtype == kt.float32", "(x + 1.5).dtype"],
    "gather": ["x.gather(1, kt.tensor([[0, 3], [1, 1], [2, 0]]))", "kt.gather(x.T, 0, kt.arange(3).unsqueeze(0))", "x.gather(0, kt.tensor([[9]]))",
               "x.gather(1, kt.tensor([[0], [1]], dtype=kt.int32)) + 1", "x.gather(0, x)", "x.gather(0, kt.tensor([1]))"],
    "unfold": ["x.unfold(1, 2, 1)", "x.T.unfold(0, 3, 2) * 2", "x.unfold(1, 9, 1)", "x.unfold(0, 1, 0)", "x[0, 0].unfold(0, 1, 1)"],
    "data": ["x.data + 1"], "requires_grad_": ["x.clone().requires_grad_(False)"], "is_leaf": ["x.is_leaf"], "grad": ["x.grad"],
    "grad_fn": ["x.grad_fn"], "retain_grad": ["x.retain_grad()"], "backward": ["x.backward()"], "_is_parameter": ["x._is_parameter"],
    "is_floating_point": ["x.is_floating_point()", "x.long().is_floating_point()"], "is_grad_enabled": ["(kt.is_grad_enabled(), x + 1)"],
    "is_inference_mode_enabled": ["(kt.is_inference_mode_enabled(), x + 1)"],
    "device": ["str(x.device)"], "requires_grad": ["x.requires_grad"], "itemsize": ["x.itemsize"], "nbytes": ["x.nbytes"],
    "element_size": ["x.element_size()"], "stride": ["x.stride()", "x.T.stride(0)"], "is_contiguous": ["x.is_contiguous()", "x.T.is_contiguous()"],
    "item": ["x[1, 2].item()", "x.sum().item()", "(x[0, 0] * 2).item()"], "tolist": ["x.tolist()", "(x.T * 2).tolist()"],
    "numpy": ["(x + 1).numpy().sum()"], "data_ptr": ["x.data_ptr() == x.T.data_ptr()"],
    "cat": ["kt.cat([x, y])", "kt.cat((x, y), dim=1)", "kt.cat([x, y.T.T, x], -1) + 1", "kt.cat([x, y.double()])", "kt.cat([x])", "kt.cat([x[:0], y])"],
    "stack": ["kt.stack([x, y])", "kt.stack((x, y), dim=2)", "kt.stack([x, y], -1).sum(-1)", "kt.stack([x[0], y[1]])"],
    "tensor": ["kt.tensor([1.0, 2.0]) + x[0, 0]", "kt.tensor([[1, 2], [3, 4]])", "kt.tensor(2.5) * x", "kt.tensor([True, False])", "kt.tensor([1, 2], dtype=kt.float64)"],
    "zeros": ["kt.zeros(3)", "kt.zeros(2, 3, dtype=kt.int64)", "kt.zeros((3, 4)) + x", "kt.zeros(x.shape)", "kt.zeros(0)"],
    "ones": ["kt.ones(3)", "kt.ones((2, 3), dtype=kt.bool)", "kt.ones(x.shape[1]) * x", "kt.ones(())"],
    "full": ["kt.full((2, 3), 7)", "kt.full((3,), -0.0)", "kt.full((2,), 2.9, dtype=kt.int32)", "kt.full((3, 4), True) & (x > 0)"],
    "zeros_like": ["kt.zeros_like(x)", "kt.zeros_like(x.T, dtype=kt.float64)"], "ones_like": ["kt.ones_like(x)", "kt.ones_like(x[:, ::2]) + 1"],
    "full_like": ["kt.full_like(x, 3)", "kt.full_like(x, 1.5, dtype=kt.float32)"],
    "eye": ["kt.eye(3)", "kt.eye(2, 4)", "kt.eye(4, dtype=kt.int64) @ kt.eye(4, dtype=kt.int64)", "x.double() @ kt.eye(4, dtype=kt.float64)", "kt.eye(0)"],
    "arange": ["kt.arange(5)", "kt.arange(1, 3, 0.25)", "kt.arange(5, 0, -2)", "kt.arange(4) * x", "kt.arange(0, 1, 0.1, dtype=kt.float64)", "kt.arange(0)"],
    "rand": ["kt.rand(5)", "kt.rand(2, 3, dtype=kt.float64)", "(kt.rand(3, 4), kt.rand(3, 4))", "kt.rand(x.shape) + x"],
    "randn": ["kt.randn(5)", "kt.randn((2, 17), dtype=kt.float64)", "kt.randn(4) * x + kt.rand(4)"],
    "manual_seed": ["(kt.manual_seed(3), kt.rand(3))[1]"],
    "is_tensor": ["kt.is_tensor(x)", "kt.is_tensor(3)"], "from_numpy": ["kt.from_numpy(np.arange(3.0)) + x[0, 0]"],
    "from_dlpack": ["kt.from_dlpack(x) + 1"],
    # Operators and slots without a row.
    "__getitem__": ["x[1]", "x[-1, 1:]", "x[..., 2]", "x[None, :, 1]", "x[::2, 1::2] * 2", "x[1, 2]", "x[5]", "x[:, -1] + x[0, 0]", "x[()]", "x[3:1]"],
    "__contains__": ["3 in x"], "__iter__": ["[row * 2 for row in x]", "list(x)"], "__len__": ["len(x)", "len(x[:, 1:]) * x"],
    "__pos__": ["+x"], "__bool__": ["bool(x[0, 0])", "1 if (x > 0).any() else 0"], "__float__": ["float(x[1, 1])"],
    "__int__": ["int(kt.tensor(7.5))"], "__index__": ["[1, 2, 3][kt.tensor(1)]"], "__matmul__": ["x.double() @ y.double().T"],
    "__rmatmul__": ["x.T.float() @ y.float()"], "__pow__": ["x ** 2", "2 ** x", "x ** 0.5"], "__xor__": ["(x > 0) ^ (y > 0)"],
    "__format__": ["f'{x[1, 1]}'", "f'{x.double()[0, 0]:.3f}'"], "__repr__": ["repr(x)", "str(x + 1)"], "__hash__": ["hash(x) == hash(x)"],
    "__copy__": ["__import__('copy').copy(x)"], "__deepcopy__": ["__import__('copy').deepcopy(x)"],
}
# Statements, the value of f afterwards: (x, y).
STATEMENTS = [
    "x[0] = y[1]", "x[:, 1] = 5", "x[...] = y + 1", "x[1:, ::2] = y[:2, 1::2]", "x[0, 0] = 2.5", "x[:] = x * 2", "x[1] = True", "x[:, :2] = y[:, 2:] - 1",
    "x <<= 1", "x >>= y", "x[1:] ^= y[0]", "x += 1", "x[1] += y[0]", "x[:, ::2] *= 2", "x -= x", "x.T[0] -= 3", "x &= 1", "x |= y", "x //= 2", "x %= 3", "x /= 2", "x **= 2", "x @= y", "x[9] = 1",
    "x[0] = y", "x[None] = 7", "x[-1, -1] += 1", "x[:0] = 3", "x[:, 1:3] = y[0, 1:3]", "x.add_(y).mul_(2)", "v = x[1:]; v += 1; x *= 2; y[0] = v[0]",
]


def test_every_callable_has_a_row():
    named = set(OTHERS) | set(OPS) | {name + "_" for name in OPS}
    module = {name for name in vars(kt._runtime) if not name.startswith("_")}
    module -= {"Tensor", "Size", "device", "dtype", *DTYPES}
    assert module - named == set()
    made_of_others = {name for name, value in vars(kt.Tensor).items() if isinstance(value, types.FunctionType)}
    methods = {name for name in vars(kt.Tensor) if not name.startswith("__")} - made_of_others  # test_operators.py
    assert methods - named == set()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OTHERS)
def test_other(name, dtype):
    for turn, text in enumerate(OTHERS[name]):
        for place in (contiguous, LAYOUTS[2][1 + turn % 3]):
            def make_arguments():
                kt.manual_seed(7)
                return place(values(dtype, (3, 4), 1)), contiguous(values(dtype, (3, 4), 2))
            check(f"def f(x, y):\n return {text}", make_arguments, kernels=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement(statement, dtype):
    for place, other in itertools.product((contiguous, sliced, strided, transposed), DTYPES):
        check(f"def f(x, y):\n {statement}\n return x, y", lambda: (place(values(dtype, (3, 4), 1)), contiguous(values(other, (3, 4), 2))), kernels=False)


@pytest.mark.parametrize("name", [*ELEMENTWISE, *REDUCTIONS, "matmul", "cat", "stack"])
def test_dynamic_sizes(name):
    """One compiled function, every length in a mixed order, few compilations."""
    arity = OPS[name].arity
    letters = "abc"[:arity] if arity > 0 else "ab"
    call = f"kt.{name}([a, b])" if arity < 0 else f"kt.{name}({', '.join(letters)})"
    for dtype in DTYPES:
        plain, compiled = compiled_anew(f"def f({', '.join(letters)}):\n return {call}")
        lengths = list(LENGTHS)
        random.shuffle(lengths)
        for length in lengths:
            arrays = operands_of(name, [dtype] * len(letters), (length,), 8 if length % 20 == 10 else 1)
            want = outcome(plain, [contiguous(array) for array in arrays])
            assert outcome(compiled, [contiguous(array) for array in arrays]) == want, (name, dtype, length)
    no_fallbacks()
    if not SAMPLED:
        assert _driver.counts("native")["segments"] <= 6 * len(DTYPES)


# Over x of shape (n, 2): what is made from sizes, and what reads or writes parts, must follow n.
VARYING = [
    "kt.zeros_like(x)", "kt.full_like(x, x.shape[0])", "kt.ones_like(x[1:]).sum()", "kt.zeros(x.shape)", "kt.zeros((x.shape[0], 2)) + x", "kt.ones([len(x)])",
    "kt.full((len(x), 2), 1.5) + x", "kt.full((3,), x.shape[0])", "kt.eye(len(x))", "kt.arange(len(x))", "kt.zeros(len(x) + 1, dtype=kt.int64)",
    "kt.tensor([float(len(x)), 2.0])", "kt.rand(len(x)).shape", "x.reshape(-1)", "x.reshape(x.shape[0] * 2)", "x.reshape(2, -1) + 1", "kt.reshape(x, (-1, 1))",
    "x.view(x.numel())", "x.flatten()", "x.T + 1", "x.t()", "x.permute(1, 0)", "x.transpose(0, 1).contiguous()", "x[None]", "x.unsqueeze(0)", "x.squeeze()",
    "x.expand(3, -1, -1)", "(x.numel(), x.size(), x.stride(), x.nbytes, x.is_contiguous(), x.shape == (5, 2), tuple(x.shape), len(x))", "x.clone()",
    "x.double()", "(x.mean(), x.mean(0), x.sum(1), x.argmax(), x.amax(1), x.any(0))", "kt.cat([x, x[:1]])", "kt.stack([x, x])", "kt.cat([x, x], 1)",
    "(x @ x.T, x.T @ x, x[:, 0] @ x[:, 1])", "(x[-1], x[len(x) - 1], x[::2], x[1:-1])", "x[1:] - x[:-1]", "[row * 2 for row in x]", "x.tolist()",
    "kt.where(x > 0.5, x, len(x))", "(x * len(x), len(x) / x, x.sum() / len(x), x.long() + len(x))", "x.where(x > 0.2, 0)",
]
VARYING_STATEMENTS = [
    "x[:, 0] = 1", "x[0] = 2", "x[-1] += 1", "x[1:] *= 2", "x.mul_(2)", "x.fill_(3)", "x[:] = x * 2", "x[:-1] = x[1:]", "x[:-1] += x[1:]", "x.copy_(x + 1)", "x[:, 1] += x[:, 0]",
    "y = kt.zeros_like(x); y[:-1] += x[1:]; x = y", "y = x[1:]; y += 1", "x.T[0] -= 3", "x[len(x) // 2] = 0", "x[x.shape[0] - 1, 1] = x[0, 0]", "x += x.sum(0)", "x -= x.mean()",
]


@pytest.mark.parametrize("body", [f"return {text}" for text in VARYING] + [f"{text}\n return x" for text in VARYING_STATEMENTS])
def test_sizes_that_vary(body):
    plain, compiled = compiled_anew(f"def f(x):\n {body}")
    for length in (5, 6, 7, 5, 9, 1, 0, 2, 30, 6, 70):
        array = values("float32", (length, 2))
        assert outcome(compiled, [contiguous(array)]) == outcome(plain, [contiguous(array)]), length
    no_fallbacks()
