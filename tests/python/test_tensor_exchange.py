"""NumPy, the buffer protocol and DLPack, both ways."""
import array as arrays
import gc
import io
import subprocess
import sys
import weakref

import kintsugi as kt
import numpy as np
import pytest

DTYPES = ('bool', 'int32', 'int64', 'float32', 'float64')


@pytest.mark.parametrize('dtype', DTYPES)
def test_shared_both_ways(dtype):
    array = np.ones((3, 4), dtype)
    x = kt.from_numpy(array)
    assert str(x.dtype) == 'kintsugi.' + dtype
    array[1, 2] = 0
    assert x[1, 2].item() == 0
    back = x.T[1:].numpy()
    assert back.dtype == array.dtype and back.shape == (3, 3)
    back[0, 0] = 0
    assert array[0, 1] == 0
    assert np.asarray(x).__array_interface__['data'][0] == array.__array_interface__['data'][0]
    assert np.from_dlpack(x)[1, 2] == 0 and np.from_dlpack(x.T).shape == (4, 3)
    y = kt.from_dlpack(array[:, 1:])
    array[2, 1] = 0
    assert y[2, 0].item() == 0 and y.shape == (3, 3)
    assert kt.from_dlpack(x).data_ptr() == x.data_ptr()


def test_strides():
    image = np.arange(12.0).reshape(3, 4)
    for mirrored in (image[:, ::-1], image[::-1]):
        with pytest.raises(ValueError, match='copy'):
            kt.from_numpy(mirrored)
        with pytest.raises(ValueError, match='copy'):
            kt.from_dlpack(mirrored)
        assert kt.tensor(mirrored).tolist() == mirrored.tolist()
    assert kt.from_numpy(image[:1][::-1]).shape == (1, 4)
    assert kt.from_numpy(image[::2, 1::2]).tolist() == image[::2, 1::2].tolist()
    assert kt.from_numpy(np.broadcast_to(np.float32(3), (2, 2))).stride() == (0, 0)
    record = np.zeros(4, dtype=[('a', 'i4'), ('b', 'f8')])
    with pytest.raises(ValueError, match='multiple'):
        kt.from_numpy(record['b'])
    assert kt.tensor(record['b']).tolist() == [0.0] * 4


def test_refused_arrays():
    for wrong in ([1.0], 'a', 3, memoryview(b'abc')):
        with pytest.raises(TypeError, match='ndarray'):
            kt.from_numpy(wrong)
    for dtype in ('int8', 'uint8', 'float16', 'complex64', '>f4', 'U3', 'O'):
        with pytest.raises((TypeError, ValueError, BufferError)):
            kt.from_numpy(np.zeros(2, dtype))
    with pytest.raises(TypeError, match='int32'):
        kt.tensor(np.zeros(2, 'uint8'))
    with pytest.raises(ValueError, match='aligned'):
        kt.from_numpy(np.frombuffer(bytes(17), 'u1')[1:].view('f8'))
    with pytest.raises((ValueError, BufferError)):
        kt.from_numpy(np.zeros((1,) * 9))


def test_memory_is_held():
    class Array(np.ndarray):
        pass

    array = np.arange(5.0).view(Array)
    alive = weakref.ref(array)
    x = kt.from_numpy(array)
    view = x[1:]
    del array, x
    gc.collect()
    assert alive() is not None and view.tolist() == [1.0, 2.0, 3.0, 4.0]
    del view
    gc.collect()
    assert alive() is None
    y = kt.arange(4.0)
    shared = y.numpy()
    del y
    gc.collect()
    assert shared.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_dlpack_lifetimes():
    for version in (None, (1, 0)):
        capsule = kt.arange(3).__dlpack__(max_version=version)
        x = kt.from_dlpack(capsule)
        assert x.tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match='taken'):
            kt.from_dlpack(capsule)
        del x, capsule
        kt.arange(3).__dlpack__(max_version=version)  # dropped without being taken
    assert kt.ones(1).__dlpack_device__() == (1, 0)
    copy = kt.from_dlpack(kt.ones(2).__dlpack__(copy=True))
    assert copy.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match='__dlpack__'):
        kt.from_dlpack([1])


def test_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = kt.from_numpy(array)
    assert x.numpy().flags.writeable is False and memoryview(x).readonly
    with pytest.raises(BufferError, match='read-only'):
        x.__dlpack__()
    assert np.from_dlpack(x).flags.writeable is False
    with pytest.raises(ValueError, match='read-only'):
        kt.from_dlpack(x)[0] = 1.0
    assert x.numpy().tolist() == [0.0, 1.0, 2.0]


def test_buffer_protocol():
    x = kt.arange(6, dtype=kt.int32).reshape(2, 3)
    view = memoryview(x)
    assert (view.format, view.shape, view.strides, view.itemsize) == ('i', (2, 3), (12, 4), 4)
    assert view.tolist() == x.tolist()
    view[1, 2] = 50
    assert x[1, 2].item() == 50
    assert bytes(kt.tensor([True, False])) == b'\x01\x00'
    assert memoryview(x.T).tolist() == x.T.tolist()
    assert kt.tensor(arrays.array('d', [1.0, 2.0])).tolist() == [1.0, 2.0]
    assert kt.tensor(view).tolist() == x.tolist()
    with pytest.raises(BufferError, match='contiguous'):
        io.BytesIO().write(x.T)


def test_tensor_copies():
    array = np.arange(3.0)
    x = kt.tensor(array)
    array[0] = 9
    assert x.tolist() == [0.0, 1.0, 2.0] and x.dtype is kt.float64
    assert kt.tensor(array, dtype=kt.int32).dtype is kt.int32
    assert kt.tensor([np.float32(1.5), 2]).tolist() == [1.5, 2.0]
    assert kt.tensor([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert kt.tensor([kt.tensor(1), 2]).tolist() == [1, 2]
    assert kt.tensor(np.int64(4)).tolist() == 4 and kt.tensor(np.array(2.5)).shape == ()
    assert kt.tensor([]).shape == (0,) and kt.tensor([[], []]).shape == (2, 0)
    assert kt.tensor(range(3)).tolist() == [0, 1, 2] and kt.tensor((True, 2)).dtype is kt.int64


def test_scalars_from_numpy_on_the_left():
    x = kt.tensor([1.0, 2.0])
    for got in (np.float64(2) * x, np.float32(2) * x, np.int64(2) * x):
        assert isinstance(got, kt.Tensor) and got.tolist() == [2.0, 4.0] and got.dtype is kt.float32
    assert isinstance(np.float64(2) < x, kt.Tensor)


def test_import_leaves_numpy_alone():
    code = 'import sys, kintsugi as kt; kt.tensor([1.0]) * 2; assert "numpy" not in sys.modules'
    subprocess.run([sys.executable, '-c', code], check=True)
