"""A PID controller with integral clamping steers a first-order plant."""
import kintsugi as kt


class Pid:
    def __init__(self, kp, ki, kd, limit=5.0):
        self.kp, self.ki, self.kd = kp, ki, kd
        self.limit = limit
        self.integral = None
        self.previous = None

    def reset(self):
        self.integral = None
        self.previous = None

    def step(self, error, dt):
        if self.integral is None:
            self.integral = kt.zeros_like(error)
        self.integral = self.integral + error * dt
        self.integral = kt.minimum(kt.maximum(self.integral, -self.limit), self.limit)
        slope = (error - self.previous) / dt if self.previous is not None else kt.zeros_like(error)
        self.previous = error
        return self.kp * error + self.ki * self.integral + self.kd * slope


def run(pid, target, state, steps):
    pid.reset()
    log = []
    for i in range(steps):
        command = pid.step(target - state, 0.02)
        state = state + 0.02 * (command - 0.5 * state)
        log.append(command)
    return state, log[-1], len(log), pid.integral


def make_arguments(turn):
    return Pid(2.0, 0.5 + turn, 0.1), kt.tensor([1.0, -2.0, 0.5]), kt.zeros(3), 4 + turn
