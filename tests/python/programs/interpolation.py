"""Lookup tables: linear interpolation with bisect, splines as objects, __call__, slots, caching in a dict, any order."""
import bisect

import kintsugi as kt


class Table:
    __slots__ = ("xs", "ys", "cache")

    def __init__(self, xs, ys):
        assert len(xs) == len(ys)
        self.xs, self.ys, self.cache = list(xs), ys, {}

    def __call__(self, x):
        if x in self.cache:
            return self.cache[x]
        if x <= self.xs[0]:
            result = self.ys[0]
        elif x >= self.xs[-1]:
            result = self.ys[-1]
        else:
            i = bisect.bisect_right(self.xs, x) - 1
            t = (x - self.xs[i]) / (self.xs[i + 1] - self.xs[i])
            result = (1 - t) * self.ys[i] + t * self.ys[i + 1]
        self.cache[x] = result
        return result

    def __len__(self):
        return len(self.xs)


def catmull_rom(p0, p1, p2, p3, t):
    return 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t * t + (3 * p1 - p0 - 3 * p2 + p3) * t ** 3)


def curve(points, samples):
    n = len(points)
    return [catmull_rom(*(points[min(max(i + k, 0), n - 1)] for k in (-1, 0, 1, 2)), s / samples)
            for i in range(n - 1) for s in range(samples)]


def run(table, queries, points):
    looked_up = {q: table(q) for q in queries}
    again = [table(q) is looked_up[q] for q in queries]
    line = kt.stack(curve(points, 3))
    return looked_up, again, line, len(table), list(table.cache)


def make_arguments(turn):
    return (Table([0.0, 1.0, 3.0], kt.tensor([[0.0, 1.0], [2.0, 0.0], [4.0 + turn, 5.0]])), [-1.0, 0.5, 2.0, 3.5, 0.5],
            [kt.tensor([float(i), float(i * i)]) for i in range(4)])
