"""Each instruction set gives the same bits: a program of what stencils, reductions and small products compute, run
under each set, prints one digest. On a CPU with one set it compares that with itself."""
import os
import subprocess
import sys

SETS = ("x86-64-v1", "x86-64-v3", "x86-64-v4")  # a CPU without a set runs its best one
PROGRAM = """
import hashlib
import kintsugi as kt

kt.manual_seed(7)
digest = hashlib.sha256()


def note(*tensors):
    for tensor in tensors:
        digest.update(tensor.numpy().tobytes())


for dtype in (kt.float32, kt.float64):
    for size in (1, 7, 70, 1000, 5003):
        a, b = kt.randn(size, dtype=dtype), kt.randn(size, dtype=dtype)
        note(a + b, a - b, a * b, a / b, -a, a.abs(), a // b, a % b, a.abs().sqrt(), (a * 20).exp(), a.abs().log(),
             (a * 1e4).sin(), (a * 1e4).cos(), kt.atan2(a, b), (a * 2).tanh(), a.relu(), a < b, kt.where(a > 0, a, b),
             kt.maximum(a, b), kt.minimum(a, b), a.sum(), a.mean(), a.amax(), a.amin(), a.argmax(), a.any(), a.all(),
             a[::2].sum(), kt.rand(size, dtype=dtype))
    for size in (1, 3, 8, 9, 40):
        m, n = kt.randn(size, size, dtype=dtype), kt.randn(size, size, dtype=dtype)
        note(m.T + n, m.sum(0), m.sum(1), (m.T * n).mean(0), m.amax(1))
        if size <= 8:
            note(m @ n)
for dtype in (kt.int32, kt.int64):
    a, b = (kt.randn(1003) * 1000).to(dtype), (kt.randn(1003) * 30).to(dtype)
    b = kt.where(b == 0, 3, b)
    note(a + b, a * b, a // b, a % b, a / b, a.abs(), a < b, a.sum(), a.amax(), kt.maximum(a, b))
    note(a & b, a | b, a ^ b, ~a, a << b, a >> b, a << 3, 1 >> b, (a.int() << b) ^ a)


@kt.compile
def fused(x, y):
    z = (x * y + 0.25).tanh() - x.exp().log()
    return z, (z * z).sum(), (z.sin() * y).mean()


for size in (5, 64, 3001):
    for _ in range(3):
        note(*fused(kt.randn(size), kt.randn(size)))
print(digest.hexdigest())
"""


def test_every_set_gives_the_same_bits():
    def run(name):
        return subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "KINTSUGI_ISA": name},
                              capture_output=True, text=True, check=True).stdout

    digests = {name: run(name) for name in SETS}
    assert len(set(digests.values())) == 1 and len(digests["x86-64-v1"]) == 65, digests
