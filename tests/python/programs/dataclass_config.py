"""Nested dataclasses with defaults, replace, a property and a classmethod constructor."""
import dataclasses
from dataclasses import dataclass, field

import kintsugi as kt


@dataclass
class Motor:
    gain: float = 1.0
    limit: float = 2.0


@dataclass
class Robot:
    name: str
    left: Motor = field(default_factory=Motor)
    right: Motor = field(default_factory=Motor)
    width: float = 0.5
    log: list = field(default_factory=list)

    @classmethod
    def named(cls, name, **settings):
        return cls(name, **settings)

    @property
    def half(self):
        return self.width / 2

    def drive(self, command):
        speeds = []
        for motor, value in ((self.left, command[0]), (self.right, command[1])):
            speeds.append(kt.minimum(value * motor.gain, motor.limit))
        self.log.append(self.name)
        return kt.stack(speeds)


def run(command, width):
    robot = Robot.named("red", width=width)
    wide = Robot("blue", left=Motor(gain=2.0), width=width * 2)
    total = kt.zeros(2)
    for each in (robot, wide):
        speeds = each.drive(command)
        turn = (speeds[1] - speeds[0]) / each.half
        total = total + kt.stack([speeds.mean(), turn])
    tuned = dataclasses.replace(robot.left, gain=3.0)
    return total, tuned.gain * command, robot.log + wide.log


def make_arguments(turn):
    return kt.tensor([0.5, 1.5]), 0.4 + 0.1 * turn
