"""A robot's states as a dict from name to handler; the next state follows from sensor values."""
import kintsugi as kt


def idle(robot, reading):
    return "search" if reading["start"] else "idle"


def search(robot, reading):
    robot["heading"] = robot["heading"] + 0.1
    distance = reading["ranges"].min().item()
    if distance < 0.5:
        return "avoid"
    return "approach" if distance < 2.0 else "search"


def approach(robot, reading):
    robot["position"] = robot["position"] + 0.2 * robot["heading"]
    return "done" if (robot["position"] > 1.0).all() else "search"


def avoid(robot, reading):
    robot["heading"] = -robot["heading"]
    robot["turns"] += 1
    return "search"


HANDLERS = {"idle": idle, "search": search, "approach": approach, "avoid": avoid}


def run(robot, readings):
    state = "idle"
    visited = {}
    for reading in readings:
        handler = HANDLERS.get(state)
        if handler is None:
            break
        visited[state] = visited.get(state, 0) + 1
        state = handler(robot, reading)
    else:
        print("no more readings in", state)
    return state, visited, robot["position"]


def make_arguments(turn):
    robot = {"heading": kt.tensor([0.5, 1.0]), "position": kt.zeros(2), "turns": 0}
    readings = [{"start": i > 0, "ranges": kt.tensor([3.0 - 0.4 * i, 2.5, 1.0 + turn])} for i in range(8)]
    return robot, readings
