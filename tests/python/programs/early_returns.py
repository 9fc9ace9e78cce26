"""Inverse kinematics of a two-link arm with early returns for unreachable targets."""
import math

import kintsugi as kt


def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def solve(target, lengths, elbow_up=True):
    a, b = lengths
    reach = math.hypot(target[0].item(), target[1].item())
    if reach > a + b:
        return None, "too far"
    if reach < abs(a - b):
        return None, "too near"
    if reach == 0:
        return None, "undefined"
    cosine = clamp((reach ** 2 - a ** 2 - b ** 2) / (2 * a * b), -1.0, 1.0)
    elbow = math.acos(cosine)
    if not elbow_up:
        elbow = -elbow
    shoulder = math.atan2(target[1].item(), target[0].item()) - math.atan2(b * math.sin(elbow), a + b * math.cos(elbow))
    return kt.tensor([shoulder, elbow]), "ok"


def run(targets, lengths):
    found = []
    reasons = []
    for target in targets:
        angles, reason = solve(target, lengths, elbow_up=len(found) % 2 == 0)
        reasons.append(reason)
        if angles is None:
            continue
        found.append(angles * 180 / math.pi)
    return found, reasons


def make_arguments(turn):
    return [kt.tensor([0.5 * i, 1.0 - 0.3 * i + turn]) for i in range(5)], (1.0, 0.8)
