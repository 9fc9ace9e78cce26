"""A block-wise synthesiser: oscillators with phase state, envelopes by stage, mixing with broadcasting, a delay line."""
import math

import kintsugi as kt

RATE = 800.0
BLOCK = 16


class Oscillator:
    def __init__(self, frequency, shape="sine"):
        self.step = 2 * math.pi * frequency / RATE
        self.phase = 0.0
        self.shape = shape

    def block(self):
        phases = self.phase + self.step * kt.arange(BLOCK, dtype=kt.float32)
        self.phase = (self.phase + self.step * BLOCK) % (2 * math.pi)
        if self.shape == "sine":
            return kt.sin(phases)
        elif self.shape == "square":
            return kt.where(kt.sin(phases) >= 0, 1.0, -1.0)
        return (phases % (2 * math.pi)) / math.pi - 1


def envelope(n, attack, decay):
    level = min(1.0, n / attack) if n < attack else max(0.0, 1 - (n - attack) / decay)
    return level


class Delay:
    def __init__(self, blocks, feedback):
        self.line = [kt.zeros(BLOCK) for _ in range(blocks)]
        self.feedback, self.at = feedback, 0

    def __call__(self, x):
        out = x + self.feedback * self.line[self.at]
        self.line[self.at] = out
        self.at = (self.at + 1) % len(self.line)
        return out


def run(notes, blocks):
    voices = [Oscillator(frequency, shape) for frequency, shape in notes]
    gains = kt.tensor([1.0 / (i + 1) for i in range(len(voices))]).reshape(-1, 1)
    delay = Delay(2, 0.5)
    out = []
    for n in range(blocks):
        mixed = (kt.stack([voice.block() for voice in voices]) * gains).sum(0)
        out.append(delay(kt.tanh(mixed * envelope(n, 2, 4))))
    signal = kt.cat(out)
    return signal, signal.abs().max().item() <= 2, [round(v.phase, 3) for v in voices]


def make_arguments(turn):
    return [(55.0, "sine"), (82.5 + turn, "square"), (110.0, "saw")][:2 + turn % 2], 4
