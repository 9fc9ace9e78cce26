"""Of arithmetic, calls, plain classes, containers, loops: see language_programs.py."""
import math

import kintsugi as kt

from language_programs import effects, followed, x3, x23

# ---- Arithmetic, comparison, branches ------------------------------------------------------------------------------


@followed(lambda: (x23(),))
def metadata_arithmetic(x):
    rows, columns = x.shape
    return x * (rows * columns + x.ndim - len(x.shape) // 2) + x.shape[-1]


@followed(lambda: (x23(), kt.ones(3)))
def metadata_comparison(x, y):
    same = x.shape[1] == y.shape[0]
    return x + y, same, x.dtype == y.dtype, x.dtype is kt.float32, x.shape == (2, 3), x.shape != y.shape, x.numel() < 7


@followed(lambda: (x23(), kt.ones(3, dtype=kt.float64)))
def metadata_branches(x, y):
    if x.ndim == 2 and x.shape[0] < x.shape[1]:
        x = x * 2
    if y.dtype is kt.float64 or y.ndim > 1:
        y = y + 1
    return x + y if x.shape[-1] == y.shape[0] else x - 1


@followed(lambda: (x3(), 7, 2))
def int_arithmetic(x, a, b):
    return x * (a + b - a * b), a // b, a % b, a / b, a ** b, -a, ~a, +a, a << b, a >> 1, a & b, a | b, a ^ b, -a // b, -a % b


@followed(lambda: (x3(), 7.5, -2.0))
def float_arithmetic(x, a, b):
    return x * (a + b - a * b), a / b, a // b, a % b, a ** 2.0, -a, abs(b), a * 2, 3 - b, 1 / a


@followed(lambda: (x3(), 3, 3.0, -0.0))
def number_comparison(x, n, f, zero):
    flags = n < 4, n <= 3, n == f, n != f, f > n, f >= n, zero == 0, 1 < n < 5, 1 < n > f, n is None, not n
    return x + sum(flags), flags


@followed(lambda: (x3(), 4, 0.5, 0))
def number_branches(x, n, f, zero):
    y = x * 2 if n > 3 else x
    if f:
        y = y + f
    elif zero:
        y = y - 1
    if not zero and n % 2 == 0:
        y = y * n
    return y, zero or f, n and f


@followed(lambda: (x3(), "left", "arm"))
def strings(x, side, part):
    name = side + "_" + part
    if side == "left" and name != "arm" and side < "right" and "ar" in part:
        x = x * len(name)
    return x, name, f"{part}-{side!r}-{3:02d}", name.upper(), side * 2, side[0], side[1:], name.startswith("left")


@followed(lambda: (x3(), None, 2.0))
def none_branches(x, bias, gain):
    if bias is not None:
        x = x + bias
    if gain is None:
        return x
    return x * gain, bias is None, bias == None, bias or gain  # noqa: E711


# ---- Calls ---------------------------------------------------------------------------------------------------------


def scaled(x, k=2.0, *, offset=1.0):
    return x * k + offset


def gathered(first, *rest, **named):
    for each in rest:
        first = first + each
    return first * named["gain"] + named.get("bias", 0.0), len(rest), sorted(named)


@followed(lambda: (x3(),))
def calls_positional(x):
    return scaled(scaled(x, 3.0), 0.5)


@followed(lambda: (x3(),))
def calls_keyword(x):
    return scaled(offset=4.0, x=x, k=0.25), scaled(k=3.0, x=x)


@followed(lambda: (x3(),))
def calls_defaults(x):
    return scaled(x), scaled(x, offset=0.0)


@followed(lambda: (x3(), (4.0, 0.5)))
def calls_star(x, more):
    return gathered(x, *more, gain=2.0), gathered(*(x, 1.0), *more, gain=1.0)


@followed(lambda: (x3(), {"gain": 3.0, "bias": -1.0}))
def calls_double_star(x, options):
    return gathered(x, 1.0, **options), gathered(x, **{"gain": 2.0}), scaled(x, **{"offset": 2.0})


@followed(lambda: (x3(), 5.0))
def closures(x, k):
    total = 0.0

    def add(y):
        nonlocal total
        total = total + k
        return y + total

    return add(add(x)), total


def made_outside(k):
    def inner(x):
        return x * k
    return inner


@followed(lambda: (x3(), made_outside(3.0)))
def closures_from_outside(x, f):
    return f(x) + made_outside(2.0)(x)


@followed(lambda: (x3(), 2.0))
def lambdas(x, k):
    twice = lambda f, y: f(f(y))  # noqa: E731
    return twice(lambda y: y * k + 1.0, x), (lambda *a: len(a))(1, 2)


def halved(x, times):
    return x if times == 0 else halved(x * 0.5, times - 1)


@followed(lambda: (x3(),))
def recursion(x):
    return halved(x, 3)


# ---- Objects -------------------------------------------------------------------------------------------------------


class Joint:
    limit = 2.0

    def __init__(self, angle, speed=0.0):
        self.angle, self.speed = angle, speed

    def moved(self, by):
        return Joint(self.angle + by * self.limit, self.speed)

    @property
    def doubled(self):
        return self.angle * 2.0

    @doubled.setter
    def doubled(self, value):
        self.angle = value * 0.5

    @staticmethod
    def blend(a, b):
        return (a + b) * 0.5

    @classmethod
    def still(cls, angle):
        return cls(angle)

    def __call__(self, by):
        return self.angle + by

    def __add__(self, other):
        return Joint(self.angle + other.angle, self.speed)

    def __eq__(self, other):
        return self.speed == other.speed

    def __len__(self):
        return 3

    def __getitem__(self, key):
        return self.angle * key


class Wrist(Joint):
    limit = 3.0

    def moved(self, by):
        return super().moved(by * 2.0)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@followed(lambda: (x3(), Joint(1.0)))
def bound_methods(x, joint):
    move = joint.moved
    return move(x).angle, joint.moved(by=x).angle, joint.blend(x, 1.0), Joint.still(x).angle, Joint.moved(joint, x).angle


@followed(lambda: (x3(),))
def class_construction(x):
    joint = Joint(x, speed=2.0)
    return joint, joint.moved(1.0), Joint(angle=1.0).speed


@followed(lambda: (x3(), Joint(2.0, 1.0)))
def class_use(x, other):
    joint = Joint(x, 1.0)
    return (joint + other).angle, joint == other, len(joint), joint(3.0), joint[2.0], isinstance(joint, Joint)


@followed(lambda: (x3(),))
def class_inheritance(x):
    return Wrist(x).moved(1.0).angle, Wrist.limit, isinstance(Wrist(x), Joint)


@followed(lambda: (x3(), Joint(2.0), Slotted(4.0)))
def object_attributes(x, joint, slotted):
    return x * joint.angle + joint.speed + slotted.a, joint.limit, getattr(joint, "gone", 7), hasattr(joint, "angle")


@followed(lambda: (x3(),))
def class_attributes(x):
    return x * Joint.limit + Wrist.limit, Joint.__name__


@followed(lambda: (x3(),))
def module_attributes(x):
    return kt.exp(x) + math.pi, math.floor(2.5)


@followed(lambda: (x3(), Joint(2.0)))
def properties(x, joint):
    made = Joint(x)
    made.doubled = x + 1.0
    return x * joint.doubled, made.doubled, made.angle


# ---- Containers ----------------------------------------------------------------------------------------------------


@followed(lambda: (x3(), (2.0, (3, "a"))))
def tuples(x, given):
    pair = (x * given[0], x + given[1][0])
    return pair + (given[1][1],), pair[-1], len(pair), given[1] == (3, "a"), 2.0 in given, pair[::-1], (1, 2) < (1, 3)


@followed(lambda: (x3(), [2.0, 3.0]))
def lists(x, given):
    made = [x, given[1], *given]
    made.append(x * given[0])
    made[1] = 5
    made.extend([1, 2])
    made.insert(0, "first")
    last = made.pop()
    return made, last, len(made), 3.0 in given, given + [1], [0] * 3, made.index("first")


@followed(lambda: (x3(), {"k": 2.0, 3: "three"}))
def dicts(x, given):
    made = {"x": x * given["k"], **given}
    made["new"] = 1
    made.update(k=4.0)
    del made["x"]
    found = [key for key in made], [value for value in made.values()], [(k, v) for k, v in made.items()]
    return made, given.get("none"), given.get("k", 0), "k" in given, "q" not in given, len(made), found, made.setdefault("z", 9), x + 1


@followed(lambda: (kt.arange(10), [1, 2, 3, 4]))
def slices(x, items):
    middle = slice(2, 8)
    return x[middle] + 1, x[1:-1:3], items[1:3], items[:-1], (1, 2, 3)[::2], x[..., :2], items[-1]


@followed(lambda: (x3(), [1.0, 2.0, 3.0, 4.0]))
def unpacking(x, items):
    first, *middle, last = items
    (a, b), c = (first, last), len(middle)
    a, b = b, a
    p, q, r = x
    return x * a + b, middle, c, p + q + r


@followed(lambda: (x3(), [1.0, 2.0, 3.0]))
def comprehensions(x, gains):
    products = [x * k for k in gains if k != 2.0]
    return products, {k: k + 1 for k in gains}, [(i, j) for i in range(2) for j in range(i + 1)]


# ---- Builtins ------------------------------------------------------------------------------------------------------


@followed(lambda: (x3(), 4))
def builtin_range(x, n):
    return [x * i for i in range(n)], list(range(1, 9, 3)), len(range(5)), list(range(n, 0, -2)), 3 in range(4)


@followed(lambda: (x23(), [1, 2], "abc", {"a": 1}))
def builtin_len(x, items, text, table):
    return x * len(x) + len(items) * len(text) + len(table) + len((1, 2))


@followed(lambda: (x3(), [1.0, 2.0], (3.0, 4.0)))
def builtin_zip(x, a, b):
    return [x * p + q for p, q in zip(a, b)], list(zip(a, range(5), "xyz"))


@followed(lambda: (x3(), [5.0, 6.0]))
def builtin_enumerate(x, items):
    return [x * k + i for i, k in enumerate(items)], list(enumerate("ab", start=3)), [i for i, _ in enumerate(items, 1)]


@followed(lambda: (x3(), 3, Wrist(1.0)))
def builtin_isinstance(x, n, wrist):
    flags = isinstance(x, kt.Tensor), isinstance(n, int), isinstance(n, (str, float)), isinstance(wrist, Joint), \
        isinstance(True, int), isinstance(None, type(None)), isinstance(wrist, object)
    return x + 1, flags


@followed(lambda: (x3(), [3, 1, 2]))
def builtin_min_max(x, items):
    return x * max(items) - min(items), max(2, 5.0), min("b", "a"), max(items, key=lambda i: -i), min(2.0, 2)


@followed(lambda: (x3(), -4, -2.5))
def builtin_abs(x, n, f):
    return abs(x - 2) * abs(n) + abs(f), abs(True)


@followed(lambda: (x3(), [1, 2.5]))
def builtin_sum(x, items):
    return sum([x, x, x]), sum(items), sum(range(5)), sum(i * i for i in (1, 2)) if False else 0, sum(items, 10), sum([[1], [2]], [])


# ---- Loops, with, try ----------------------------------------------------------------------------------------------


@followed(lambda: (x3(), [1.0, 2.0, 4.0]))
def for_loops(x, gains):
    for k in gains:
        if k == 2.0:
            continue
        x = x * k
    else:
        x = x + 1
    for i in range(6):
        if i == 3:
            break
        x = x - i
    for key in {"a": 1, "b": 2}:
        x = x + len(key)
    return x, i


@followed(lambda: (x3(), 5))
def while_loops(x, n):
    while n:
        n -= 1
        if n == 3:
            continue
        x = x + n
        while True:
            break
    else:
        x = x * 2
    return x, n


class Scope:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __enter__(self):
        self.log.append("enter " + self.name)
        return self.name

    def __exit__(self, kind, error, traceback):
        self.log.append("exit " + self.name)
        return kind is not None


@followed(lambda: (x3(), []))
def with_managers(x, log):
    with Scope("a", log) as name, Scope("b", log):
        x = x * len(name)
        log.append(name)
    with Scope("c", log):
        return x + 1


@followed(lambda: (x3(), [1, 2]))
def try_without_raise(x, items):
    try:
        y = x * items[0]
        try:
            y = y + 1
        finally:
            y = y * 2
    except (IndexError, ValueError):
        y = x
    else:
        y = y - 1
    finally:
        items.append(3)
    return y


# ---- Effects -------------------------------------------------------------------------------------------------------

steps = 0


def reset_steps():
    global steps
    steps = 0


@followed(lambda: (x3(), reset_steps()))
def global_stores(x, _):
    global steps
    before = steps
    steps = 3
    steps += 1
    return x * steps, before


def counter():
    count = 10

    def step(x):
        nonlocal count
        count += 1
        return x * count, count
    return step


@followed(lambda: (counter(), x3()))
def nonlocal_stores(step, x):
    return step(x), step(x)


@followed(lambda: (x3(), Joint(1.0), Slotted(2.0)))
def attribute_stores(x, joint, slotted):
    joint.angle = x + joint.angle
    joint.speed += 2
    joint.fresh = "new"
    slotted.a, slotted.b = slotted.a * 2, x
    made = Joint(0)
    made.angle = joint.angle * 2
    setattr(joint, "named", 5)
    return made, joint.speed


@followed(lambda: (x3(), [1, 2.0, 3]))
def list_stores(x, items):
    items[0] = x * 2
    items[-1] = items[1]
    items.append(x + 1)
    items += [7]
    del items[1]
    return len(items), items[2]


@followed(lambda: (x3(), {"a": 1}))
def dict_stores(x, table):
    table["a"] += 1
    table["x"] = x * table["a"]
    table.setdefault("d", []).append(4)
    effects["seen"] = x + 1
    table.pop("gone", None)
    return table["x"]


@followed(lambda: (kt.arange(6), kt.zeros(2, 3)))
def tensor_stores(x, y):
    x[1:3] = 7
    x[0] += 2
    y[1] = y[0] + 1
    y[0, 2] = 5.0
    x.add_(1)
    y *= 2
    return x + 1, y.sum()
