"""Ten programs without any tensor, for the benchmark's rows `plain ...`: what a user's ordinary code costs when it runs
under `compile`. Each has an entry function that takes a size; the answer is small and the same each time."""
import re


# ---- n-body: floats in lists, a double loop ---------------------------------------------------------------------------


def n_body(steps):
    bodies = [[0.0, 0.0, 0.0, 39.47], [4.84, -1.16, 0.6, 0.037], [8.34, 4.12, -2.8, 0.011], [12.89, -15.1, 0.9, 0.0017]]
    for _ in range(steps):
        for i, one in enumerate(bodies):
            for other in bodies[i + 1:]:
                dx, dy = one[0] - other[0], one[1] - other[1]
                pull = 0.001 / (dx * dx + dy * dy) ** 1.5
                one[0] -= dx * other[3] * pull
                one[1] -= dy * other[3] * pull
                other[0] += dx * one[3] * pull
                other[1] += dy * one[3] * pull
    return round(sum(body[0] + body[1] for body in bodies), 6)


# ---- fannkuch: permutations by list slices ------------------------------------------------------------------------


def fannkuch(size):
    counts, order, most, turns = list(range(size)), list(range(size)), 0, size
    while True:
        while turns != 1:
            counts[turns - 1] = turns
            turns -= 1
        flips, copy = 0, order[:]
        while copy[0]:
            first = copy[0]
            copy[:first + 1] = copy[first::-1]
            flips += 1
        most = max(most, flips)
        while True:
            if turns == size:
                return most
            order.insert(turns, order.pop(0))
            counts[turns] -= 1
            if counts[turns] > 0:
                break
            turns += 1


# ---- a scheduler of tasks: classes, method calls, queues ------------------------------------------------------------


class Task:
    def __init__(self, name, priority, work):
        self.name, self.priority, self.work = name, priority, work
        self.inbox, self.done = [], 0

    def is_ready(self):
        return bool(self.inbox) and self.work > 0

    def step(self, scheduler):
        message = self.inbox.pop()
        self.work -= 1
        self.done += message
        scheduler.send(self, (message * 7 + 3) % 11)


class Relay(Task):
    def step(self, scheduler):
        super().step(scheduler)
        self.priority = (self.priority + self.done) % 5


class Scheduler:
    def __init__(self, tasks):
        self.tasks, self.sent = tasks, 0

    def send(self, task, message):
        self.sent += 1
        self.tasks[(self.sent + message) % len(self.tasks)].inbox.append(message)

    def run(self):
        while True:
            ready = [task for task in self.tasks if task.is_ready()]
            if not ready:
                return self.sent
            max(ready, key=lambda task: task.priority).step(self)


def scheduler(size):
    tasks = [(Relay if i % 2 else Task)(f"task {i}", i, size) for i in range(5)]
    for task in tasks:
        task.inbox += [1, 2, 3]
    return Scheduler(tasks).run(), sum(task.done for task in tasks)


# ---- an encoder: recursion over mixed data, type tests, text -------------------------------------------------------


def encode(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode(key)}: {encode(part)}" for key, part in value.items()) + "}"
    return "[" + ", ".join([encode(part) for part in value]) + "]"


def encoder(size):
    record = {"name": 'a "b"', "values": [1, 2.5, None, True], "inner": {"deep": [{"x": i} for i in range(5)], "text": "t" * 9}}
    return sum(len(encode(record)) for _ in range(size))


# ---- regular expressions -----------------------------------------------------------------------------------------------

WORD = re.compile(r"([a-z]+)=(\d+)")


def expressions(size):
    found = {}
    for i in range(size):
        for match in WORD.finditer(f"alpha={i} beta={i * 3} none gamma=x delta={i % 7}"):
            found[match.group(1)] = found.get(match.group(1), 0) + int(match.group(2))
        if re.match("al", "alpha"):
            found["starts"] = found.get("starts", 0) + 1
    return found


# ---- generators: a pipeline, and a tree walked with yield from -----------------------------------------------------


def numbers(stop):
    for i in range(stop):
        yield i


def only_odd(values):
    for value in values:
        if value % 2:
            yield value


def walk(low, high):
    if low < high:
        middle = (low + high) // 2
        yield from walk(low, middle)
        yield middle
        yield from walk(middle + 1, high)


def generators(size):
    return sum(v * v for v in only_odd(numbers(size))) + sum(walk(0, size // 4))


# ---- classes: operators, properties, inheritance ----------------------------------------------------------------------


class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, by):
        return Vector(self.x * by, self.y * by)

    def __eq__(self, other):
        return self.x == other.x and self.y == other.y

    @property
    def size(self):
        return abs(self.x) + abs(self.y)


class Shape:
    def __init__(self, at):
        self.at = at

    def area(self):
        return 0

    def moved(self, by):
        return type(self)(self.at + by)


class Box(Shape):
    def area(self):
        return self.at.size * 2


class Round(Box):
    def area(self):
        return super().area() * 3 // 4


def classes(size):
    total, by = 0, Vector(1, -1)
    shapes = [Box(Vector(i, 2)) if i % 2 else Round(Vector(1, i)) for i in range(8)]
    for _ in range(size):
        shapes = [shape.moved(by * 2) for shape in shapes]
        total += sum(shape.area() for shape in shapes if shape.at != by)
    return total


# ---- recursion ---------------------------------------------------------------------------------------------------------


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def queens(size, row=0, columns=0, left=0, right=0):
    if row == size:
        return 1
    found, free = 0, ~(columns | left | right) & ((1 << size) - 1)
    while free:
        bit = free & -free
        free ^= bit
        found += queens(size, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return found


def recursion(size):
    return fibonacci(size), queens(6)


# ---- text ------------------------------------------------------------------------------------------------------------


def text(size):
    parts, line = [], ""
    for i in range(size):
        word = "spam eggs ham".split()[i % 3].title()
        line += f"{word:<6}|{i:04d}|{i / 7:.2f}" + ("," if i % 5 else ";")
        if len(line) > 60:
            parts.append(line.strip(",;").lower())
            line = ""
    return len("\n".join(parts)), parts[-1][::-1][:8]


# ---- dicts -----------------------------------------------------------------------------------------------------------


def dicts(size):
    counts, groups = {}, {}
    for i in range(size):
        key = (i * i) % 97
        counts[key] = counts.get(key, 0) + 1
        groups.setdefault(key % 7, []).append(i)
        if key in counts and i % 10 == 0:
            del counts[key]
    best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    return best, {key: len(values) for key, values in groups.items()}


PROGRAMS = {  # name: (entry function, size): each takes a few milliseconds
    "n_body": (n_body, 400), "fannkuch": (fannkuch, 6), "scheduler": (scheduler, 250), "encoder": (encoder, 100),
    "expressions": (expressions, 500), "generators": (generators, 8000), "classes": (classes, 120),
    "recursion": (recursion, 14), "text": (text, 1500), "dicts": (dicts, 5000),
}
