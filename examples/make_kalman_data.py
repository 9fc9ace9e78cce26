"""Makes the log that kalman.py reads: a robot on two driven wheels patrols a hall and looks at landmarks.

    python examples/make_kalman_data.py        writes data/landmarks.csv and data/drive.csv

The vehicle.  Each step of 0.1 s the robot steers for the next of eight waypoints. Its wheels follow the commanded
speeds with a little slip, constant during the step, so that the true pose moves on an exact arc.

The odometry.  Encoders report each wheel's speed with noise, and the right wheel is 0.6 % larger than the controller
believes: by wheel odometry alone the robot is metres off after a few rounds.

The landmark sensor.  It sees landmarks within 9 m and 100 degrees to either side, one a step, and reports range and
bearing with noise. In one sighting of sixty somebody walks in between, and the report says nothing of the landmark.

Everything is drawn from one seed, so the files come out the same each time.
"""
import csv
import math
import pathlib
import random

STEPS, DT = 2000, 0.1
TRACK = 0.5                                       # metres between the wheels
CRUISE, TURN_GAIN, TURN_LIMIT = 1.1, 1.8, 1.0     # m/s, 1/s, rad/s
SLIP, ENCODER_NOISE, WHEEL_ERROR = 0.02, 0.02, 1.006
RANGE_NOISE, BEARING_NOISE = 0.12, 0.02           # metres, radians
SIGHT_RANGE, SIGHT_ANGLE, PASSER_BY = 9.0, math.radians(100), 1 / 60

WAYPOINTS = [(4, 3), (13, 2.5), (25, 3.5), (26.5, 10), (20, 13), (15, 9), (9, 13.5), (3, 11)]
LANDMARKS = [(0, 0), (8, 0), (16, 0), (24, 0), (30, 5), (30, 13), (25, 16), (17, 16), (10, 16), (2, 16), (0, 8),
             (11, 6), (21, 7)]


def wrapped(angle):
    return math.atan2(math.sin(angle), math.cos(angle))


def wheels_towards(pose, target):
    x, y, heading = pose
    off_course = wrapped(math.atan2(target[1] - y, target[0] - x) - heading)
    turn = max(-TURN_LIMIT, min(TURN_LIMIT, TURN_GAIN * off_course))
    speed = CRUISE * max(0.3, math.cos(off_course))
    return speed - turn * TRACK / 2, speed + turn * TRACK / 2


def moved(pose, left, right):
    """The pose after one step with these wheel speeds: an arc, or a line when the wheels turn alike."""
    x, y, heading = pose
    way, turn = (left + right) / 2 * DT, (right - left) / TRACK * DT
    chord = way if abs(turn) < 1e-9 else way * math.sin(turn / 2) / (turn / 2)
    middle = heading + turn / 2
    return x + chord * math.cos(middle), y + chord * math.sin(middle), wrapped(heading + turn)


def sighting(draw, pose, step):
    """(landmark, range, bearing) of one landmark in view, or three empty fields."""
    x, y, heading = pose
    in_view = []
    for number, (landmark_x, landmark_y) in enumerate(LANDMARKS):
        distance = math.hypot(landmark_x - x, landmark_y - y)
        bearing = wrapped(math.atan2(landmark_y - y, landmark_x - x) - heading)
        if distance < SIGHT_RANGE and abs(bearing) < SIGHT_ANGLE:
            in_view.append((number, distance, bearing))
    if step % 3 == 2 or not in_view:   # the sensor needs every third step for itself
        return "", "", ""
    number, distance, bearing = draw.choice(in_view)
    if draw.random() < PASSER_BY:
        distance, bearing = draw.uniform(0.5, SIGHT_RANGE), draw.uniform(-SIGHT_ANGLE, SIGHT_ANGLE)
    distance, bearing = distance + draw.gauss(0, RANGE_NOISE), wrapped(bearing + draw.gauss(0, BEARING_NOISE))
    return number, f"{distance:.4f}", f"{bearing:.5f}"


def drive(draw):
    pose, goal = (4.0, 3.0, 0.0), 1
    for step in range(STEPS):
        if math.dist(pose[:2], WAYPOINTS[goal]) < 1.0:
            goal = (goal + 1) % len(WAYPOINTS)
        left, right = (speed * (1 + draw.gauss(0, SLIP)) for speed in wheels_towards(pose, WAYPOINTS[goal]))
        pose = moved(pose, left, right)
        left = left + draw.gauss(0, ENCODER_NOISE)
        right = right * WHEEL_ERROR + draw.gauss(0, ENCODER_NOISE)
        yield [step, f"{left:.4f}", f"{right:.4f}", *sighting(draw, pose, step),
               *(f"{number:.4f}" for number in pose)]


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "data"
    write(folder / "landmarks.csv", ["landmark", "x", "y"], [[i, x, y] for i, (x, y) in enumerate(LANDMARKS)])
    write(folder / "drive.csv", "step left right landmark range bearing true_x true_y true_heading".split(),
          drive(random.Random(1610)))
