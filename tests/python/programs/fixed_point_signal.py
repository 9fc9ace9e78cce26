"""Integer work: quantised samples, saturation, a checksum with shifts and masks, a lookup in a bytes table."""
import kintsugi as kt

TABLE = bytes((i * 7 + 3) % 256 for i in range(256))


def quantise(signal, bits=8):
    scale = (1 << (bits - 1)) - 1
    scaled = signal * scale
    return kt.minimum(kt.maximum(scaled, -scale - 1), scale).to(kt.int32)


def checksum(values):
    total = 0xFFFF
    for value in values:
        total = ((total << 1) ^ (value & 0xFF)) & 0xFFFF
        total ^= TABLE[total & 0xFF]
    return total


def differences(values):
    result = kt.zeros_like(values)
    result[0] = values[0]
    result[1:] = values[1:] - values[:-1]
    return result


def run(signal, bits):
    coded = quantise(signal, bits)
    deltas = differences(coded)
    restored = []
    running = 0
    for delta in deltas.tolist():
        running += delta
        restored.append(running)
    halves, rest = divmod(coded.sum().item(), 2)
    return coded, deltas, restored == coded.tolist(), hex(checksum(restored)), (halves, rest), coded // 3, coded % 3, -coded // 2


def make_arguments(turn):
    return kt.sin(kt.arange(12, dtype=kt.float32) * 0.7) * (1 + turn), 8 - turn
