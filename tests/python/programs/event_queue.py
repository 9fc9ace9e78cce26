"""Discrete events: generators as processes, a sorted queue, yield, next, send, StopIteration, isinstance chains."""
import kintsugi as kt


class Wait:
    def __init__(self, seconds):
        self.seconds = seconds


class Emit:
    def __init__(self, value):
        self.value = value


def blinker(period, count):
    for i in range(count):
        yield Wait(period)
        yield Emit(kt.ones(2) * i)


def accumulator(total):
    while True:
        value = yield Emit(total)
        if value is None:
            return
        total = total + value


def simulate(processes, until):
    queue = [(0.0, i, p) for i, p in enumerate(processes)]
    emitted, now = [], 0.0
    while queue:
        queue.sort(key=lambda event: event[:2])
        now, order, process = queue.pop(0)
        if now > until:
            break
        try:
            action = next(process)
        except StopIteration:
            continue
        if isinstance(action, Wait):
            queue.append((now + action.seconds, order, process))
        elif isinstance(action, Emit):
            emitted.append((now, action.value))
            queue.append((now, order, process))
    return emitted, now


def run(periods, until):
    emitted, end = simulate([blinker(p, 3) for p in periods], until)
    sums = accumulator(kt.zeros(2))
    last = next(sums).value
    for _, value in emitted:
        last = sums.send(value).value
    sums.close()
    return last, [time for time, _ in emitted], end


def make_arguments(turn):
    return [0.5, 0.75 + 0.1 * turn], 2.0
