"""Gravity between bodies, leapfrog steps, a class per body and total energy."""
import kintsugi as kt


class Body:
    __slots__ = ("name", "mass", "position", "velocity")

    def __init__(self, name, mass, position, velocity):
        self.name = name
        self.mass = mass
        self.position = position
        self.velocity = velocity

    def kinetic(self):
        return 0.5 * self.mass * (self.velocity * self.velocity).sum()


def accelerations(bodies, softening=0.01):
    result = []
    for one in bodies:
        total = kt.zeros(2)
        for other in bodies:
            if other is one:
                continue
            apart = other.position - one.position
            distance = kt.sqrt((apart * apart).sum() + softening)
            total = total + other.mass * apart / (distance * distance * distance)
        result.append(total)
    return result


def run(bodies, dt, steps):
    pull = accelerations(bodies)
    for _ in range(steps):
        for body, a in zip(bodies, pull):
            body.velocity = body.velocity + 0.5 * dt * a
            body.position = body.position + dt * body.velocity
        pull = accelerations(bodies)
        for body, a in zip(bodies, pull):
            body.velocity += 0.5 * dt * a
    return {body.name: body.position for body in bodies}, sum(body.kinetic() for body in bodies)


def make_arguments(turn):
    bodies = [Body("sun", 10.0, kt.zeros(2), kt.zeros(2)),
              Body("a", 1.0, kt.tensor([1.0, 0.0]), kt.tensor([0.0, 3.0])),
              Body("b", 0.5 + turn, kt.tensor([0.0, 2.0]), kt.tensor([-2.0, 0.0]))]
    return bodies, 0.01, 2 + turn
