"""Gaussian elimination with pivoting, Cholesky, and conjugate gradients, all in plain loops."""
import kintsugi as kt


def solve(a, b):
    n = a.shape[0]
    m = kt.cat([a, b.reshape(n, 1)], dim=1)
    for k in range(n):
        pivot = k + m[k:, k].abs().argmax().item()
        if pivot != k:
            row = m[k].clone()
            m[k] = m[pivot]
            m[pivot] = row
        for i in range(k + 1, n):
            m[i] -= m[k] * (m[i, k] / m[k, k])
    x = kt.zeros(n)
    for i in reversed(range(n)):
        x[i] = (m[i, n] - (m[i, i + 1:n] * x[i + 1:]).sum()) / m[i, i]
    return x


def cholesky(a):
    n = len(a)
    l = kt.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - (l[i, :j] * l[j, :j]).sum()
            l[i, j] = kt.sqrt(s) if i == j else s / l[j, j]
    return l


def conjugate_gradient(a, b, iterations=3):
    x = kt.zeros_like(b)
    r = b - a @ x
    p = r
    rs = r @ r
    for _ in range(iterations):
        ap = a @ p
        alpha = rs / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        if new.item() < 1e-10:
            break
        p, rs = r + new / rs * p, new
    return x


def run(a, b):
    return solve(a, b), cholesky(a), conjugate_gradient(a, b)


def make_arguments(turn):
    a = kt.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0 + turn]])
    return a, kt.tensor([1.0, 2.0, 3.0])
