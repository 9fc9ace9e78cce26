"""Filters with a history: a list that is cut, a deque, and exponential smoothing."""
from collections import deque

import kintsugi as kt


class MovingAverage:
    def __init__(self, length):
        self.length = length
        self.history = []

    def __call__(self, sample):
        self.history.append(sample)
        if len(self.history) > self.length:
            self.history.pop(0)
        total = self.history[0]
        for each in self.history[1:]:
            total = total + each
        return total / len(self.history)


class Median:
    def __init__(self, length=3):
        self.window = deque(maxlen=length)

    def __call__(self, sample):
        self.window.append(sample)
        if len(self.window) < 3:
            return sample
        a, b, c = self.window
        return kt.maximum(kt.minimum(a, b), kt.minimum(kt.maximum(a, b), c))


def smooth(samples, weight=0.3):
    state = None
    for sample in samples:
        state = sample if state is None else weight * sample + (1 - weight) * state
        yield state


def run(samples, average, median):
    averaged = [average(sample) for sample in samples]
    middles = [median(sample) for sample in samples]
    smoothed = list(smooth(samples))
    return averaged[-1], middles[-1], smoothed[-1], len(average.history)


def make_arguments(turn):
    samples = [kt.tensor([float(i * i % 7), float(-i), 1.0 + turn]) for i in range(6)]
    return samples, MovingAverage(3 + turn), Median()
