"""Views and item assignment against NumPy: indexing, reshaping, overlap."""
import itertools

import kintsugi as kt
import numpy as np
import pytest

KEYS = [
    0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(5, 1), slice(-2, None), slice(100), None, ..., (),
    (0, 1), (1, 2, 3), (slice(None), 1), (..., 2), (0, ..., 1), (None, 0), (..., None),
    (slice(1, None), None, slice(None, 2)),
    (1, None, ..., slice(0, 4, 3)), np.int64(1), (np.int32(0), slice(None)),
]


def pair(shape=(3, 4, 5)):
    array = np.arange(np.prod(shape), dtype='float32').reshape(shape)
    return kt.from_numpy(array.copy()), array


@pytest.mark.parametrize('key', KEYS, ids=repr)
def test_get(key):
    x, array = pair()
    got, want = x[key], array[key]
    assert got.shape == want.shape and got.tolist() == want.tolist()
    got.add_(1)
    want = array.copy()
    want[key] += 1
    assert x.tolist() == want.tolist()


@pytest.mark.parametrize('key', KEYS, ids=repr)
def test_set(key):
    for value in (7, 2.5, True, np.float64(1.5)):
        x, array = pair()
        x[key] = value
        array[key] = value
        assert x.tolist() == array.tolist()
    x, array = pair()
    part = np.full(array[key].shape, 9.0, 'float64')
    x[key] = kt.tensor(part)
    array[key] = part
    assert x.tolist() == array.tolist()


def test_set_broadcasts():
    x, array = pair()
    x[:, 1:3] = kt.arange(5)
    array[:, 1:3] = np.arange(5)
    x[0] = kt.tensor([[1.0], [2.0], [3.0], [4.0]])
    array[0] = [[1.0], [2.0], [3.0], [4.0]]
    x[1, 2] = kt.full((1, 1, 5), 8)  # leading sizes of 1 do not count
    array[1, 2] = 8
    x[2, ::2] = kt.tensor(3)
    array[2, ::2] = 3
    assert x.tolist() == array.tolist()


def test_set_converts():
    x = kt.zeros(3, dtype=kt.int64)
    x[0] = 2.9
    x[1] = kt.tensor(-2.9)
    x[2] = True
    assert x.tolist() == [2, -2, 1]
    mask = kt.zeros(2, dtype=kt.bool)
    mask[0] = 5
    assert mask.tolist() == [True, False]


@pytest.mark.parametrize('size', (3, 17, 300))
def test_overlapping_assignment(size):
    for to, start in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None)), (slice(0, 2), slice(1, 3))):
        x, array = pair((size, 3))
        x[to] = x[start]
        array[to] = array[start].copy()
        assert x.tolist() == array.tolist()
    x, array = pair((size, size))
    x[:] = x.T
    assert x.tolist() == array.T.tolist()


def test_assigning_itself():
    x, array = pair()
    x[:] = x
    x[1] += 1
    array[1] += 1
    x[0, 0] *= 2
    array[0, 0] *= 2
    assert x.tolist() == array.tolist()


def test_reshaping():
    x, array = pair()
    for sizes in ((60,), (5, 12), (-1,), (2, -1, 3), (3, 4, 5, 1, 1)):
        assert x.reshape(sizes).tolist() == x.reshape(*sizes).tolist() == array.reshape(sizes).tolist()
        assert x.view(sizes).data_ptr() == x.data_ptr()
        assert x.T.reshape(sizes).tolist() == array.T.reshape(sizes).tolist()
    assert x.reshape(shape=(60,)).shape == (60,)
    assert x[0, 0, :1].reshape(()).item() == 0.0
    assert kt.tensor(3.0).reshape(1, 1).tolist() == [[3.0]]
    assert x.flatten().tolist() == array.flatten().tolist()
    assert x.flatten(1).shape == (3, 20) and x.flatten(0, 1).shape == (12, 5) and kt.tensor(1).flatten().shape == (1,)
    assert kt.reshape(x, (60,)).tolist() == kt.flatten(x).tolist()
    with pytest.raises(RuntimeError, match=r'\[60\]'):
        x.T.view(60)


def test_dimensions():
    x, array = pair()
    assert x.T.tolist() == array.T.tolist()
    assert x.transpose(0, -1).tolist() == array.transpose(2, 1, 0).tolist()
    assert x.permute(2, 0, 1).tolist() == x.permute((2, 0, 1)).tolist() == array.transpose(2, 0, 1).tolist()
    assert x[0].t().tolist() == array[0].T.tolist() and kt.arange(3).t().tolist() == [0, 1, 2]
    assert x.unsqueeze(0).shape == (1, 3, 4, 5) and x.unsqueeze(-1).shape == (3, 4, 5, 1)
    assert x.unsqueeze(1).squeeze().shape == (3, 4, 5) and x.unsqueeze(1).squeeze(1).shape == (3, 4, 5)
    assert x.squeeze(1).shape == (3, 4, 5)
    wide = kt.tensor([[1], [2]]).expand(2, 3)
    assert wide.tolist() == [[1, 1, 1], [2, 2, 2]] and wide.stride() == (1, 0)
    assert kt.arange(3).expand(2, -1).tolist() == [[0, 1, 2]] * 2
    assert x.detach().data_ptr() == x.data_ptr()


def test_metadata():
    x = kt.zeros((2, 3), dtype=kt.float64)
    assert x.shape == x.size() == (2, 3) and x.size(-1) == x.size(1) == 3
    assert x.ndim == x.dim() == 2 and x.numel() == 6 and len(x) == 2
    assert x.stride() == (3, 1) and x.stride(0) == 3 and x.T.stride() == (1, 3)
    assert x.is_contiguous() and not x.T.is_contiguous() and x.T.contiguous().is_contiguous()
    assert x.dtype is kt.float64 and x.dtype.itemsize == x.itemsize == x.element_size() == 8 and x.nbytes == 48
    assert x.device == kt.device('cpu') and x.requires_grad is False
    assert x.data_ptr() % 64 == 0 and x[1].data_ptr() == x.data_ptr() + 24
    assert isinstance(x.shape, tuple) and isinstance(x.shape[1:], kt.Size) and x.shape.numel() == 6


def test_conversions():
    x = kt.tensor([0.0, 1.7, -2.7])
    assert x.int().tolist() == [0, 1, -2] and x.int().dtype is kt.int32
    assert x.long().dtype is kt.int64 and x.double().dtype is kt.float64
    assert x.bool().tolist() == [False, True, True]
    assert x.float() is x and x.to(kt.float32) is x and x.to('cpu') is x and x.cpu() is x and x.contiguous() is x
    assert x.to(kt.int64).tolist() == x.to(dtype=kt.int64).tolist() == x.to(kt.arange(2)).tolist() == [0, 1, -2]
    assert x.to(float).dtype is kt.float64
    copy = x.to(kt.float32, copy=True)
    assert copy is not x and copy.data_ptr() != x.data_ptr()
    clone = x.T.clone()
    clone.add_(1)
    assert x.tolist() == pytest.approx([0.0, 1.7, -2.7])


def test_scalars():
    assert float(kt.tensor(2)) == 2.0 and int(kt.tensor([2.9])) == 2 and bool(kt.tensor([0.0])) is False
    assert [type(kt.tensor(v).item()) for v in (1, 1.0, True)] == [int, float, bool]
    assert [10, 20, 30][kt.tensor(1)] == 20 and list(range(kt.tensor(3))) == [0, 1, 2]
    assert kt.arange(5)[kt.tensor(2)].item() == 2
    assert kt.tensor(2**63 - 1).item() == 2**63 - 1


def test_iteration():
    assert [row.tolist() for row in kt.arange(4).reshape(2, 2)] == [[0, 1], [2, 3]]
    a, b, c = kt.arange(3)
    assert (a.item(), b.item(), c.item()) == (0, 1, 2)
    assert list(kt.zeros(0)) == []
    assert 2 in kt.arange(3) and 5 not in kt.arange(3) and list(reversed(kt.arange(3)))[0].item() == 2


def test_all_slices():
    array = np.arange(6)
    x = kt.arange(6)
    ends = (None, -7, -3, -1, 0, 2, 5, 6, 9)
    for start, stop, step in itertools.product(ends, ends, (None, 1, 2, 5, 2**62)):
        assert x[start:stop:step].tolist() == array[start:stop:step].tolist()
