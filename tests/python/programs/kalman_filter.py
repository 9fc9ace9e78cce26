"""A linear Kalman filter for position and velocity with a gate on the innovation."""
import kintsugi as kt


class Kalman:
    def __init__(self, dt, noise):
        self.F = kt.tensor([[1.0, dt], [0.0, 1.0]])
        self.H = kt.tensor([[1.0, 0.0]])
        self.Q = kt.eye(2) * 0.01
        self.R = kt.tensor([[noise]])
        self.x = kt.zeros(2, 1)
        self.P = kt.eye(2)
        self.rejected = []

    def predict(self):
        self.x = self.F @ self.x
        self.P = self.F @ self.P @ self.F.T + self.Q

    def update(self, z, gate=9.0):
        y = z - self.H @ self.x
        S = self.H @ self.P @ self.H.T + self.R
        distance = (y * y / S).item()
        if distance > gate:
            self.rejected.append(distance)
            print(f"rejected {distance:.2f}")
            return False
        K = self.P @ self.H.T / S
        self.x = self.x + K @ y
        self.P = (kt.eye(2) - K @ self.H) @ self.P
        return True


def run(filter, measurements):
    used = 0
    for z in measurements:
        filter.predict()
        used += filter.update(z)
    return filter.x, filter.P, used, filter.rejected


def make_arguments(turn):
    readings = [kt.tensor([[0.5 * i + (50.0 if i == 4 else 0.0)]]) for i in range(6 + turn)]
    return Kalman(0.1, 0.5 + turn), readings
