"""Errors on the way: try, except with as, else, finally, raising again, custom exceptions, cleanup that always runs."""
import kintsugi as kt


class SensorError(Exception):
    def __init__(self, name, value):
        super().__init__(f"{name}: {value}")
        self.name = name
        self.value = value


def checked(name, reading):
    total = reading.sum().item()
    if total != total:
        raise SensorError(name, total)
    return reading


def read_all(sensors, log):
    good = []
    for name, reading in sensors.items():
        log.append("open " + name)
        try:
            value = checked(name, reading)
        except SensorError as error:
            log.append(str(error))
            continue
        else:
            good.append(value)
        finally:
            log.append("close " + name)
    return good


def run(sensors, log):
    good = read_all(sensors, log)
    try:
        mean = sum(good) / len(good)
    except ZeroDivisionError:
        mean = None
    try:
        try:
            kt.stack(good) + kt.zeros(7)
        finally:
            log.append("after")
    except RuntimeError as error:
        log.append(type(error).__name__)
    return mean, len(good)


def make_arguments(turn):
    nan = float("nan")
    sensors = {"front": kt.tensor([1.0, 2.0, 3.0]), "left": kt.tensor([nan, 0.0, 1.0 + turn]), "back": kt.tensor([0.5, 0.0, nan if turn == 2 else 1.0])}
    return sensors, []
