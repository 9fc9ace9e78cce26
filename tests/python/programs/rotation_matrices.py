"""Rigid transforms: a chain of frames as a tuple-based tree, Rodrigues' formula, a type-annotated API, *args."""
from typing import NamedTuple, Optional

import kintsugi as kt


class Pose(NamedTuple):
    rotation: kt.Tensor
    translation: kt.Tensor

    def apply(self, points):
        return points @ self.rotation.T + self.translation

    def then(self, other: "Pose") -> "Pose":
        return Pose(other.rotation @ self.rotation, other.rotation @ self.translation + other.translation)


def skew(v):
    zero = kt.zeros(())
    x, y, z = v
    return kt.stack([kt.stack([zero, -z, y]), kt.stack([z, zero, -x]), kt.stack([-y, x, zero])])


def from_axis(axis, angle: float, translation: Optional[kt.Tensor] = None) -> Pose:
    k = skew(axis / kt.sqrt((axis * axis).sum()))
    a = kt.tensor(angle)
    rotation = kt.eye(3) + kt.sin(a) * k + (1 - kt.cos(a)) * (k @ k)
    return Pose(rotation, translation if translation is not None else kt.zeros(3))


def chain(*poses, start=None):
    result = start or Pose(kt.eye(3), kt.zeros(3))
    for pose in poses:
        result = result.then(pose)
    return result


def run(axes, angles, points):
    poses = [from_axis(axis, angle, kt.ones(3) * i) for i, (axis, angle) in enumerate(zip(axes, angles))]
    whole = chain(*poses)
    rotation, translation = whole
    return whole.apply(points), rotation, translation, whole._fields


def make_arguments(turn):
    axes = [kt.tensor([1.0, 0.0, 0.0]), kt.tensor([0.0, 1.0, 1.0])]
    return axes, [0.3, 0.5 + turn], kt.arange(6, dtype=kt.float32).reshape(2, 3)
