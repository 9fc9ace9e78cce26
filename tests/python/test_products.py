"""prod and einsum: against NumPy, compiled as eager bit for bit and followed, errors."""
import numpy as np
import pytest

import kintsugi as kt

FULL = ["ij,jk->ik", "ij,jk", "ij->ji", "ij", "ii", "ii->i", "ij->", "i,j->ij", "i,i", "i,i->i", "ij,ij->ij", "bij,bjk->bik", "bij,jk->bik",
        "...ij,...jk->...ik", "...i,...i->...", "...ij->...ji", "ij,j->i", "ijk,k,j->i", "ij,jk,kl->il", "ij,kl->ijkl", "iij->j", "iij,jk->ik",
        "abc,cd,be->ade", "i->", "ba,b->a", " ij , jk -> ki", "ij,ik->jk", "i,ij,j", "...->...", "i...->...i", "ab,ab,ab->ba", ",i->i"]
SIZES = {"i": 3, "j": 4, "k": 2, "l": 5, "a": 2, "b": 3, "c": 4, "d": 2, "e": 3}


def arrays(equation, dtype):
    random = np.random.default_rng(5)
    for term in equation.replace(" ", "").partition("->")[0].split(","):
        sizes = []
        for part in term.partition("..."):
            sizes += [2, 3] if part == "..." else [SIZES[name] for name in part]
        yield random.integers(-4, 5, sizes).astype(dtype) if dtype == "int64" else random.standard_normal(sizes).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("equation", FULL)
def test_einsum(equation, dtype, stress):
    given = list(arrays(equation, dtype))
    wanted = np.einsum(equation, *given)
    tensors = [kt.tensor(each) for each in given]
    eager = kt.einsum(equation, *tensors)
    assert eager.dtype is tensors[0].dtype and list(eager.shape) == list(wanted.shape)
    np.testing.assert_allclose(eager.numpy(), wanted, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-5 if dtype == "float32" else 1e-13)
    kt._dynamo.reset()
    fast = kt.compile(lambda *tensors: kt.einsum(equation, *tensors), fullgraph=stress != "break_everywhere")
    for _ in range(2):
        assert repr(fast(*tensors).tolist()) == repr(eager.tolist())


def test_einsum_widens_and_never_aliases():
    a, b = kt.ones(3, 1), kt.arange(8).reshape(2, 4) * 1.0
    assert kt.einsum("ij,jk->ik", kt.ones(3, 1), b).tolist() == [[4.0, 6.0, 8.0, 10.0]] * 3  # a size of 1 is repeated
    assert kt.einsum("ij,ij->ij", kt.ones(1, 4), b).tolist() == b.tolist()
    assert kt.einsum("ij,jk->ik", [kt.ones(2, 2), b]).tolist() == (kt.ones(2, 2) @ b).tolist()
    out = kt.einsum("ij->ij", a)
    out.fill_(7)
    assert a.tolist() == [[1.0]] * 3


WRONG = {"ij,jk->ik": (1, "2 terms"), "ij": (3, "another number"), "i1,jk": (2, "letters"), "ij,jk->iz": (2, "'z'"), "ij,jk->ii": (2, "'i'"),
         "ij,kj->ik": ("sizes", "'j'"), "ii": ("square", "'i'")}


@pytest.mark.parametrize("equation", WRONG)
def test_einsum_refuses(equation):
    count, words = WRONG[equation]
    tensors = {1: (kt.ones(2, 2),), 2: (kt.ones(2, 2),) * 2, 3: (kt.ones(2, 2, 2),), "sizes": (kt.ones(2, 3), kt.ones(2, 2)),
               "square": (kt.ones(2, 3),)}[count]
    for call in (kt.einsum, kt.compile(lambda *given: kt.einsum(*given))):
        with pytest.raises(RuntimeError, match=words):
            call(equation, *tensors)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (4, 3), (2, 5, 3), (0,), (2, 0, 3)])
def test_prod(shape, dtype, stress):
    random = np.random.default_rng(3)
    array = random.integers(-3, 4, shape).astype(dtype) if dtype != "float32" else np.asarray(random.standard_normal(shape), dtype)
    x = kt.tensor(array) if shape else kt.tensor(array.item()).to(getattr(kt, dtype))
    whole = np.prod(array, dtype=None if "float" in dtype else "int64")

    def everything(x):
        return [x.prod(), kt.prod(x, dtype=kt.float64), *[part for dim in range(-x.dim(), x.dim()) for part in (x.prod(dim), x.prod(dim, True))]]

    eager = everything(x)
    assert eager[0].dtype is (x.dtype if "float" in dtype else kt.int64) and eager[1].dtype is kt.float64 and eager[0].dim() == 0
    np.testing.assert_allclose(eager[0].numpy(), whole, rtol=1e-5)
    for dim in range(-len(shape), len(shape)):
        for keep in (False, True):
            found = x.prod(dim, keep)
            np.testing.assert_allclose(found.numpy(), np.prod(array, axis=dim, keepdims=keep, dtype=None if "float" in dtype else "int64"), rtol=1e-5)
    kt._dynamo.reset()
    fast = kt.compile(everything, dynamic=False, fullgraph=stress != "break_everywhere")
    for _ in range(2):
        assert repr([part.tolist() for part in fast(x)]) == repr([part.tolist() for part in eager])


def test_prod_is_of_fresh_memory_and_refuses():
    x = kt.ones(1)
    x.prod(0, True).fill_(5)
    assert x.tolist() == [1.0]
    for wrong in (1, -2):
        with pytest.raises(IndexError, match="out of range"):
            kt.ones(3).prod(wrong)
    assert kt.prod(kt.tensor([-0.0])).tolist() == -0.0 and str(kt.prod(kt.tensor([-0.0])).item()) == "-0.0"
    assert kt.prod(kt.tensor([3, 2 ** 62, 2])).item() == np.prod(np.array([3, 2 ** 62, 2]))
