"""A game's particles: in-place updates on views of one state array, bounces by where, removal of dead ones."""
import kintsugi as kt

GRAVITY = -9.81
FIELDS = {"x": 0, "y": 1, "vx": 2, "vy": 3, "life": 4}


def column(state, name):
    return state[:, FIELDS[name]]


def step(state, dt, bounce=0.8):
    column(state, "vy")[:] += GRAVITY * dt
    state[:, 0:2] += state[:, 2:4] * dt
    y, vy = column(state, "y"), column(state, "vy")
    below = y < 0
    vy.copy_(kt.where(below, -vy * bounce, vy))
    y.copy_(kt.where(below, -y, y))
    column(state, "life").sub_(dt)


def alive(state):
    rows = [row for row in state if row[FIELDS["life"]].item() > 0]
    return kt.stack(rows) if rows else kt.zeros(0, len(FIELDS))


def run(state, dt, frames):
    counts = []
    for frame in range(frames):
        step(state, dt)
        if frame % 2:
            state = alive(state)
        counts.append(state.shape[0])
    energy = 0.5 * (state[:, 2:4] * state[:, 2:4]).sum(dim=1) - GRAVITY * state[:, 1]
    return state, counts, energy


def make_arguments(turn):
    state = kt.zeros(4, 5)
    state[:, 1] = kt.tensor([1.0, 0.1, 0.01, 3.0])
    state[:, 2] = 1.0 + turn
    state[:, 4] = kt.tensor([1.0, 0.15, 0.5, 0.25])
    return state, 0.1, 4
