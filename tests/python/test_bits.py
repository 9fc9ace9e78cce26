"""Operators by bits: counts of shifts at and beyond their ends, promotion, what is refused and how, programs. NumPy is the judge of
values; every length, layout and dtype is in test_equality.py."""
import itertools

import kintsugi as kt
import numpy as np
import pytest

from test_operators import bits, check, wanted

pytestmark = pytest.mark.usefixtures("fresh")

INTS = ("int32", "int64")
SIGNS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "bitwise_left_shift", ">>": "bitwise_right_shift"}


def edges(dtype):
    info = np.iinfo(dtype)
    return np.array([info.min, info.min + 1, -6, -1, 0, 1, 5, 2**30 + 3, info.max - 1, info.max], dtype)


@pytest.mark.parametrize("dtype", INTS)
def test_counts_of_shifts(dtype, stress):
    """Negative and too large ones move every bit out."""
    info = np.iinfo(dtype)
    array = edges(dtype)[:, None]
    counts = np.array([*range(-2, info.bits + 3), 2 * info.bits, -info.bits, info.min, info.max], dtype)
    got = check(lambda x, n: (x << n, x >> n, x.bitwise_left_shift(n), kt.bitwise_right_shift(x, n)), kt.from_numpy(array.copy()), kt.from_numpy(counts),
                stress=stress)
    within = (counts >= 0) & (counts < info.bits)
    left, right = np.where(within, array << (counts & (info.bits - 1)), 0), array >> np.where(within, counts, info.bits - 1)
    assert got == (wanted(left.astype(dtype)), wanted(right.astype(dtype))) * 2
    assert (left == np.left_shift(array, counts)).all() and (right == np.right_shift(array, counts)).all()


@pytest.mark.parametrize("dtype", INTS)
def test_counts_as_numbers(dtype, stress):
    x = kt.from_numpy(edges(dtype))
    fast = kt.compile(lambda x, n: (x << n, x >> n, n << x, n >> x, x & n, n | x, x ^ n, -5 >> (x & n)))
    for n in (3, 0, -1, 31, 32, 33, 63, 64, 65, 1000, -2**31, 2**31 - 1, True, 5):
        array, number = edges(dtype), np.array(int(n), dtype)
        want = (array << number, array >> number, number << array, number >> array, array & number, number | array, array ^ number,
                np.array(-5, dtype) >> (array & number))
        assert bits(fast(x, n)) == tuple(map(wanted, want)), n
    constant = check(lambda x: (x << 3, 3 << x, x >> 40, ~x & 255, (x | 1) ^ -1), x, stress=stress)
    array = edges(dtype)
    assert constant == tuple(map(wanted, (array << 3, np.array(3, dtype) << array, array >> 40, ~array & 255, (array | 1) ^ -1)))


def test_promotion(stress):
    """As torch: the wider dtype, tensors without dimensions and numbers only where their kind is higher."""
    by_name = {name: kt.ones(2, dtype=getattr(kt, name)) for name in ("bool", *INTS)}
    for (left, a), (right, b) in itertools.product(by_name.items(), repeat=2):
        result = np.promote_types(left, right).name
        for sign in SIGNS:
            if result == "bool" and sign in ("<<", ">>"):
                continue
            f = eval(f"lambda a, b: (a {sign} b, kt.{SIGNS[sign]}(a, b), a.{SIGNS[sign]}(b), a[0] {sign} b)")
            got = check(f, a, b, stress=stress)
            assert [each[0] for each in got[:3]] == [getattr(kt, result)] * 3
            assert got[3][0] is getattr(kt, left if right == "bool" else right)
    assert check(lambda b, i: (b & 3, 3 ^ b, b << 1, b | True, i & True, True ^ i, ~b, ~i), by_name["bool"], by_name["int32"], stress=stress) == (
        wanted(np.array([1, 1])), wanted(np.array([2, 2])), wanted(np.array([2, 2])), wanted(np.array([True] * 2)),
        wanted(np.array([1, 1], "int32")), wanted(np.array([0, 0], "int32")), wanted(np.array([False] * 2)), wanted(np.array([-2, -2], "int32")))


REFUSED = {
    "floats": (lambda x, n: x & x, RuntimeError, "bitwise_and is not defined for float32; convert to an integer dtype first"),
    "a float": (lambda x, n: n ^ 1.5, RuntimeError, "bitwise_xor is not defined for float32; convert to an integer dtype first"),
    "a float before": (lambda x, n: 1.5 | n, RuntimeError, "bitwise_or is not defined for float32; convert to an integer dtype first"),
    "doubles": (lambda x, n: x.double() << n, RuntimeError, "bitwise_left_shift is not defined for float64; convert to an integer dtype first"),
    "not of floats": (lambda x, n: ~x, TypeError, "~ is defined for integer and bool tensors, not float32"),
    "bitwise_not of floats": (lambda x, n: kt.bitwise_not(x), RuntimeError, "bitwise_not is not defined for float32; convert to an integer dtype first"),
    "shifts of bools": (lambda x, n: (x > 0) >> (x > 0), RuntimeError, "bitwise_right_shift is not defined for bool; convert to an integer dtype first"),
    "a bool shifted by True": (lambda x, n: (x > 0).bitwise_left_shift(True), RuntimeError,
                               "bitwise_left_shift is not defined for bool; convert to an integer dtype first"),
    "text": (lambda x, n: n & "a", TypeError, "unsupported operand type(s) for &: 'kintsugi.Tensor' and 'str'"),
    "a list before": (lambda x, n: [1] << n, TypeError, "unsupported operand type(s) for <<: 'list' and 'kintsugi.Tensor'"),
    "too large": (lambda x, n: n.int() | 2**40, OverflowError, "bitwise_or(): the int 1099511627776 does not fit into int32, the dtype of the Tensor beside it"),
    "beyond 64 bits": (lambda x, n: n & 2**70, OverflowError, "Python int 1180591620717411303424 does not fit into int64"),
    "a bool in place": (lambda x, n: (x > 0).__iand__(3), RuntimeError,
                        "bitwise_and_(): the result is int64, which cannot be written into a bool tensor in place"),
    "a float in place": (lambda x, n: n.bitwise_xor_(x), RuntimeError, "bitwise_xor is not defined for float32; convert to an integer dtype first"),
    "another shape in place": (lambda x, n: n[0].bitwise_or_(n), RuntimeError,
                               "bitwise_or_(): the result has shape [3], which does not fit into the tensor of shape []"),
    "no tensor": (lambda x, n: kt.bitwise_and(3, 5), TypeError, "bitwise_and(): at least one argument must be a Tensor; for Python numbers use math"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, stress):
    function, error, text = REFUSED[name]

    def handled(x, n):
        try:
            return function(x * 1, n + 0)
        except error as raised:
            return n * 2, str(raised)

    x, n = kt.ones(3), kt.arange(3)
    assert check(function, x, n) == (error, text)
    assert check(handled, x, n, followed=False)[1] == text


def test_in_place_keeps_the_tensor(stress):
    def f(x, y, m):
        same, view = x, x[1:]
        x &= 63
        x <<= 2
        view ^= y[:-1]
        x |= m
        x >>= y & 1
        x.bitwise_not_().bitwise_left_shift_(1)
        m ^= True
        m |= m
        return same is x, x + 0, view, m

    def fresh_arguments():
        return kt.arange(6, dtype=kt.int32) * 37, kt.arange(6), kt.arange(6) > 2

    fast = kt.compile(f)
    for _ in range(3):
        plain, followed = fresh_arguments(), fresh_arguments()
        assert bits((f(*plain), plain)) == bits((fast(*followed), followed))
    x, y, m = np.arange(6, dtype="int32") * 37, np.arange(6), np.arange(6) > 2
    x = (x & 63) << 2
    x[1:] ^= y[:-1].astype("int32")
    x = ~((x | m) >> (y & 1)) << 1
    assert followed[0].tolist() == x.tolist() and followed[2].tolist() == (~m).tolist()


class Owner:
    """Has its say beside a tensor, on either side."""

    def __and__(self, other):
        return "and", other.sum().item()

    def __rlshift__(self, other):
        return "lshift", other.sum().item()


def test_other_classes_have_their_say(stress):
    owner = Owner()
    assert check(lambda x: (owner & x, x << owner), kt.arange(4), stress=stress, followed=False) == (("and", 6), ("lshift", 6))


# ---- Programs ------------------------------------------------------------------------------------------------------


def xorshift(x):
    """A generator of random numbers for each element."""
    for _ in range(3):
        x = x ^ x << 13
        x = x ^ (x >> 17 & 0x7fff)
        x = x ^ x << 5
    return x


def counted(x):
    """How many bits of each are set."""
    x = x - (x >> 1 & 0x55555555)
    x = (x & 0x33333333) + (x >> 2 & 0x33333333)
    return ((x + (x >> 4) & 0x0f0f0f0f) * 0x01010101 >> 24) & 255


def packed(x):
    """Flags as one number, and back."""
    flags = (x & 3) == 1
    word = (flags.int() << kt.arange(x.shape[0], dtype=kt.int32)).sum()
    return word, (word >> kt.arange(x.shape[0]) & 1).bool()


def gray(x):
    code = x ^ x >> 1
    back = code
    for shift in (16, 8, 4, 2, 1):
        back = back ^ (back >> shift)
    return code, (back == x) | (x < 0), ~code | 1


def blended(x):
    """Two colours of four channels, half of each."""
    y = x << 7 ^ x
    return (x & 0xfefefe) + (y & 0xfefefe) >> 1


PROGRAMS = (xorshift, counted, packed, gray, blended)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program, dtype, stress):
    array = np.random.default_rng(3).integers(-2**31, 2**31, 21).astype(dtype)
    got = check(program, kt.from_numpy(array), stress=stress)
    if program is xorshift:
        x = array
        for _ in range(3):
            x = x ^ x << 13
            x = x ^ (x >> 17 & 0x7fff)
            x = x ^ x << 5
        assert got == wanted(x)
    if program is counted and dtype == "int32":
        assert got == wanted(np.array([bin(v & 0xffffffff).count("1") for v in array.tolist()], "int32"))
    if program is packed:
        flags = (array & 3) == 1
        assert got == (wanted(np.array(sum(1 << i for i, flag in enumerate(flags) if flag))), wanted(flags))


def test_sizes_that_vary(stress):
    fast = kt.compile(lambda x, n: (xorshift(x), x >> n, (x & n).sum(), x.shape[0] << 1))
    for length, n in ((5, 1), (6, 2), (7, 2), (0, 3), (1, 1), (70, 9), (6, -1)):
        x = kt.arange(length) * 1234567
        assert bits(fast(x, n)) == bits((xorshift(x), x >> n, (x & n).sum(), length << 1))
