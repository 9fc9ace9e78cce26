"""Tensors as Python objects: identity, attributes, lifetimes, copies, pickles; dtype, device and Size objects."""
import copy
import gc
import inspect
import pickle
import sys
import weakref

import kintsugi as kt
import pytest


def test_identity():
    x = kt.ones(2)
    assert hash(x) == hash(x) and {x: 1}[x] == 1 and x in [x]
    assert (x == x).tolist() == [True, True] and (x == 'a') is False and (x != None) is True  # noqa: E711
    assert type(x) is kt.Tensor and isinstance(x, kt.Tensor) and kt.is_tensor(x) and not kt.is_tensor(1)
    assert kt.Tensor.__name__ == 'Tensor' and kt.Tensor.__module__ == 'kintsugi'


def test_attributes_and_cycles():
    x = kt.ones(2)
    assert not gc.is_tracked(x)
    x.name = 'gain'
    assert x.name == 'gain' and x.__dict__ == {'name': 'gain'} and gc.is_tracked(x)
    del x.name
    with pytest.raises(AttributeError):
        x.name
    x.self = x
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    y = kt.ones(2)
    y.__dict__['self'] = y
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_weak_references_and_reuse():
    died = []
    for i in range(300):
        x = kt.zeros(3)
        x.tag = i
        weakref.finalize(x, died.append, i)
        del x
    assert died == list(range(300))
    assert not hasattr(kt.zeros(3), 'tag')
    many = [kt.tensor([i]) for i in range(1000)]
    assert [t.item() for t in many] == list(range(1000))
    del many
    assert kt.tensor([5]).tolist() == [5]


def test_references_are_balanced():
    x, key, value = kt.arange(12.0).reshape(3, 4), (1, slice(0, 2)), 2.5

    def use():
        x[key] = value
        x[key].add_(value).sum(dim=0, keepdim=True).tolist()
        (x * value + x).reshape(-1).T.numpy()
        for bad in (lambda: x[9], lambda: x + kt.ones(7), lambda: x.sum(dim=9), lambda: x.reshape(5),
                    lambda: x.add_('a')):
            try:
                bad()
            except (IndexError, RuntimeError, TypeError):
                pass
        kt.stack([x, x]).shape, kt.cat((x, x)).dtype, repr(x), kt.tensor([[1, 2], [3, 4]])

    use()
    gc.collect()
    live = kt._runtime._live()
    objects = (x, key, value, kt.float32, x.device, kt.Size)
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(200):
        use()
    after = [sys.getrefcount(o) for o in objects]
    assert before == after
    gc.collect()
    assert kt._runtime._live() == live


def test_many_layouts():
    before = kt._runtime._live()
    for n in range(1, 3000):
        x = kt.zeros(n)
        (x[n // 2:] * 2).sum(), x.reshape(1, n).T + 1
    _, layouts = kt._runtime._live()
    del x
    assert kt._runtime._live()[0] == before[0]
    assert layouts - before[1] < 2000  # what the tables of recent layouts hold


def test_copies():
    x = kt.arange(4.0).reshape(2, 2)
    x.note = ['a']
    deep, shallow, again = copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x.T))
    deep.add_(1)
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]] and deep.note == ['a'] and deep.note is not x.note
    shallow.add_(1)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]] and shallow.note is x.note
    assert again.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]
    for dtype in (kt.bool, kt.int32, kt.int64, kt.float32, kt.float64):
        for shape in ((), (0,), (3,), (2, 3)):
            t = kt.ones(shape, dtype=dtype)
            back = pickle.loads(pickle.dumps(t))
            assert back.tolist() == t.tolist() and back.dtype is dtype and back.shape == shape
    with pytest.raises(ValueError, match='fit'):
        kt._runtime._rebuild_tensor(kt.float32, (3,), b'abc')


def test_small_objects():
    for dtype in (kt.bool, kt.int32, kt.int64, kt.float32, kt.float64):
        assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
        assert kt.dtype(repr(dtype).removeprefix('kintsugi.')) is dtype
    assert kt.float is kt.float32 and kt.double is kt.float64 and kt.int is kt.int32 and kt.long is kt.int64
    assert kt.float32.is_floating_point and not kt.int32.is_floating_point
    shape = kt.zeros((2, 3)).shape
    assert pickle.loads(pickle.dumps(shape)) == shape and hash(shape) == hash((2, 3)) and kt.Size([2, 3]) == shape
    assert pickle.loads(pickle.dumps(kt.device('cpu'))) is kt.device('cpu')
    with pytest.raises(TypeError):
        kt.dtype('float16')
    with pytest.raises(RuntimeError):
        kt.device('cuda')


def test_signatures():
    assert str(inspect.signature(kt.sum)) == '(input, dim=None, keepdim=False, *, dtype=None)'
    assert str(inspect.signature(kt.Tensor.reshape)) == '(self, /, *shape)'
    assert 'Sum' in kt.Tensor.sum.__doc__
    assert kt.Tensor.sum(kt.ones(3)).item() == 3.0
    assert kt.sum(input=kt.ones(3)).item() == kt.ones(3).sum(dim=None).item() == 3.0


def test_creation():
    for x in (kt.zeros(2, 3), kt.zeros((2, 3)), kt.zeros([2, 3]), kt.zeros(size=(2, 3))):
        assert x.tolist() == [[0.0] * 3] * 2
    assert kt.zeros(()).shape == () and kt.zeros(0).shape == (0,)
    assert kt.ones(2, dtype=kt.bool).tolist() == [True, True]
    for value, dtype in ((7, kt.int64), (7.0, kt.float32), (True, kt.bool)):
        assert kt.full((2,), value).dtype is dtype
    assert kt.full((2,), 2**53 + 1).tolist() == [2**53 + 1] * 2
    assert kt.full((1,), 0.1, dtype=kt.float64).item() == 0.1 and kt.full((1,), 2.7, dtype=kt.int32).item() == 2
    assert kt.arange(3).tolist() == [0, 1, 2] and kt.arange(1, 4).tolist() == [1, 2, 3]
    assert kt.arange(5, 0, -2).tolist() == [5, 3, 1] and kt.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert kt.arange(0).shape == (0,) and kt.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]
    assert kt.arange(3.0).dtype is kt.float32 and kt.arange(3, dtype=kt.float64).dtype is kt.float64
    assert kt.arange(3.7, dtype=kt.int64).tolist() == [0, 1, 2]
    assert kt.eye(2).tolist() == [[1, 0], [0, 1]] and kt.eye(1, 3, dtype=kt.int64).tolist() == [[1, 0, 0]]
    x = kt.arange(3)
    assert kt.zeros_like(x).dtype is kt.int64 and kt.ones_like(x, dtype=kt.float32).tolist() == [1.0] * 3
    assert kt.full_like(x, 4).tolist() == [4, 4, 4]
