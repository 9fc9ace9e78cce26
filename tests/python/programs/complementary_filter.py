"""Attitude from gyroscope and accelerometer, blended; gravity readings far off are not trusted."""
import math
from dataclasses import dataclass

import kintsugi as kt


@dataclass
class Settings:
    alpha: float = 0.98
    dt: float = 0.01
    gravity: float = 9.81
    tolerance: float = 0.3


def angles_from(acceleration):
    ax, ay, az = acceleration[0], acceleration[1], acceleration[2]
    roll = kt.atan2(ay, az)
    pitch = kt.atan2(-ax, kt.sqrt(ay * ay + az * az))
    return kt.stack([roll, pitch])


def trusted(acceleration, settings):
    size = math.sqrt(float((acceleration * acceleration).sum()))
    return abs(size - settings.gravity) < settings.tolerance * settings.gravity


def run(attitude, readings, settings):
    rejected = 0
    for gyro, acceleration in readings:
        attitude = attitude + gyro[:2] * settings.dt
        if not trusted(acceleration, settings):
            rejected += 1
            continue
        attitude = settings.alpha * attitude + (1 - settings.alpha) * angles_from(acceleration)
    print(f"rejected {rejected} of {len(readings)}")
    return attitude, rejected


def make_arguments(turn):
    readings = []
    for i in range(6 + turn):
        gyro = kt.tensor([0.1 * i, -0.2, 0.05])
        acceleration = kt.tensor([0.3 * i, 0.1, 9.7]) * (3.0 if i == 3 else 1.0)
        readings.append((gyro, acceleration))
    return kt.zeros(2), readings, Settings(alpha=0.9 + 0.01 * turn)
