"""Context managers: a class that times with a fake clock, one made by contextlib, nested, several in one with."""
import contextlib

import kintsugi as kt


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.5
        return self.now


class Timer:
    def __init__(self, clock, name, totals):
        self.clock, self.name, self.totals = clock, name, totals

    def __enter__(self):
        self.start = self.clock()
        return self

    def __exit__(self, kind, error, traceback):
        self.totals[self.name] = self.totals.get(self.name, 0.0) + self.clock() - self.start
        return False


@contextlib.contextmanager
def section(log, name):
    log.append(("enter", name))
    try:
        yield name.upper()
    finally:
        log.append(("exit", name))


def run(x, steps):
    clock, totals, log = Clock(), {}, []
    with Timer(clock, "all", totals) as outer:
        for i in range(steps):
            with Timer(clock, "step", totals), section(log, "inner") as name:
                x = kt.sin(x) + i
        with contextlib.suppress(KeyError):
            totals["missing"]
    return x, totals, log, outer.start, name


def make_arguments(turn):
    return kt.tensor([0.1, 0.2, 0.3 + turn]), 2 + turn
