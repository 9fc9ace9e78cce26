"""Values of eager ops against NumPy: every op x dtype x memory layout, promotion, numbers, in-place forms."""
import itertools

import kintsugi as kt
import numpy as np
import pytest

pytestmark = [pytest.mark.isa, pytest.mark.filterwarnings('ignore::RuntimeWarning')]

DTYPES = ('bool', 'int32', 'int64', 'float32', 'float64')
LENGTHS = (0, 1, 7, 8, 16, 17, 70)
RANDOM = np.random.default_rng(5)


def numpy_dtype(tensor):
    return str(tensor.dtype).removeprefix('kintsugi.')


def make(dtype, shape, nonzero=False):
    if dtype == 'bool':
        values = RANDOM.integers(0, 2, shape)
    elif dtype.startswith('int'):
        values = RANDOM.integers(-9, 10, shape)
        if nonzero:
            values = np.where(values == 0, 3, values)
    else:
        values = RANDOM.uniform(-4, 4, shape)
    return np.asarray(values).astype(dtype)


def layouts(array):
    """The same elements as tensors of different memory layouts."""
    plain = kt.from_numpy(array.copy())
    yield 'plain', plain
    wide = np.zeros(array.shape + (2,), array.dtype)
    wide[..., 1] = array
    yield 'strided', kt.from_numpy(wide)[..., 1]
    if array.ndim >= 2:
        yield 'transposed', kt.from_numpy(array.T.copy()).T
    padded = np.zeros((array.shape[0] + 2,) + array.shape[1:], array.dtype)
    padded[1:-1] = array
    yield 'sliced', kt.from_numpy(padded)[1:-1]


def assert_same(got, want, rtol=0.0):
    want = np.asarray(want)
    assert got.shape == want.shape
    assert numpy_dtype(got) == want.dtype.name
    np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=0)


BINARY = {
    'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'div': np.true_divide, 'floor_divide': np.floor_divide,
    'remainder': np.remainder, 'eq': np.equal, 'ne': np.not_equal, 'lt': np.less, 'le': np.less_equal, 'gt': np.greater,
    'ge': np.greater_equal, 'maximum': np.maximum, 'minimum': np.minimum, 'logical_and': np.logical_and,
    'logical_or': np.logical_or, 'atan2': np.arctan2, 'bitwise_and': np.bitwise_and, 'bitwise_or': np.bitwise_or,
    'bitwise_xor': np.bitwise_xor, 'bitwise_left_shift': np.left_shift, 'bitwise_right_shift': np.right_shift,
}
UNARY = {
    'neg': np.negative, 'abs': np.abs, 'sqrt': np.sqrt, 'exp': np.exp, 'log': np.log, 'sin': np.sin, 'cos': np.cos,
    'tanh': np.tanh, 'relu': lambda a: np.where(a < 0, np.zeros_like(a), a), 'logical_not': np.logical_not,
    'bitwise_not': np.invert,
}
FLOAT_RESULT = {'div', 'sqrt', 'exp', 'log', 'sin', 'cos', 'tanh', 'atan2'}
COMPARES = {'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'logical_and', 'logical_or', 'logical_not'}
SHIFTS = {'bitwise_left_shift': '<<', 'bitwise_right_shift': '>>'}
NO_BOOL = {'sub', 'neg', 'abs', 'floor_divide', 'remainder', 'relu', *SHIFTS}
NO_FLOAT = {'bitwise_and', 'bitwise_or', 'bitwise_xor', 'bitwise_not', *SHIFTS}
OPERATORS = {
    'add': '+', 'sub': '-', 'mul': '*', 'div': '/', 'floor_divide': '//', 'remainder': '%', 'eq': '==', 'ne': '!=',
    'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'bitwise_and': '&', 'bitwise_or': '|', 'bitwise_xor': '^', **SHIFTS,
}


def is_refused(name, dtype):
    return (dtype == 'bool' and name in NO_BOOL) or (dtype.startswith('float') and name in NO_FLOAT)


def compute(function, name, dtype, *arrays):
    """NumPy's answer with our result dtype."""
    if name in FLOAT_RESULT and dtype not in ('float32', 'float64'):
        return function(*(a.astype('float32') for a in arrays)).astype('float32')
    return function(*arrays).astype('bool' if name in COMPARES else dtype)


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', BINARY)
def test_binary(name, dtype):
    if is_refused(name, dtype):
        x = kt.ones(1, dtype=getattr(kt, dtype))
        with pytest.raises(RuntimeError, match=f'{name} is not defined for {dtype}'):
            getattr(kt, name)(x, x)
        return
    rtol = 4e-7 if name == 'atan2' else 0
    for length in LENGTHS:
        a, b = make(dtype, (length,)), make(dtype, (length,), nonzero=True)
        want = compute(BINARY[name], name, dtype, a, b)
        for (_, x), (_, y) in itertools.product(layouts(a), layouts(b)):
            assert_same(getattr(kt, name)(x, y), want, rtol)
            assert_same(getattr(x, name)(y), want, rtol)
            if name in OPERATORS:
                assert_same(eval(f'x {OPERATORS[name]} y'), want, rtol)


@pytest.mark.parametrize('name', BINARY)
def test_binary_broadcast(name):
    dtype = 'int32' if name in NO_FLOAT else 'float32'
    a, b = make(dtype, (3, 1, 5)), make(dtype, (4, 1), nonzero=True)
    want = BINARY[name](a, b)
    for (_, x), (_, y) in itertools.product(layouts(a), layouts(b)):
        assert_same(getattr(kt, name)(x, y), want, rtol=4e-7 if name == 'atan2' else 0)


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', UNARY)
def test_unary(name, dtype):
    if is_refused(name, dtype):
        with pytest.raises(RuntimeError, match=f'{name} is not defined for {dtype}'):
            getattr(kt, name)(kt.ones(1, dtype=getattr(kt, dtype)))
        return
    for length in LENGTHS:
        a = make(dtype, (length,))
        want = compute(UNARY[name], name, dtype, a)
        for _, x in layouts(a):
            assert_same(getattr(kt, name)(x), want, rtol=4e-7)
            assert_same(getattr(x, name)(), want, rtol=4e-7)


REDUCTIONS = {
    'sum': np.sum, 'mean': np.mean, 'amax': np.amax, 'amin': np.amin, 'any': np.any, 'all': np.all, 'argmax': np.argmax,
}
NUMBERS = [True, 3, 2.5, np.float32(2.5), np.float64(2.5), np.int8(3), np.int64(3), np.bool_(True)]


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', REDUCTIONS)
def test_reductions(name, dtype):
    if name == 'mean' and not dtype.startswith('float'):
        with pytest.raises((RuntimeError, TypeError)):
            kt.ones(3, dtype=getattr(kt, dtype)).mean()
        return
    array = make(dtype, (3, 17, 4))
    result = {'any': 'bool', 'all': 'bool', 'argmax': 'int64'}.get(name, dtype)
    if name == 'sum' and not dtype.startswith('float'):
        result = 'int64'
    for keepdim in (False, True):
        for dim in (None, 0, 1, 2, -1, (0, 2), (1, 2), (0, 1, 2)):
            if name == 'argmax' and isinstance(dim, tuple):
                continue
            if dim is None and keepdim:
                continue
            want = np.asarray(REDUCTIONS[name](array, axis=dim, keepdims=keepdim)).astype(result)
            for _, x in layouts(array):
                got = getattr(x, name)() if dim is None else getattr(x, name)(dim=dim, keepdim=keepdim)
                assert got.shape == want.shape
                assert numpy_dtype(got) == want.dtype.name
                np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, atol=2e-6)


def test_reductions_of_nothing():
    empty = kt.zeros((0, 3))
    assert empty.sum().item() == 0.0
    assert empty.sum(dim=0).tolist() == [0.0, 0.0, 0.0]
    assert kt.zeros(0).any().item() is False
    assert kt.zeros(0).all().item() is True
    for function in (kt.amax, kt.amin, kt.argmax):
        with pytest.raises((IndexError, RuntimeError)):
            function(kt.zeros(0))


def test_reduction_of_a_single_element():
    x = kt.tensor(3.0)
    assert x.sum().item() == x.sum(dim=0).item() == x.sum(-1).item() == x.amax(dim=0).item() == 3.0
    assert x.argmax().item() == x.argmax(dim=0).item() == 0
    assert x.max().item() == x.min().item() == 3.0
    assert kt.max(kt.tensor([1, 5, 2])).item() == 5
    assert kt.min(kt.tensor([4, 5, 2])).item() == 2
    assert kt.max(kt.tensor([1, 5]), kt.tensor([3, 3])).tolist() == [3, 5]


def test_sum_dtype():
    assert kt.ones(3).sum(dtype=kt.float64).dtype is kt.float64
    assert kt.tensor([True, True]).sum().item() == 2
    assert kt.tensor([1, 2], dtype=kt.int32).sum().dtype is kt.int64


@pytest.mark.parametrize('left,right,result', [
    ('bool', 'bool', 'bool'), ('bool', 'int32', 'int32'), ('int32', 'int64', 'int64'), ('int64', 'float32', 'float32'),
    ('float32', 'float64', 'float64'), ('int64', 'float64', 'float64'), ('bool', 'float32', 'float32'),
])
def test_promotion(left, right, result):
    a, b = kt.ones(2, dtype=getattr(kt, left)), kt.ones(2, dtype=getattr(kt, right))
    for c in (a + b, b + a, kt.maximum(a, b)):
        assert numpy_dtype(c) == result


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('number', NUMBERS)
def test_numbers(dtype, number):
    """A number takes the tensor to its own kind, never to more bits within a kind; a NumPy scalar is a number."""
    x = kt.ones(3, dtype=getattr(kt, dtype))
    kinds = ['bool', 'int', 'float']
    own = next(i for i, kind in enumerate(kinds) if dtype.startswith(kind))
    plain = number.item() if isinstance(number, np.generic) else number
    other = {bool: 0, int: 1, float: 2}[type(plain)]
    result = dtype if other <= own else ('int64' if other == 1 else 'float32')
    for got in (x + number, number + x, x * number, number * x, kt.maximum(x, number)):
        assert numpy_dtype(got) == result
    assert (x + number).tolist() == [1 + plain] * 3 if result != 'bool' else True
    if dtype != 'bool':
        assert (number - x).tolist() == [plain - 1] * 3
        assert (number / x).tolist() == [float(plain)] * 3
        assert (number // x).tolist() == [plain // 1] * 3
        assert (number % (x + 1)).tolist() == [plain % 2] * 3
    assert (number > x).tolist() == [plain > 1] * 3


def test_number_functions_need_a_tensor():
    for call in (lambda: kt.sqrt(2.0), lambda: kt.add(1, 2), lambda: kt.sin('x'), lambda: kt.ones(2) + 'x',
                 lambda: kt.ones(2) + None, lambda: [1] + kt.ones(2),
                 lambda: kt.ones(2) + np.ones(2), lambda: np.ones(2) + kt.ones(2)):
        with pytest.raises(TypeError):
            call()


def test_powers():
    x = kt.tensor([4.0, 9.0])
    assert (x**2).tolist() == [16.0, 81.0]
    assert (x**0.5).tolist() == [2.0, 3.0]
    assert (kt.tensor([3, -2])**2).tolist() == [9, 4]
    assert (2**x).tolist() == [16.0, 512.0]


def test_bool_operators():
    a, b = kt.tensor([True, True, False, False]), kt.tensor([True, False, True, False])
    assert (a & b).tolist() == [True, False, False, False]
    assert (a | b).tolist() == [True, True, True, False]
    assert (a ^ b).tolist() == [False, True, True, False]
    assert (~a).tolist() == [False, False, True, True]
    assert (a & True).tolist() == (True & a).tolist() == a.tolist()


def test_unary_operators():
    x = kt.tensor([1.0, -2.0])
    assert (-x).tolist() == [-1.0, 2.0]
    assert abs(x).tolist() == [1.0, 2.0]
    assert +x is x


def test_where():
    x = kt.tensor([1.0, -2.0, 3.0])
    assert kt.where(x > 0, x, 0).tolist() == [1.0, 0.0, 3.0]
    assert kt.where(x > 0, 1, 0).dtype is kt.int64
    assert x.where(x > 0, -1.0).tolist() == [1.0, -1.0, 3.0]


def test_integer_division():
    for dtype in (kt.int32, kt.int64):
        x = kt.tensor([7, -7, 0], dtype=dtype)
        for divide in (lambda: x // 0, lambda: x % 0, lambda: x // kt.tensor([1, 0, 1], dtype=dtype)):
            with pytest.raises(ZeroDivisionError):
                divide()
        kept = x.clone()
        with pytest.raises(ZeroDivisionError):
            x.floor_divide_(kt.tensor([1, 1, 0], dtype=dtype))
        assert x.tolist() == kept.tolist()
        low = -2**(31 if dtype is kt.int32 else 63)
        assert (kt.tensor([low], dtype=dtype) // -1).tolist() == [low]
        assert (kt.tensor([low], dtype=dtype) % -1).tolist() == [0]
    assert (kt.tensor([1, -1]) / 0).tolist() == [float('inf'), float('-inf')]


@pytest.mark.parametrize('dtype', DTYPES[1:])
def test_in_place(dtype):
    for length in (0, 1, 8, 33):
        array = make(dtype, (length,), nonzero=True)
        other = make(dtype, (length,), nonzero=True)
        for name in ('add', 'sub', 'mul', 'floor_divide', 'remainder', 'maximum', *sorted(NO_FLOAT & set(BINARY))):
            if is_refused(name, dtype):
                continue
            want = BINARY[name](array, other)
            for _, x in layouts(array):
                assert getattr(x, name + '_')(kt.from_numpy(other)) is x
                assert x.tolist() == want.tolist()
        for _, x in layouts(array):
            assert x.neg_() is x and x.tolist() == (-array).tolist()
            assert x.zero_().tolist() == [0] * length
            assert x.fill_(3).tolist() == [3] * length


def test_in_place_operators_keep_identity():
    x = kt.tensor([6.0, 8.0])
    same, view = x, x[1:]
    x += 1
    x *= 2
    x -= kt.tensor([1.0, 2.0])
    x /= 2
    assert same is x and x.tolist() == [6.5, 8.0] and view.tolist() == [8.0]
    x //= 3
    x %= 2
    x **= 2
    assert same is x and x.tolist() == [0.0, 0.0]
    mask = kt.tensor([True, False])
    kept = mask
    mask |= kt.tensor([False, True])
    mask &= True
    assert kept is mask and mask.tolist() == [True, True]
    product = kept = kt.ones((2, 2))
    product @= kt.ones((2, 2))
    assert product is not kept and kept.tolist() == [[1.0, 1.0]] * 2


def test_in_place_overlap():
    """Results are as if through a copy, wherever the operand lies."""
    for shift in (-1, 1):
        base = kt.arange(40.0)
        want = np.arange(40.0, dtype='float32')
        left, right = (slice(1, None), slice(0, -1)) if shift > 0 else (slice(0, -1), slice(1, None))
        base[left].add_(base[right])
        want[left] = want[left] + want[right].copy()
        assert base.tolist() == want.tolist()
    square = kt.arange(9.0).reshape(3, 3)
    square.add_(square.T)
    want = np.arange(9.0).reshape(3, 3)
    assert square.tolist() == (want + want.T).tolist()


def test_matmul():
    for a, b in (((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (3, 4)),
                 ((9, 17), (17, 11))):
        for dtype in ('float32', 'float64'):
            x, y = make(dtype, a), make(dtype, b)
            got = kt.from_numpy(x) @ kt.from_numpy(y)
            assert got.shape == (x @ y).shape
            np.testing.assert_allclose(got.numpy(), x @ y, rtol=1e-5, atol=1e-5)
            assert kt.matmul(kt.from_numpy(x), kt.from_numpy(y)).tolist() == got.tolist()


def test_joining():
    a, b = kt.tensor([[1, 2], [3, 4]]), kt.tensor([[5, 6]])
    assert kt.cat([a, b]).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert kt.cat((a, a.T), dim=-1).tolist() == [[1, 2, 1, 3], [3, 4, 2, 4]]
    assert kt.cat([kt.zeros(0), kt.ones(2)]).tolist() == [1.0, 1.0]
    assert kt.stack([a, a + 10], dim=2).tolist() == [[[1, 11], [2, 12]], [[3, 13], [4, 14]]]
    assert kt.stack([kt.tensor(1.0), kt.tensor(2)]).tolist() == [1.0, 2.0]
    assert kt.stack([kt.tensor([i]) for i in range(20)], dim=-1).tolist() == [list(range(20))]


def test_random_streams():
    kt.manual_seed(3)
    first = [kt.rand(5).tolist(), kt.randn(2, 3).tolist(), kt.rand((2,), dtype=kt.float64).tolist()]
    kt.manual_seed(3)
    assert first == [kt.rand(5).tolist(), kt.randn(2, 3).tolist(), kt.rand((2,), dtype=kt.float64).tolist()]
    assert kt.rand(5).tolist() != kt.rand(5).tolist()
    sample = kt.rand(20000)
    assert 0 <= sample.min().item() and sample.max().item() < 1
    assert abs(sample.mean().item() - 0.5) < 0.02
    normal = kt.randn(20000)
    assert abs(normal.mean().item()) < 0.05 and abs((normal * normal).mean().item() - 1) < 0.05


def test_large_kernels_without_the_lock():
    import threading
    a = kt.arange(300000.0)
    results = []

    def work():
        for _ in range(5):
            results.append((a * 2 + a).sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and len(set(results)) == 1
