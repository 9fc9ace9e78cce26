"""Numeric helpers as a library has them: welford, covariance, histogram, percentile, zscore, argument checks."""
import math

import kintsugi as kt


class Welford:
    def __init__(self):
        self.count, self.mean, self.m2 = 0, 0.0, 0.0

    def add(self, x):
        self.count += 1
        delta = x - self.mean
        self.mean = self.mean + delta / self.count
        self.m2 = self.m2 + delta * (x - self.mean)

    @property
    def variance(self):
        return self.m2 / (self.count - 1) if self.count > 1 else float("nan")


def covariance(x, *, bias=False):
    if x.ndim != 2:
        raise ValueError(f"expected a matrix, got {x.ndim} dimensions")
    centred = x - x.mean(dim=0, keepdim=True)
    return centred.T @ centred / (x.shape[0] - (0 if bias else 1))


def histogram(values, edges):
    counts = [0] * (len(edges) - 1)
    for value in values.tolist():
        for i, (low, high) in enumerate(zip(edges, edges[1:])):
            if low <= value < high:
                counts[i] += 1
                break
    return counts


def percentile(values, p):
    ordered = sorted(values.tolist())
    at = (len(ordered) - 1) * p / 100
    low, high = math.floor(at), math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def run(rows, edges):
    running = Welford()
    for row in rows:
        running.add(row)
    spread = covariance(rows)
    flat = rows.flatten()
    z = (flat - flat.mean()) / kt.sqrt(((flat - flat.mean()) * (flat - flat.mean())).mean())
    try:
        covariance(flat)
    except ValueError as error:
        print("refused:", error)
    return running.variance, spread, histogram(flat, edges), percentile(flat, 90), z, covariance(rows, bias=True)


def make_arguments(turn):
    rows = kt.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0], [2.0, 2.0 + turn]])
    return rows, [-2.0, 0.0, 1.0, 2.5, 10.0]
