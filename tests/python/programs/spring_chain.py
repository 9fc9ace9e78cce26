"""Cloth-like physics: masses on a line with springs, constraint iterations in place, boundary conditions."""
import kintsugi as kt


def spring_forces(position, rest, stiffness):
    apart = position[1:] - position[:-1]
    length = kt.sqrt((apart * apart).sum(dim=1, keepdim=True))
    pull = stiffness * (length - rest) * apart / length
    force = kt.zeros_like(position)
    force[:-1] += pull
    force[1:] -= pull
    return force


def relax(position, rest, rounds=2):
    for _ in range(rounds):
        apart = position[1:] - position[:-1]
        length = kt.sqrt((apart * apart).sum(dim=1, keepdim=True))
        shift = 0.25 * (length - rest) / length * apart
        position[:-1] += shift
        position[1:] -= shift
    return position


def run(position, velocity, dt, steps, rest=1.0, stiffness=20.0, pinned=(0,)):
    anchor = position[list(pinned)[0]].clone()
    gravity = kt.tensor([0.0, -9.81])
    for _ in range(steps):
        force = spring_forces(position, rest, stiffness)
        velocity = (velocity + dt * (force + gravity)) * 0.99
        position = relax(position + dt * velocity, rest)
        for index in pinned:
            position[index] = anchor
            velocity[index] = 0.0
    stretch = (position[1:] - position[:-1]).abs().amax(dim=0)
    return position, velocity, stretch


def make_arguments(turn):
    position = kt.zeros(5 + turn, 2)
    position[:, 0] = kt.arange(5 + turn, dtype=kt.float32)
    return position, kt.zeros(5 + turn, 2), 0.02, 3
