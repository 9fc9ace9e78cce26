"""A joint with properties, setters that check, a cached value, class attributes, inheritance with super()."""
import kintsugi as kt


class Joint:
    count = 0
    limits = (-1.5, 1.5)

    def __init__(self, angle):
        self._angle = angle
        self._cached = None
        type(self).count += 1

    @property
    def angle(self):
        return self._angle

    @angle.setter
    def angle(self, value):
        low, high = self.limits
        self._angle = kt.minimum(kt.maximum(value, low), high)
        self._cached = None

    @property
    def rotation(self):
        if self._cached is None:
            c, s = kt.cos(self._angle), kt.sin(self._angle)
            self._cached = kt.stack([kt.stack([c, -s]), kt.stack([s, c])])
        return self._cached

    def move(self, by):
        self.angle = self.angle + by
        return self


class LimitedJoint(Joint):
    limits = (-0.5, 0.5)

    def __init__(self, angle, name="limited"):
        super().__init__(angle)
        self.name = name

    def move(self, by):
        super().move(by * 0.5)
        return self


def run(joints, by):
    pose = kt.eye(2)
    for joint in joints:
        pose = pose @ joint.move(by).rotation
    again = joints[0].rotation is joints[0].rotation
    return pose, again, [joint.angle for joint in joints], getattr(joints[1], "name", None), hasattr(joints[0], "name")


def make_arguments(turn):
    return [Joint(kt.tensor(0.2)), LimitedJoint(kt.tensor(0.4)), Joint(kt.tensor(-1.0 + turn))], kt.tensor(0.3)
