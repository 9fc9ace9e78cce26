"""An operator-overloading vector: arithmetic, reflected forms, comparison, indexing, iteration, in-place, abs, bool."""
import kintsugi as kt


class Vec:
    def __init__(self, data):
        self.data = data if isinstance(data, kt.Tensor) else kt.tensor(data)

    def __add__(self, other):
        return Vec(self.data + (other.data if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other

    def __neg__(self):
        return Vec(-self.data)

    def __mul__(self, k):
        return Vec(self.data * k)

    def __rmul__(self, k):
        return self * k

    def __truediv__(self, k):
        return self * (1.0 / k)

    def __matmul__(self, other):
        return (self.data * other.data).sum()

    def __iadd__(self, other):
        self.data = self.data + other.data
        return self

    def __getitem__(self, i):
        return self.data[i]

    def __len__(self):
        return len(self.data)

    def __eq__(self, other):
        return isinstance(other, Vec) and bool((self.data == other.data).all())

    def __abs__(self):
        return kt.sqrt(self @ self)

    def __bool__(self):
        return len(self) > 0

    @property
    def unit(self):
        return self / abs(self)

    @staticmethod
    def cross(a, b):
        return Vec(kt.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]))


def run(p, q, k):
    p += q
    r = 2 * p - q / k + 1.0
    normal = Vec.cross(p, r).unit if p and r else None
    return r.data, normal.data, p @ r, abs(q), r == p, p == p, sum([p, q, r]).data


def make_arguments(turn):
    return Vec([1.0, 2.0, 3.0]), Vec([0.5, -1.0, float(turn)]), 2.0 + turn
