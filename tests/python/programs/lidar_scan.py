"""Ranges to points to clusters: masks, python lists of indices, tuple keys, sets, any and all, chained comparisons."""
import math

import kintsugi as kt


def to_points(ranges, start, step):
    angles = start + step * kt.arange(len(ranges), dtype=kt.float32)
    return kt.stack([ranges * kt.cos(angles), ranges * kt.sin(angles)], dim=1)


def clusters(points, valid, gap):
    groups, current = [], []
    previous = None
    for i, good in enumerate(valid):
        if not good:
            continue
        if previous is not None:
            apart = points[i] - points[previous]
            if math.sqrt((apart * apart).sum().item()) > gap:
                groups.append(current)
                current = []
        current.append(i)
        previous = i
    if current:
        groups.append(current)
    return groups


def occupied_cells(points, valid, size):
    cells = set()
    for (x, y), good in zip(points.tolist(), valid):
        if good:
            cells.add((int(x // size), int(y // size)))
    return cells


def run(ranges, limits, gap, size):
    low, high = limits
    points = to_points(ranges, -0.5, 0.25)
    valid = [low < r < high for r in ranges.tolist()]
    groups = clusters(points, valid, gap)
    centres = [sum(points[i] for i in group) / len(group) for group in groups]
    cells = occupied_cells(points, valid, size)
    print(len(groups), "clusters in", sorted(cells))
    return centres, any(len(g) > 2 for g in groups), all(valid), (0, 0) in cells


def make_arguments(turn):
    return kt.tensor([1.0, 1.1, 5.0, 0.05, 3.0 + turn, 3.1, 3.0]), (0.1, 4.5), 0.8, 0.5
