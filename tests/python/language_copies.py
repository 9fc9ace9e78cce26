"""copy.copy, copy.deepcopy, and what dataclasses make of their instances."""
import copy
import dataclasses

from language_programs import effects, followed, x3


class Plain:
    def __init__(self, a, b):
        self.a = a
        self.b = b


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Pose:
    x: float
    y: float = 2.0
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    name: str
    rank: int = 0


@dataclasses.dataclass
class Tree:
    value: int
    children: list = dataclasses.field(default_factory=list)
    pose: Pose = None


pose = Pose(1.0, tags=["a"])
tree = Tree(1, [Tree(2), Tree(3)], pose)  # four calls deep


@followed(lambda: (x3(),))
def copied_instance(x):
    first = Plain(x, [1])
    second = copy.copy(first)
    second.a = x * 2
    return first, second, second.b is first.b, type(second) is Plain


@followed(lambda: (x3(),))
def copied_slots(x):
    first = Slotted(x * 2)
    second = copy.copy(first)
    return second.a, hasattr(second, "b"), second is first


@followed(lambda: (x3(),))
def deeply_copied(x):
    first = Plain([1, [2, 3]], {"u": (1, [4])})
    second = copy.deepcopy(first)
    second.a[1].append(5)
    second.b["u"][1].append(6)
    return x * 2, first, second


@followed(lambda: (x3(), [1, [2.5, "a"], {"k": [None]}]))
def deeply_copied_from_before(x, items):
    made = copy.deepcopy(items)
    made[1].append(3)
    made[2]["k"].append(4)
    return x * 2, made, made[2] is items[2]


@followed(lambda: (x3(),))
def deeply_copied_shared(x):
    part = [1]
    first = [part, part, (part, 2), (3, 4)]
    second = copy.deepcopy(first)
    second[0].append(9)
    return x * 2, second, second[0] is second[1], second[2][0] is second[0], second[3], first


@followed(lambda: (x3(),))
def deeply_copied_cycle(x):
    first = Plain(1, None)
    first.b = [first]
    second = copy.deepcopy(first)
    effects["same"] = second.b[0] is second
    return x * 2, second is first, second.a


@followed(lambda: (x3(),))
def dataclass_as_dict(x):
    return x * pose.x, dataclasses.asdict(pose), dataclasses.asdict(tree), dataclasses.asdict(Pose(3.0))


@followed(lambda: (x3(),))
def dataclass_as_tuple(x):
    return x * 2, dataclasses.astuple(tree), dataclasses.astuple(Pose(3.0, tags=[1]))


@followed(lambda: (x3(),))
def dataclass_replaced(x):
    first = dataclasses.replace(pose, y=5.0)
    return x * first.y, first, dataclasses.replace(Key("a"), rank=3)


@followed(lambda: (x3(),))
def dataclass_replace_refused(x):
    try:
        dataclasses.replace(pose, absent=1)
    except TypeError as error:
        return x * 2, str(error)


@followed(lambda: (x3(),))
def dataclass_text(x):
    return x * 2, repr(Pose(1.5)), str(Key("b", 2)), f"{Tree(1)!r}", repr(pose)


@followed(lambda: (x3(),))
def dataclass_comparison(x):
    return (x * 2, Pose(1.0, tags=["a"]) == pose, Pose(2.0) == pose, Key("a") < Key("a", 1), Key("a") == Key("a"),
            sorted([Key("b"), Key("a", 2), Key("a")]), pose == 3, pose != Pose(1.0), {Key("a"): 1}[Key("a")])


@followed(lambda: (x3(),))
def names_of_fields(x):
    return (x * 2, [f.name for f in dataclasses.fields(Pose)], dataclasses.is_dataclass(pose), dataclasses.is_dataclass(3),
            [f.name for f in dataclasses.fields(pose) if f.default is not dataclasses.MISSING])
