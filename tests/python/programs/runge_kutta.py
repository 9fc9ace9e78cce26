"""RK4 over a dict of parameters and a function as argument; energy along the way."""
import kintsugi as kt


def pendulum(t, y, parameters):
    angle, speed = y[0], y[1]
    drive = parameters.get("drive", 0.0) * t
    return kt.stack([speed, -parameters["g"] / parameters["length"] * kt.sin(angle) - parameters["damping"] * speed + drive])


def rk4(f, t, y, h, *args):
    k1 = f(t, y, *args)
    k2 = f(t + h / 2, y + h / 2 * k1, *args)
    k3 = f(t + h / 2, y + h / 2 * k2, *args)
    k4 = f(t + h, y + h * k3, *args)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def energy(y, parameters):
    return 0.5 * y[1] ** 2 if False else 0.5 * y[1] * y[1] + parameters["g"] * (1 - kt.cos(y[0]))


def run(y, parameters, h, steps):
    t = 0.0
    energies = []
    for _ in range(steps):
        y = rk4(pendulum, t, y, h, parameters)
        t += h
        energies.append(energy(y, parameters))
    return t, y, kt.stack(energies)


def make_arguments(turn):
    parameters = {"g": 9.81, "length": 1.0 + turn, "damping": 0.1}
    if turn == 2:
        parameters["drive"] = 0.3
    return kt.tensor([0.5, 0.0]), parameters, 0.05, 5
