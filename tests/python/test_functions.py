"""kt's functions that are made of others: values, and followed in compiled code."""
import math

import pytest

import kintsugi as kt

x = kt.tensor([-math.inf, -2.0, -0.5, 0.0, 3.0, math.inf, math.nan])
d = kt.tensor([1.0, 4.0, 0.25], dtype=kt.float64)
m = kt.arange(6).reshape(2, 3) * 1.0
INF, NAN = math.inf, math.nan

VALUES = {
    "clamp": (lambda: kt.clamp(x, -1, 2), [-1.0, -1.0, -0.5, 0.0, 2.0, 2.0, NAN]),
    "clamp below": (lambda: kt.clamp(x, max=d[0]), [-INF, -2.0, -0.5, 0.0, 1.0, 1.0, NAN]),
    "reciprocal": (lambda: kt.reciprocal(d), [1.0, 0.25, 4.0]),
    "rsqrt": (lambda: kt.rsqrt(d), [1.0, 0.5, 2.0]),
    "square": (lambda: kt.square(d), [1.0, 16.0, 0.0625]),
    "isnan": (lambda: kt.isnan(x), [False] * 6 + [True]),
    "isinf": (lambda: kt.isinf(x), [True, False, False, False, False, True, False]),
    "isfinite": (lambda: kt.isfinite(x), [False, True, True, True, True, False, False]),
    "nan_to_num": (lambda: kt.nan_to_num(x, nan=7.0, posinf=8.0), [-3.4028234663852886e38, -2.0, -0.5, 0.0, 3.0, 8.0, 7.0]),
    "nan_to_num of doubles": (lambda: kt.nan_to_num(d / 0.0), [1.7976931348623157e308] * 3),
    "mm": (lambda: kt.mm(m, m.t()), [[5.0, 14.0], [14.0, 50.0]]),
    "dot": (lambda: kt.dot(d, d), 17.0625),
    "outer": (lambda: kt.outer(d, d[:2]), [[1.0, 4.0], [4.0, 16.0], [0.25, 1.0]]),
    "linspace": (lambda: kt.linspace(1, 2, 5, dtype=kt.float64), [1.0, 1.25, 1.5, 1.75, 2.0]),
    "linspace of one": (lambda: kt.linspace(3, 9, 1), [3.0]),
    "empty": (lambda: kt.empty(2, 1), [[0.0], [0.0]]),
    "empty_like": (lambda: kt.empty_like(kt.ones(2, dtype=kt.int64)), [0, 0]),
    "rand_like": (lambda: kt.rand_like(d).numel() + 0 * kt.randn_like(d), [3.0, 3.0, 3.0]),
    "softmax": (lambda: kt.softmax(kt.zeros(2, dtype=kt.float64), 0) + kt.sigmoid(kt.zeros(1, dtype=kt.float64)), [1.0, 1.0]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, stress):
    function, wanted = VALUES[name]
    assert repr(function().tolist()) == repr(wanted)
    fast = kt.compile(function, fullgraph=stress != "break_everywhere")
    for _ in range(2):
        assert repr(fast().tolist()) == repr(wanted)


ANSWERS = {
    "equal": (lambda: (kt.equal(d, d.clone()), kt.equal(d, d + 1), kt.equal(d, d[:2])), (True, False, False)),
    "allclose": (lambda: (kt.allclose(d, d + 1e-9), kt.allclose(d, d + 1), kt.allclose(x, x), kt.allclose(x, x, equal_nan=True)),
                 (True, False, False, True)),
    "not close to infinity": (lambda: kt.allclose(d, d * INF), False),
    "numel": (lambda: (kt.numel(m), kt.is_floating_point(m), kt.is_floating_point(m > 0), kt.get_default_dtype() is kt.float32),
              (6, True, False, True)),
    "cuda": (lambda: (kt.cuda.is_available(), kt.cuda.device_count()), (False, 0)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name):
    function, wanted = ANSWERS[name]
    assert function() == wanted == kt.compile(function)()


@pytest.mark.parametrize("wrong", [lambda: kt.clamp(x), lambda: kt.mm(x, m), lambda: kt.dot(m, m), lambda: kt.outer(m, x),
                                   lambda: kt.linspace(0, 1, -1)])
def test_refused(wrong):
    with pytest.raises((ValueError, RuntimeError)):
        wrong()
