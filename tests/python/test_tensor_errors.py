"""Errors by class and content: they name what was wrong and what would be right, and leave everything as it was."""
import kintsugi as kt
import numpy as np
import pytest

x = kt.arange(6.0).reshape(2, 3)
n = kt.arange(3)

CASES = [
    (lambda: x + kt.ones(4), RuntimeError, r'\[2, 3\].*\[4\]'),
    (lambda: kt.add(x, kt.ones((4, 1))), RuntimeError, r'\[2, 3\].*\[4, 1\]'),
    (lambda: x @ kt.ones(4), RuntimeError, r'\[2, 3\].*\[4\]'),
    (lambda: x @ kt.ones((3, 3), dtype=kt.float64), RuntimeError, 'float32.*float64'),
    (lambda: x.reshape(4), RuntimeError, r'\[2, 3\].*\[4\]'),
    (lambda: x.reshape(-1, -1), RuntimeError, 'only one'),
    (lambda: x.expand(2, 4), RuntimeError, r'\[2, 3\].*\[2, 4\]'),
    (lambda: x.permute(0), RuntimeError, 'permute'),
    (lambda: x.permute(0, 0), RuntimeError, 'twice'),
    (lambda: x.permute(0, 2), IndexError, 'dim 2'),
    (lambda: x.transpose(0, 2), IndexError, 'dim 2'),
    (lambda: x.unsqueeze(4), IndexError, 'dim 4'),
    (lambda: x.sum(dim=2), IndexError, 'dim 2'),
    (lambda: x.sum(dim=(0, 0)), RuntimeError, 'twice'),
    (lambda: x.sum(dim='a'), TypeError, 'int'),
    (lambda: x.argmax(dim=(0, 1)), TypeError, 'argmax'),
    (lambda: x.amax(dtype=kt.float64), TypeError, 'dtype'),
    (lambda: n.mean(), (RuntimeError, TypeError), 'int64'),
    (lambda: x[2], IndexError, 'index 2.*size 2'),
    (lambda: x[0, -4], IndexError, 'index -4.*size 3'),
    (lambda: x[2**70], IndexError, 'size 2'),
    (lambda: x[0, 0, 0], IndexError, '3 indices.*2 dim'),
    (lambda: x[..., ...], IndexError, r'\.\.\.'),
    (lambda: x['a'], IndexError, 'str'),
    (lambda: x[1.0], IndexError, 'float'),
    (lambda: x[::-1], ValueError, 'step'),
    (lambda: x[True], NotImplementedError, 'bool'),
    (lambda: kt.tensor(1.0)[0], IndexError, '0-d'),
    (lambda: len(kt.tensor(1)), TypeError, '0-d'),
    (lambda: iter(kt.tensor(1)), TypeError, '0-d'),
    (lambda: bool(x), RuntimeError, 'ambiguous'),
    (lambda: x.item(), RuntimeError, '6'),
    (lambda: float(x), (ValueError, TypeError), '6'),
    (lambda: [1][kt.tensor(0.0)], TypeError, 'integer'),
    (lambda: kt.tensor([[1], [2, 3]]), ValueError, 'length'),
    (lambda: kt.tensor([1, [2]]), ValueError, 'depth'),
    (lambda: kt.tensor([[1], 2]), ValueError, 'length'),
    (lambda: kt.tensor(['a']), TypeError, 'str'),
    (lambda: kt.tensor('abc'), TypeError, 'str'),
    (lambda: kt.tensor(None), TypeError, 'None'),
    (lambda: kt.tensor([2**63]), OverflowError, 'int64'),
    (lambda: kt.tensor([2**40], dtype=kt.int32), OverflowError, 'int32'),
    (lambda: kt.tensor([float('nan')], dtype=kt.int64), ValueError, 'NaN'),
    (lambda: kt.tensor([1j]), TypeError, 'complex'),
    (lambda: kt.tensor([1], dtype='float32'), TypeError, 'dtype'),
    (lambda: kt.zeros(2, device='cuda'), RuntimeError, 'cpu'),
    (lambda: kt.zeros(2, dtype=kt.int64, requires_grad=True), RuntimeError, 'floating point'),
    (lambda: kt.zeros(-1), RuntimeError, 'negative'),
    (lambda: kt.zeros(2.0), TypeError, 'int'),
    (lambda: kt.zeros((2**40, 2**40)), RuntimeError, 'too many'),
    (lambda: kt.zeros((1,) * 9), ValueError, '8'),
    (lambda: kt.full((2,), 'a'), TypeError, 'number'),
    (lambda: kt.rand(2, dtype=kt.int64), (RuntimeError, TypeError), 'int64'),
    (lambda: kt.arange(0, 3, 0), RuntimeError, 'step'),
    (lambda: kt.arange(3, 0), RuntimeError, 'step'),
    (lambda: kt.arange(float('inf')), RuntimeError, 'finite'),
    (lambda: kt.arange(3, dtype=kt.bool), TypeError, 'bool'),
    (lambda: kt.cat([]), RuntimeError, 'empty'),
    (lambda: kt.cat([1, 2]), TypeError, 'Tensor'),
    (lambda: kt.cat(x), TypeError, 'list'),
    (lambda: kt.cat([x, kt.ones((3, 4))]), RuntimeError, r'\[2, 3\].*\[3, 4\]'),
    (lambda: kt.stack([x, n]), RuntimeError, r'\[2, 3\].*\[3\]'),
    (lambda: kt.stack([x], dim=4), IndexError, 'dim 4'),
    (lambda: kt.sin(), TypeError, 'missing'),
    (lambda: kt.sin(x, x, x), TypeError, 'too many'),
    (lambda: x.sum(foo=1), TypeError, 'foo'),
    (lambda: x.sum(1, dim=1), TypeError, 'twice'),
    (lambda: x.sum(keepdim=1), TypeError, 'bool'),
    (lambda: kt.Tensor(), TypeError, 'Tensor'),
    (lambda: type('T', (kt.Tensor,), {}), TypeError, 'base'),
    (lambda: x.no_such_thing, AttributeError, 'no_such_thing'),
    (lambda: setattr(x, 'shape', (6,)), AttributeError, 'shape'),
]


@pytest.mark.parametrize('index', range(len(CASES)))
def test_error(index):
    call, error, text = CASES[index]
    with pytest.raises(error, match=text):
        call()


IN_PLACE = [
    (lambda t: t.add_(kt.ones((2, 3))), RuntimeError, r'\[2, 3\].*\[3\]'),
    (lambda t: t.add_(kt.ones(2)), RuntimeError, r'\[3\].*\[2\]'),
    (lambda t: t.add_(1.5), RuntimeError, 'float32.*int64'),
    (lambda t: t.div_(2), RuntimeError, 'float32.*int64'),
    (lambda t: t.sqrt_(), RuntimeError, 'float32.*int64'),
    (lambda t: t.floor_divide_(0), ZeroDivisionError, 'zero'),
    (lambda t: t.__setitem__(slice(None), kt.ones(2)), RuntimeError, r'\[2\].*\[3\]'),
    (lambda t: t.__setitem__(5, 1), IndexError, 'index 5'),
    (lambda t: t.__setitem__(0, 'a'), TypeError, 'str'),
    (lambda t: t.__setitem__(0, [1]), TypeError, 'list'),
    (lambda t: t.__setitem__(0, float('nan')), ValueError, 'NaN'),
    (lambda t: t.__setitem__(0, 2**63), OverflowError, 'int64'),
    (lambda t: t.__delitem__(0), TypeError, 'deleted'),
    (lambda t: t.copy_(kt.ones(4)), RuntimeError, r'\[4\].*\[3\]'),
    (lambda t: t.fill_(float('inf')), OverflowError, 'int64'),
]


@pytest.mark.parametrize('index', range(len(IN_PLACE)))
def test_failed_write_changes_nothing(index):
    call, error, text = IN_PLACE[index]
    t = kt.arange(3)
    with pytest.raises(error, match=text):
        call(t)
    assert t.tolist() == [0, 1, 2]


def test_expanded_tensors_are_not_written():
    t = kt.tensor([1.0]).expand(3)
    for write in (lambda: t.add_(1), lambda: t.fill_(2), lambda: t.__setitem__(slice(None), 1.0), lambda: t.neg_()):
        with pytest.raises(RuntimeError, match='clone'):
            write()
    t[1] = 5.0  # one element is one location
    assert t.tolist() == [5.0, 5.0, 5.0]


def test_read_only_memory_is_not_written():
    array = np.arange(3.0)
    array.flags.writeable = False
    t = kt.from_numpy(array)
    for write in (lambda: t.add_(1), lambda: t.fill_(2), lambda: t.__setitem__(0, 1.0), lambda: t[1:].neg_()):
        with pytest.raises(ValueError, match='read-only'):
            write()
    assert (t + 1).tolist() == [1.0, 2.0, 3.0] and t.clone().add_(1).tolist() == [1.0, 2.0, 3.0]


def test_hostile_sequences():
    """Containers that change while they are read."""

    class Shrinking:
        def __init__(self, items):
            self.items = items

        def __index__(self):
            self.items.clear()
            return 1

    items = []
    items += [Shrinking(items), 2, 3]
    try:
        kt.zeros(items)
    except TypeError:
        pass
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match='8 deep'):
        kt.tensor(endless)
