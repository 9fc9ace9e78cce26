"""Random programs that read attributes, items and globals of random objects, which change between calls: guards that
lean on earlier ones, caches of places, keys that instances share. Each call is compared with a plain one."""
import collections
import random

import pytest

import kintsugi as kt
from comparing import STRESS

NAMES = ["a", "b", "c", "d", "e"]
ATOMS = [0, 1, 2.5, -1, True, None, "s", "t", 2 ** 40, 1.0, (1, 2), (1, "z")]
SEEDS = range(0, 100 if STRESS else 250, 50)


def classes():
    class Base:
        shared = 1

    class Child(Base):
        other = 2

    class Grandchild(Child):
        pass

    return [Base, Child, Grandchild]


class World:
    """Two arguments, a global and a cell, in which everything can be reached."""

    def __init__(self, seed):
        self.random, self.classes = random.Random(seed), classes()
        self.roots = {name: self.value(4) for name in ("p", "q", "held", "cell")}
        space = {"shown": shown, "held": self.roots["held"]}
        exec(self.program(), space)
        self.space = space
        self.function, self.set_cell = space["make"](self.roots["cell"])

    def value(self, depth):
        pick, chance = self.random, self.random.random()
        if depth == 0 or chance < 0.35:
            return pick.choice(ATOMS)
        if chance < 0.65:
            made = pick.choice(self.classes)()
            for name in pick.sample(NAMES, pick.randrange(1, 4)):
                setattr(made, name, self.value(depth - 1))
            return made
        if chance < 0.8:
            return [self.value(depth - 1) for _ in range(pick.randrange(1, 4))]
        if chance < 0.95:
            kind = dict if chance < 0.9 else collections.OrderedDict
            return kind((name, self.value(depth - 1)) for name in pick.sample(NAMES, pick.randrange(1, 4)))
        return kt.ones(pick.choice([1, 2, 2]))

    def path(self):
        pick, text = self.random, self.random.choice(list(self.roots))
        value = self.roots[text]
        for _ in range(pick.randrange(1, 5)):
            if isinstance(value, list):
                key = pick.randrange(len(value))
            elif isinstance(value, dict):
                key = pick.choice(list(value))
            elif type(value) in self.classes:
                key = pick.choice([name for name in NAMES + ["shared", "other"] if hasattr(value, name)])
                text, value = f"{text}.{key}", getattr(value, key)
                continue
            else:
                break
            text, value = f"{text}[{key!r}]", value[key]
        return text

    def program(self):
        lines = []
        for _ in range(self.random.randrange(3, 10)):
            lines.append(self.random.choice([
                f"out.append(shown({self.path()}))", f"out.append(shown({self.path()}))",
                f"out.append(hasattr({self.path()}, {self.random.choice(NAMES)!r}))",
                f"out.append(getattr({self.path()}, {self.random.choice(NAMES)!r}, 7) is {self.path()})",
                f"out.append({self.path()} is {self.path()})", f"out.append(type({self.path()}).__name__)",
                f"for v in {self.path()}: out.append(shown(v))" if self.random.random() < 0.3 else "pass"]))
        return ("def make(cell):\n    def set_cell(value):\n        nonlocal cell\n        cell = value\n"
                "    def f(x, p, q, out):\n        " + "\n        ".join(lines) + "\n        return x + 1\n"
                "    return f, set_cell\n")

    def reachable(self):
        found, waiting = {}, [self.roots["p"], self.roots["q"], self.space["held"]]
        while waiting:
            value = waiting.pop()
            if id(value) in found or not (isinstance(value, (list, dict)) or type(value) in self.classes):
                continue
            found[id(value)] = value
            waiting += (value if isinstance(value, list) else value.values() if isinstance(value, dict) else
                        [getattr(value, name, None) for name in NAMES])
        return list(found.values())

    def change(self):
        pick, chance, roots = self.random, self.random.random(), self.roots
        if chance < 0.3:
            kind = pick.choice(self.classes)
            pick.choice([
                lambda: roots.update(p=roots["q"]), lambda: roots.update(p=roots["q"], q=roots["p"]),
                lambda: roots.update(p=self.value(4)), lambda: self.space.update(held=self.value(3)),
                lambda: self.space.update({f"more{pick.randrange(30)}": 1}), lambda: self.set_cell(self.value(3)),
                lambda: setattr(kind, pick.choice(["shared", "other", "a", "b"]), pick.choice(ATOMS)),
                lambda: [delattr(kind, name) for name in ("a", "b") if name in kind.__dict__]])()
            return
        objects = self.reachable()
        if not objects:
            return
        changed, name = pick.choice(objects), pick.choice(NAMES)
        value = pick.choice(objects) if pick.random() < 0.2 else self.value(2)
        if isinstance(changed, list):
            pick.choice([lambda: changed.append(value), lambda: changed and changed.pop(),
                         lambda: changed.__setitem__(slice(0, 1), [value])])()
        elif isinstance(changed, dict):
            pick.choice([lambda: changed.pop(name, None), lambda: changed.__setitem__(name, value),
                         lambda: changed.update((f"more{i}", i) for i in range(pick.randrange(20)))])()
        else:
            pick.choice([lambda: setattr(changed, name, value), lambda: setattr(changed, name, value),
                         lambda: changed.__dict__.pop(name, None), lambda: changed.__dict__,
                         lambda: name in changed.__dict__ and delattr(changed, name),
                         lambda: setattr(changed, "__class__", pick.choice(self.classes)),
                         lambda: setattr(changed, "__dict__", dict(changed.__dict__)),
                         lambda: [setattr(changed, f"more{i}", i) for i in range(pick.randrange(8))]])()


def shown(value):
    if type(value) is kt.Tensor:
        return tuple(value.shape)
    return value if value is None or type(value) in (int, float, str, bool, tuple) else type(value).__name__


@pytest.mark.parametrize("first", SEEDS)
def test_objects_that_change(first):
    x = kt.ones(2)
    for seed in range(first, first + 50):
        world = World(seed)
        fast = kt.compile(world.function)
        for _ in range(10):
            outcomes = []
            for function in (fast, world.function):
                out = []
                try:
                    out.append(function(x, world.roots["p"], world.roots["q"], out).tolist())
                except (AttributeError, TypeError, KeyError, IndexError) as error:
                    out.append((type(error), str(error)))
                outcomes.append(repr(out))
            assert outcomes[0] == outcomes[1], f"seed {seed}"
            for _ in range(world.random.randrange(3)):
                world.change()
    kt._dynamo.reset()
