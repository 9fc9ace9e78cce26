"""Printing, as torch prints: golden strings."""
import kintsugi as kt
import pytest

inf, nan = float('inf'), float('nan')

GOLDEN = [
    (lambda: kt.tensor(1.0), 'tensor(1.)'),
    (lambda: kt.tensor(7), 'tensor(7)'),
    (lambda: kt.tensor(True), 'tensor(True)'),
    (lambda: kt.tensor(2.5), 'tensor(2.5000)'),
    (lambda: kt.tensor(nan), 'tensor(nan)'),
    (lambda: kt.tensor([1.0, 2.0]), 'tensor([1., 2.])'),
    (lambda: kt.tensor([1.0, -2.5]), 'tensor([ 1.0000, -2.5000])'),
    (lambda: kt.tensor([1, -2, 300]), 'tensor([  1,  -2, 300])'),
    (lambda: kt.tensor([True, False]), 'tensor([ True, False])'),
    (lambda: kt.tensor([1.0, inf]), 'tensor([1., inf])'),
    (lambda: kt.tensor([1.5, inf, -inf, nan]), 'tensor([1.5000,    inf,   -inf,    nan])'),
    (lambda: kt.tensor([0.0, 0.0]), 'tensor([0., 0.])'),
    (lambda: kt.tensor([-0.0]), 'tensor([-0.])'),
    (lambda: kt.tensor([1e10]), 'tensor([1.0000e+10])'),
    (lambda: kt.tensor([1e-5, 1.0]), 'tensor([1.0000e-05, 1.0000e+00])'),
    (lambda: kt.tensor([0.001, 2.0]), 'tensor([1.0000e-03, 2.0000e+00])'),
    (lambda: kt.tensor([0.01, 2.0]), 'tensor([0.0100, 2.0000])'),
    (lambda: kt.tensor([1.0, 10000.0]), 'tensor([1.0000e+00, 1.0000e+04])'),
    (lambda: kt.tensor([100.0, 10000.0]), 'tensor([  100., 10000.])'),
    (lambda: kt.tensor([1.0], dtype=kt.float64), 'tensor([1.], dtype=kintsugi.float64)'),
    (lambda: kt.tensor([1], dtype=kt.int32), 'tensor([1], dtype=kintsugi.int32)'),
    (lambda: kt.zeros(0), 'tensor([])'),
    (lambda: kt.zeros(0, dtype=kt.int64), 'tensor([], dtype=kintsugi.int64)'),
    (lambda: kt.zeros((2, 0)), 'tensor([], size=(2, 0))'),
    (lambda: kt.zeros((0, 3), dtype=kt.bool), 'tensor([], size=(0, 3), dtype=kintsugi.bool)'),
    (lambda: kt.eye(2), 'tensor([[1., 0.],\n        [0., 1.]])'),
    (lambda: kt.arange(8).reshape(2, 2, 2),
     'tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])'),
    (lambda: kt.tensor([[1.5], [-20.25]]), 'tensor([[  1.5000],\n        [-20.2500]])'),
    (lambda: kt.arange(1001), 'tensor([   0,    1,    2,  ...,  998,  999, 1000])'),
    (lambda: kt.zeros((1001, 1)),
     'tensor([[0.],\n        [0.],\n        [0.],\n        ...,\n        [0.],\n        [0.],\n        [0.]])'),
    (lambda: kt.zeros((40, 40)),
     'tensor([' + ''.join('[0., 0., 0.,  ..., 0., 0., 0.],\n        ' for _ in range(3)) + '...,\n        ' +
     ''.join('[0., 0., 0.,  ..., 0., 0., 0.]' + (',\n        ' if i < 2 else '])') for i in range(3))),
    (lambda: kt.arange(25),
     'tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n'
     '        18, 19, 20, 21, 22, 23, 24])'),
    (lambda: kt.arange(20, dtype=kt.float64) / 8,
     'tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,\n'
     '        1.1250, 1.2500, 1.3750, 1.5000, 1.6250, 1.7500, 1.8750, 2.0000, 2.1250,\n'
     '        2.2500, 2.3750], dtype=kintsugi.float64)'),
    (lambda: kt.arange(9.0, dtype=kt.float64) / 8 + 0,
     'tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000],\n'
     '       dtype=kintsugi.float64)'),
    (lambda: kt.arange(6).reshape(2, 3).T, 'tensor([[0, 3],\n        [1, 4],\n        [2, 5]])'),
]


@pytest.mark.parametrize('make,text', GOLDEN, ids=[repr(text)[:40] for _, text in GOLDEN])
def test_golden(make, text):
    assert repr(make()) == text
    assert str(make()) == text


def test_format():
    assert f'{kt.tensor(1.23456):.2f}' == '1.23'
    assert f'{kt.tensor(3)}' == '3'
    assert f'{kt.tensor([1, 2])}' == 'tensor([1, 2])'
    with pytest.raises(TypeError, match='0-d'):
        f'{kt.tensor([1.0]):.2f}'


def test_small_types():
    assert repr(kt.float32) == 'kintsugi.float32' and repr(kt.bool) == 'kintsugi.bool'
    assert repr(kt.zeros((2, 3)).shape) == 'Size([2, 3])'
    assert str(kt.zeros(1).device) == 'cpu' and repr(kt.zeros(1).device) == "device(type='cpu')"
