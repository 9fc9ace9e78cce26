"""Where is the robot? An extended Kalman filter, run plain and compiled by Kintsugi.

    ./dev demo        or: python examples/kalman.py [path.png]

The filter fuses two poor sources: wheel odometry, smooth but drifting, and sightings of known landmarks (range and
bearing), absolute but noisy and sometimes plain wrong. It is ordinary Python: a class with its state, small matrices,
and a gate that asks one number of each sighting (`.item()`, then `if`) and prints what it turns away. None of it was
written with a compiler in mind. `kt.compile(follow)` is the only change; this script then shows that it changed the
time and nothing else.
"""
import contextlib
import io
import math
import pathlib
import statistics
import sys
import time

import kintsugi as kt

from kalman_log import BEARING_NOISE, DT, GATE, RANGE_NOISE, START, TRACK, WHEEL_NOISE
from kalman_log import read_landmarks, read_log, read_truth


# ---- The filter ----------------------------------------------------------------------------------------------------


def vector(numbers):
    return kt.tensor(numbers, dtype=kt.float64)


def inverse_2x2(m):
    a, b, c, d = m[0, 0], m[0, 1], m[1, 0], m[1, 1]
    inverse = kt.zeros(2, 2, dtype=kt.float64)
    inverse[0, 0], inverse[0, 1] = d, -b
    inverse[1, 0], inverse[1, 1] = -c, a
    return inverse / (a * d - b * c)


def wrapped(angle):
    return kt.atan2(kt.sin(angle), kt.cos(angle))


class PoseFilter:
    """The robot's pose (x, y, heading), how sure we are of it, and the way it came."""

    def __init__(self, pose):
        self.pose = vector(pose)
        self.covariance = kt.eye(3, dtype=kt.float64) * 1e-4
        self.wheel_covariance = kt.eye(2, dtype=kt.float64) * WHEEL_NOISE**2
        self.sight_covariance = vector([[RANGE_NOISE**2, 0], [0, BEARING_NOISE**2]])
        self.path = []
        self.rejected = 0

    def drive(self, left, right):
        """The wheels turned with these speeds for one step: move on, and be less sure."""
        way, turn = (left + right) / 2 * DT, (right - left) / TRACK * DT
        middle = self.pose[2] + turn / 2
        cosine, sine = kt.cos(middle), kt.sin(middle)

        moved = kt.zeros(3, dtype=kt.float64)
        moved[0], moved[1], moved[2] = way * cosine, way * sine, turn
        by_pose = kt.eye(3, dtype=kt.float64)       # how the new pose changes with the old one
        by_pose[0, 2], by_pose[1, 2] = -way * sine, way * cosine
        by_wheels = kt.zeros(3, 2, dtype=kt.float64)  # and with the speed of each wheel
        by_wheels[0], by_wheels[1] = cosine * (DT / 2), sine * (DT / 2)
        by_wheels[2, 0], by_wheels[2, 1] = -DT / TRACK, DT / TRACK

        self.pose = self.pose + moved
        self.covariance = (by_pose @ self.covariance @ by_pose.T
                           + by_wheels @ self.wheel_covariance @ by_wheels.T)

    def sight(self, landmark, seen):
        """A landmark was seen at this range and bearing: correct the pose, unless that is too odd to be true."""
        to_landmark = landmark - self.pose[:2]
        dx, dy = to_landmark[0], to_landmark[1]
        square = dx * dx + dy * dy
        distance = kt.sqrt(square)
        by_pose = kt.zeros(2, 3, dtype=kt.float64)  # how range and bearing change with the pose
        by_pose[0, 0], by_pose[0, 1] = -dx / distance, -dy / distance
        by_pose[1, 0], by_pose[1, 1], by_pose[1, 2] = dy / square, -dx / square, -1.0

        surprise = seen - kt.stack([distance, kt.atan2(dy, dx) - self.pose[2]])
        surprise[1] = wrapped(surprise[1])
        inverse = inverse_2x2(by_pose @ self.covariance @ by_pose.T + self.sight_covariance)
        oddness = (surprise @ inverse @ surprise).item()
        if oddness > GATE:
            self.rejected += 1
            print(f"step {len(self.path):4}: sighting rejected, {surprise[0].item():+.2f} m and "
                  f"{math.degrees(surprise[1].item()):+.0f} degrees off")
            return

        gain = self.covariance @ by_pose.T @ inverse
        self.pose = self.pose + gain @ surprise
        self.covariance = (kt.eye(3, dtype=kt.float64) - gain @ by_pose) @ self.covariance


def follow(robot, reading):
    """One step of the log."""
    robot.drive(reading.left, reading.right)
    if reading.landmark is not None:
        robot.sight(reading.landmark, reading.seen)
    robot.path.append(robot.pose)


# ---- Plain, compiled, NumPy ----------------------------------------------------------------------------------------


def run(step, robot, readings):
    """The robot after the log, what it printed, and seconds a step."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        start = time.perf_counter()
        for reading in readings:
            step(robot, reading)
        seconds = (time.perf_counter() - start) / len(readings)
    return robot, printed.getvalue(), seconds


def compile_during(step, robot, readings):
    """The same, but notes the steps in which something was compiled. Seconds of these steps, their number."""
    counters = kt._dynamo.utils.counters["native"]  # read anew at each look
    total, steps, known = 0.0, 0, counters["segments"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for reading in readings:
            start = time.perf_counter()
            step(robot, reading)
            seconds = time.perf_counter() - start
            if counters["segments"] != known:
                total, steps, known = total + seconds, steps + 1, counters["segments"]
    return robot, printed.getvalue(), total, steps


def bits(path):
    return memoryview(kt.stack(path)).tobytes()


def error_of(path, truth):
    """Root mean square and greatest distance from the truth, in metres."""
    distances = [math.dist((x, y), place) for (x, y, _), place in zip(path, truth)]
    return math.sqrt(statistics.fmean(d * d for d in distances)), max(distances)


def explain(title, readings, index):
    """What the compiler made of the step at `index`."""
    robot = PoseFilter(START)
    with contextlib.redirect_stdout(io.StringIO()):
        for reading in readings[:index]:
            follow(robot, reading)
        explanation = kt._dynamo.explain(follow)(robot, readings[index])
    sizes = ", ".join(str(len(ops)) for ops in explanation.ops_per_graph)
    print(f"\n{title}: {explanation.graph_count} graphs of {sizes} operations, {len(explanation.out_guards)} guards "
          f"({explanation.compile_times})")
    for broken in explanation.break_reasons:
        where = broken.user_stack[-1]
        reason = broken.reason.strip().splitlines()[0]
        print(f"  break at {pathlib.Path(where.filename).name}:{where.lineno} in {where.name}: {reason}")
        print(f"      {where.line}")


def draw(path, odometry, truth, rejected, file):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 6))
    axes.plot(*zip(*truth), color="#bbbbbb", linewidth=4, label="truth")
    axes.plot(*zip(*[(x, y) for x, y, _ in odometry]), color="#c0504d", linewidth=0.8, label="wheels alone")
    axes.plot(*zip(*[(x, y) for x, y, _ in path]), color="#b8860b", linewidth=1.2, label="filter")
    axes.plot(*zip(*read_landmarks()), "k^", label="landmarks")
    axes.plot(*zip(*[path[i][:2] for i in rejected]), "x", color="#1f4e79", label="sighting rejected")
    axes.set(aspect="equal", xlim=(-4, 36), ylim=(-4, 20), xlabel="x [m]", ylabel="y [m]")
    axes.legend(loc="upper right", fontsize="small")
    figure.savefig(file, dpi=110, bbox_inches="tight")
    print(f"\nthe path is drawn in {file}")


def main():
    import kalman_numpy
    import numpy

    readings, truth = read_log(vector), read_truth()
    array_readings = read_log(numpy.array)
    step = kt.compile(follow)

    plain, said, _ = run(follow, PoseFilter(START), readings)
    compiled, said_compiled, compile_seconds, compile_steps = compile_during(step, PoseFilter(START), readings)
    again, said_again, _ = run(step, PoseFilter(START), readings)
    rounds = [(run(follow, PoseFilter(START), readings)[2], run(step, PoseFilter(START), readings)[2],
               run(kalman_numpy.follow, kalman_numpy.PoseFilter(START), array_readings)[2]) for _ in range(5)]
    counted = dict(kt._dynamo.utils.counters["native"])

    same = bits(plain.path) == bits(compiled.path) == bits(again.path) and said == said_compiled == said_again
    path = [pose.tolist() for pose in plain.path]
    rejected = [int(line[5:9]) for line in said.splitlines()]
    sightings = sum(reading.landmark is not None for reading in readings)
    print(f"{len(readings)} steps, {sightings} sightings, {plain.rejected} rejected; the first three:")
    print("".join("  " + line for line in said.splitlines(keepends=True)[:3]), end="")

    odometry = PoseFilter(START)
    for reading in readings:
        odometry.drive(reading.left, reading.right)
        odometry.path.append(odometry.pose)
    odometry_path = [pose.tolist() for pose in odometry.path]
    print(f"distance from the truth: {error_of(path, truth)[0]:.3f} m rms, {error_of(path, truth)[1]:.3f} m at worst "
          f"(wheels alone: {error_of(odometry_path, truth)[0]:.1f} m, {error_of(odometry_path, truth)[1]:.1f} m)")
    verdict = "equal the plain run bit for bit" if same else "DIFFER FROM THE PLAIN RUN"
    print(f"compiled, twice: path and output {verdict}")

    array_robot, _, _ = run(kalman_numpy.follow, kalman_numpy.PoseFilter(START), array_readings)
    apart = max(abs(a - b) for ours, theirs in zip(path, array_robot.path) for a, b in zip(ours, theirs.tolist()))
    print(f"NumPy's path differs by {apart:.1e} at most")

    names = ["plain", "compiled", "NumPy"]
    times = [statistics.median(column) * 1e6 for column in zip(*rounds)]
    print("\ntime a step: " + ", ".join(f"{name} {us:.1f} us" for name, us in zip(names, times)))
    print(f"compiling took {compile_seconds * 1e3:.2f} ms in all, in {compile_steps} of the steps "
          f"(with running them): {counted['segments']} segments")
    shown = ("frameless_calls", "kernels", "call_outs", "hand_overs", "fallbacks")
    print("since the start: " + ", ".join(f"{counted[key]} {key.replace('_', ' ')}" for key in shown))

    first_sighting = next(i for i, reading in enumerate(readings) if reading.landmark is not None)
    explain("a step with a sighting", readings, first_sighting)
    explain("a step that rejects one", readings, rejected[0])

    file = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/kalman.png")
    file.parent.mkdir(parents=True, exist_ok=True)
    draw(path, odometry_path, truth, rejected, file)
    return 0 if same and error_of(path, truth)[0] < 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())
