"""Landmarks sorted by distance, ranking with keys, min and max with keys, grouping into a dict of lists."""
import kintsugi as kt


class Landmark:
    def __init__(self, name, kind, position):
        self.name, self.kind, self.position = name, kind, position

    def distance(self, origin):
        apart = self.position - origin
        return kt.sqrt((apart * apart).sum()).item()

    def __repr__(self):
        return f"<{self.name}>"


def group(landmarks):
    groups = {}
    for landmark in landmarks:
        groups.setdefault(landmark.kind, []).append(landmark)
    return groups


def run(landmarks, origin):
    ranked = sorted(landmarks, key=lambda l: l.distance(origin))
    nearest = min(landmarks, key=lambda l: l.distance(origin))
    farthest = max(landmarks, key=lambda l: (l.kind, l.distance(origin)))
    by_name = sorted(landmarks, key=lambda l: l.name, reverse=True)
    centres = {}
    for kind, members in sorted(group(landmarks).items()):
        centres[kind] = sum(m.position for m in members) / len(members)
    order = sorted(range(len(landmarks)), key=lambda i: landmarks[i].name)
    return [l.name for l in ranked], nearest.name, repr(farthest), [l.name for l in by_name], centres, order


def make_arguments(turn):
    data = [("tree", "plant", 3.0, 1.0), ("bush", "plant", 0.5, 2.0), ("wall", "stone", 1.0, 4.0 + turn), ("rock", "stone", -1.0, 0.1)]
    return [Landmark(n, k, kt.tensor([x, y])) for n, k, x, y in data], kt.tensor([0.0, 1.0 * turn])
