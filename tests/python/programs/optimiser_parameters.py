"""Gradient descent by hand: parameters zipped with gradients and state, momentum and Adam in dicts, a schedule."""
import kintsugi as kt


def loss_and_gradients(parameters, x, y):
    w, b = parameters["w"], parameters["b"]
    error = x @ w + b - y
    n = len(y)
    return (error * error).mean(), {"w": 2.0 / n * (x.T @ error), "b": 2.0 / n * error.sum()}


class Adam:
    def __init__(self, rate=0.1, betas=(0.9, 0.999), eps=1e-8):
        self.rate, self.betas, self.eps = rate, betas, eps
        self.state = {}
        self.step_count = 0

    def step(self, parameters, gradients):
        self.step_count += 1
        b1, b2 = self.betas
        for name in parameters:
            g = gradients[name]
            if name not in self.state:
                self.state[name] = (kt.zeros_like(g), kt.zeros_like(g))
            m, v = self.state[name]
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            self.state[name] = (m, v)
            mh, vh = m / (1 - b1 ** self.step_count), v / (1 - b2 ** self.step_count)
            parameters[name] = parameters[name] - self.rate * mh / (kt.sqrt(vh) + self.eps)


def schedule(epoch, rate):
    return rate if epoch < 2 else rate * 0.5 ** (epoch - 1)


def run(parameters, x, y, epochs):
    optimiser = Adam()
    losses = []
    for epoch in range(epochs):
        loss, gradients = loss_and_gradients(parameters, x, y)
        losses.append(loss)
        optimiser.rate = schedule(epoch, 0.1)
        optimiser.step(parameters, gradients)
    names = [f"{name}:{tuple(value.shape)}" for name, value in parameters.items()]
    return kt.stack(losses), names


def make_arguments(turn):
    x = kt.arange(12, dtype=kt.float32).reshape(6, 2) / 12
    return {"w": kt.zeros(2), "b": kt.tensor(0.5)}, x, x @ kt.tensor([1.0, -2.0]) + turn, 4
