"""The filter of kalman.py as one would write it in NumPy, for comparison of speed and results."""
import math

import numpy as np

from kalman_log import BEARING_NOISE, DT, GATE, RANGE_NOISE, TRACK, WHEEL_NOISE

WHEEL_COVARIANCE = np.eye(2) * WHEEL_NOISE**2
SIGHT_COVARIANCE = np.diag([RANGE_NOISE**2, BEARING_NOISE**2])


class PoseFilter:
    def __init__(self, pose):
        self.pose = np.array(pose)
        self.covariance = np.eye(3) * 1e-4
        self.path = []

    def drive(self, left, right):
        way, turn = (left + right) / 2 * DT, (right - left) / TRACK * DT
        middle = self.pose[2] + turn / 2
        cosine, sine = np.cos(middle), np.sin(middle)
        by_pose = np.eye(3)
        by_pose[0, 2] = -way * sine
        by_pose[1, 2] = way * cosine
        by_wheels = np.array([[cosine, cosine], [sine, sine], [-2 / TRACK, 2 / TRACK]]) * (DT / 2)
        self.pose = self.pose + np.array([way * cosine, way * sine, turn])
        self.covariance = by_pose @ self.covariance @ by_pose.T + by_wheels @ WHEEL_COVARIANCE @ by_wheels.T

    def sight(self, landmark, seen):
        dx, dy = landmark - self.pose[:2]
        square = dx * dx + dy * dy
        distance = np.sqrt(square)
        expected = np.array([distance, np.arctan2(dy, dx) - self.pose[2]])
        by_pose = np.array([[-dx / distance, -dy / distance, 0.0], [dy / square, -dx / square, -1.0]])
        surprise = seen - expected
        surprise[1] = np.arctan2(np.sin(surprise[1]), np.cos(surprise[1]))
        spread = by_pose @ self.covariance @ by_pose.T + SIGHT_COVARIANCE
        (a, b), (c, d) = spread
        inverse = np.array([[d, -b], [-c, a]]) / (a * d - b * c)
        oddness = (surprise @ inverse @ surprise).item()
        if oddness > GATE:
            return
        gain = self.covariance @ by_pose.T @ inverse
        self.pose = self.pose + gain @ surprise
        self.covariance = (np.eye(3) - gain @ by_pose) @ self.covariance


def follow(robot, reading):
    robot.drive(reading.left, reading.right)
    if reading.landmark is not None:
        robot.sight(reading.landmark, reading.seen)
    robot.path.append(robot.pose)
