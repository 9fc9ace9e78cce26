"""Body rates integrated into a unit quaternion, then applied to vectors."""
import kintsugi as kt


def multiply(a, b):
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return kt.stack([
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ])


def normalised(q):
    return q / kt.sqrt((q * q).sum())


def conjugate(q):
    return q * kt.tensor([1.0, -1.0, -1.0, -1.0])


def rotate(q, v):
    pure = kt.cat([kt.zeros(1), v])
    return multiply(multiply(q, pure), conjugate(q))[1:]


def run(q, rates, dt, vectors):
    for rate in rates:
        spin = kt.cat([kt.zeros(1), rate])
        q = normalised(q + 0.5 * dt * multiply(q, spin))
    return q, [rotate(q, v) for v in vectors]


def make_arguments(turn):
    rates = [kt.tensor([0.1 * i, 0.2 - 0.1 * turn, -0.3]) for i in range(3 + turn)]
    return kt.tensor([1.0, 0.0, 0.0, 0.0]), rates, 0.01 * (turn + 1), [kt.tensor([1.0, 0.0, 0.0]), kt.tensor([0.0, 1.0, 2.0])]
