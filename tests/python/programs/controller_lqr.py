"""A controller from a Riccati recursion, simulated with saturation, logged in a dict of lists, module constants."""
import kintsugi as kt

DT = 0.1
LIMITS = {"force": 3.0}
A = kt.tensor([[1.0, DT], [0.0, 1.0]])
B = kt.tensor([[0.0], [DT]])


def riccati(q, r, rounds):
    p = q
    for _ in range(rounds):
        s = r + B.T @ p @ B
        k = (B.T @ p @ A) / s
        p = q + A.T @ p @ (A - B @ k)
    return k, p


def saturate(u, name):
    limit = LIMITS[name]
    return kt.maximum(kt.minimum(u, limit), -limit)


def run(state, weights, steps):
    q = kt.eye(2) * kt.tensor(weights[:2])
    r = kt.tensor([[weights[-1]]])
    gain, cost = riccati(q, r, 8)
    log = {"state": [], "force": []}
    for _ in range(steps):
        force = saturate(-gain @ state, "force")
        state = A @ state + B @ force
        log["state"].append(state)
        log["force"].append(force.item())
    peak = max(log["force"], key=abs)
    value = (state.T @ cost @ state).item()
    return gain, log, round(peak, 4), value < 100 and value > 0


def make_arguments(turn):
    return kt.tensor([[1.0], [0.5 * turn]]), (10.0, 1.0, 0.1 + turn), 4
