"""Loops of every shape: while with break, continue and else, nested breaks, enumerate with a start, reversed, zip."""
import kintsugi as kt


def first_above(values, limit):
    i = 0
    while i < len(values):
        if values[i] is None:
            i += 1
            continue
        if values[i].sum().item() > limit:
            break
        i += 1
    else:
        return -1
    return i


def pairs_closer(points, limit):
    close = []
    for i, a in enumerate(points, start=1):
        for j, b in enumerate(points, start=1):
            if j <= i:
                continue
            gap = ((a - b) * (a - b)).sum()
            if gap.item() > 50:
                break
            if gap.item() < limit:
                close.append((i, j))
        else:
            close.append((i, 0))
    return close


def run(values, points, limit):
    where = first_above(values, limit)
    close = pairs_closer(points, limit)
    backwards = kt.zeros_like(points[0])
    for weight, point in zip(range(10, 0, -2), reversed(points)):
        backwards = backwards + weight * point
    count = 0
    while True:
        count += 1
        backwards = backwards * 0.5
        if count >= 4:
            break
    odd = [p for k, p in enumerate(points) if k % 2]
    return where, close, backwards, count, sum(odd)


def make_arguments(turn):
    points = [kt.tensor([float(i), float(i * i % 5)]) for i in range(5)]
    return [None, kt.ones(3), None, kt.ones(3) * 4], points, 2.0 + turn * 5
