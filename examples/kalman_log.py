"""What the robot of kalman.py knows about itself, and its log: data/drive.csv, made by make_kalman_data.py."""
import csv
import pathlib

DT = 0.1               # seconds a step
TRACK = 0.5            # metres between the wheels
WHEEL_NOISE = 0.05     # m/s, standard deviation; more than the encoders' own, because the wheels are not quite alike
RANGE_NOISE = 0.12     # metres
BEARING_NOISE = 0.02   # radians
GATE = 13.8            # a good sighting is odder than this once in a thousand (chi square, two degrees of freedom)
START = [4.0, 3.0, 0.0]

FOLDER = pathlib.Path(__file__).parent / "data"


class Reading:
    """One step of the log: wheel speeds, and which landmark was seen where (both None: no sighting)."""

    def __init__(self, left, right, landmark, seen):
        self.left, self.right = left, right
        self.landmark, self.seen = landmark, seen


def rows(name):
    with open(FOLDER / name, newline="") as file:
        yield from csv.DictReader(file)


def read_landmarks():
    return [[float(row["x"]), float(row["y"])] for row in rows("landmarks.csv")]


def read_log(vector):
    """All readings; `vector` turns a list of numbers into an array."""
    landmarks = [vector(place) for place in read_landmarks()]
    readings = []
    for row in rows("drive.csv"):
        landmark = seen = None
        if row["landmark"]:
            landmark = landmarks[int(row["landmark"])]
            seen = vector([float(row["range"]), float(row["bearing"])])
        readings.append(Reading(float(row["left"]), float(row["right"]), landmark, seen))
    return readings


def read_truth():
    return [(float(row["true_x"]), float(row["true_y"])) for row in rows("drive.csv")]
