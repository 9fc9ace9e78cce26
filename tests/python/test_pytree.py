"""kt.utils._pytree: containers as trees, the registry, trees in compiled code, and objects of registered classes in calls that are
not looked into."""
import collections
import dataclasses

import pytest

import kintsugi as kt
from kintsugi.utils import _pytree as pytree

dynamo = kt._dynamo
Pair = collections.namedtuple("Pair", "left right")


class Pose:
    def __init__(self, place, speed, name="pose"):
        self.place, self.speed, self.name = place, speed, name


@dataclasses.dataclass
class Reading:
    value: object
    weight: object = None


class Gain:
    def __init__(self, size):
        self.size = size

    def __eq__(self, other):
        return isinstance(other, Gain) and self.size == other.size

    def __hash__(self):
        return hash(self.size)

    def __repr__(self):
        return f"Gain({self.size})"


class Tagged:
    """Puts an object into its context."""

    def __init__(self, x, tag):
        self.x, self.tag = x, tag


class Unknown:
    def __init__(self, x=None):
        self.x = x


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(pytree, "SUPPORTED_NODES", dict(pytree.SUPPORTED_NODES))
    dynamo.reset()
    pytree.register_pytree_node(Pose, lambda p: ([p.place, p.speed], p.name), lambda parts, name: Pose(*parts, name),
                                flatten_with_keys_fn=lambda p: ([(pytree.GetAttrKey("place"), p.place),
                                                                 (pytree.GetAttrKey("speed"), p.speed)], p.name))
    pytree.register_pytree_node(Tagged, lambda t: ([t.x], t.tag), lambda parts, tag: Tagged(parts[0], tag))
    pytree.register_dataclass(Reading)
    pytree.register_constant(Gain)
    yield
    dynamo.reset()


TREES = {
    "leaf": (3, [3]),
    "none": (None, [None]),
    "tuple": ((1, (2, ()), 3), [1, 2, 3]),
    "list": ([1, [2, []]], [1, 2]),
    "dict": ({"b": 1, "a": {"c": 2}}, [1, 2]),
    "named tuple": (Pair(1, [2]), [1, 2]),
    "ordered": (collections.OrderedDict(b=1, a=2), [1, 2]),
    "default": (collections.defaultdict(list, b=1, a=2), [1, 2]),
    "deque": (collections.deque([1, 2], maxlen=5), [1, 2]),
    "set": ({5}, [{5}]),
    "text": ("ab", ["ab"]),
    "size": (kt.ones(2, 3).shape, [kt.ones(2, 3).shape]),
}


@pytest.mark.parametrize("name", TREES)
def test_flatten_and_unflatten(name):
    tree, wanted = TREES[name]
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == wanted == pytree.tree_leaves(tree) == list(pytree.tree_iter(tree))
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree) and getattr(again, "maxlen", 0) == getattr(tree, "maxlen", 0)
    assert spec == pytree.tree_structure(tree) and hash(spec) == hash(pytree.tree_structure(tree)) and spec.num_leaves == len(wanted)
    assert spec != pytree.tree_structure([tree])
    assert pytree.tree_map(lambda x: x, tree) == tree


def test_registered_classes():
    pose, spec = pytree.tree_flatten(Pose(1, [2], "n"))
    assert pose == [1, 2] and spec.type is Pose and spec.context == "n"
    again = pytree.tree_unflatten([5, 6], spec)
    assert (again.place, again.speed, again.name) == (5, [6], "n")
    reading, spec = pytree.tree_flatten(Reading(1))
    assert reading == [1] and pytree.tree_unflatten([4], spec) == Reading(4, None)
    assert pytree.tree_flatten([Gain(1)])[0] == [] and pytree.tree_structure(Gain(1)) == pytree.tree_structure(Gain(1))
    assert pytree.tree_structure(Gain(1)) != pytree.tree_structure(Gain(2))
    gain = Gain(1)
    assert pytree.tree_map(lambda x: x + 1, [gain, 1])[0] is gain
    assert pytree.is_constant_class(Gain) and not pytree.is_constant_class(Pose)


def test_the_order_of_keys_and_the_kind_of_dict_do_not_matter():
    tree, others = {"b": 1, "a": [2]}, {"a": [20], "b": 10}
    for kind in (dict, collections.OrderedDict, lambda d: collections.defaultdict(list, d)):
        assert pytree.tree_map(lambda a, b: a + b, tree, kind(others)) == {"b": 11, "a": [22]}
        assert pytree.tree_map(lambda a, b: a + b, kind(others), tree) == {"b": 11, "a": [22]}


def test_only_the_class_itself_is_registered():
    class Under(Pose):
        pass

    under = Under(1, 2)
    assert pytree.tree_leaves([under]) == [under]


REFUSED = {
    "twice": (ValueError, "already registered", lambda: pytree.register_constant(Gain)),
    "no class": (TypeError, "class", lambda: pytree.register_pytree_node(3, None, None)),
    "constant without eq": (TypeError, "__eq__", lambda: pytree.register_constant(Unknown)),
    "no dataclass": (ValueError, "field_names", lambda: pytree.register_dataclass(Unknown)),
    "other fields": (ValueError, "fields", lambda: pytree.register_dataclass(dataclasses.make_dataclass("D", ["a"]), field_names=["b"])),
    "too few leaves": (ValueError, "leaves", lambda: pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))),
    "no form": (TypeError, "TreeSpec", lambda: pytree.tree_unflatten([1], [1])),
    "other form": (ValueError, "differ", lambda: pytree.tree_map(lambda a, b: a, [1, 2], [1])),
    "other keys": (ValueError, "differ.*the keys", lambda: pytree.tree_map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 2})),
    "more keys": (ValueError, "differ.*the keys", lambda: pytree.tree_map(lambda a, b: a, {"a": 1}, {"a": 1, "c": 2})),
    "no keys": (ValueError, "flatten_with_keys_fn", lambda: pytree.tree_flatten_with_path(Tagged(1, 2))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    kind, words, act = REFUSED[name]
    with pytest.raises(kind, match=words):
        act()


def test_fields_that_are_dropped_or_named():
    @dataclasses.dataclass
    class Cached:
        x: int
        cache: object = None

    pytree.register_dataclass(Cached, drop_field_names=["cache"])
    assert pytree.tree_map(lambda n: n + 1, Cached(1, "old")) == Cached(2)

    class Named:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_dataclass(Named, field_names=["b", "a"])
    assert pytree.tree_leaves(Named(1, 2)) == [2, 1]


def test_walks():
    tree = {"a": [1, (2, "x")], "b": Pair(3, None)}
    assert pytree.tree_map(lambda a, b: (a, b), [1, (2,)], [3, ([4],)]) == [(1, 3), ((2, [4]),)]
    assert pytree.tree_map_only(int, lambda n: n * 2, tree) == {"a": [2, (4, "x")], "b": Pair(6, None)}
    assert pytree.tree_map_only((int, str), lambda n: n * 2, tree)["a"] == [2, (4, "xx")]
    assert pytree.tree_map_only(lambda leaf: leaf == 2, lambda n: 7, tree)["a"] == [1, (7, "x")]
    assert pytree.tree_map(len, [(1, 2), (3,)], is_leaf=lambda t: isinstance(t, tuple)) == [2, 1]
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, 2, "x", 3, None]
    assert pytree.tree_map_only_(int, seen.append, tree) is tree and seen[5:] == [1, 2, 3]
    assert pytree.tree_any(lambda leaf: leaf == 2, tree) and not pytree.tree_all(lambda leaf: leaf, tree)
    assert pytree.tree_all_only(int, lambda n: n > 0, tree) and not pytree.tree_any_only(str, str.isupper, tree)
    paths = [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path([tree, Pose(1, {2: 3})])]
    assert paths == [("[0]['a'][0]", 1), ("[0]['a'][1][0]", 2), ("[0]['a'][1][1]", "x"), ("[0]['b'].left", 3), ("[0]['b'].right", None),
                     ("[1].place", 1), ("[1].speed[2]", 3)]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pytree.tree_leaves_with_path(tree))
    assert pytree.tree_map_with_path(lambda path, leaf: (pytree.keystr(path), leaf), (5,)) == (("[0]", 5),)


def test_text_of_a_form():
    assert str(pytree.tree_structure(1)) == "*" and str(pytree.tree_structure(())) == "TreeSpec(tuple, None, [])"
    assert repr(pytree.tree_structure({"a": 1, "b": [2, 3]})) == (
        "TreeSpec(dict, ['a', 'b'], [*,\n  TreeSpec(list, None, [*,\n    *])])")
    assert kt.utils.pytree.tree_map is pytree.tree_map


# ---- Followed ------------------------------------------------------------------------------------------------------


def shown(value):
    """Tensors as lists, objects as tuples."""
    if isinstance(value, kt.Tensor):
        return value.tolist()
    if isinstance(value, (Pose, Reading)):
        return type(value).__name__, {name: shown(part) for name, part in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value)(*map(shown, value)) if hasattr(value, "_fields") else type(value)(map(shown, value))
    return {key: shown(part) for key, part in value.items()} if isinstance(value, dict) else value


def maps(x):
    return pytree.tree_map(lambda t: t * 2, {"a": x, "b": [x + 1, (x,)]})


def maps_two(x):
    return pytree.tree_map(lambda a, b: a + b, (x, [x]), (x * 2, [x * 3]))


def maps_objects(x):
    return pytree.tree_map(lambda t: t * 2, [Pose(x, x + 1, "p"), Reading(x)])


def maps_some(x):
    return pytree.tree_map_only(kt.Tensor, lambda t: t + 1, [x, 3, "text", None, Pair(x, 1)])


def flattens(x):
    leaves, spec = pytree.tree_flatten((Pose(x, [x], "p"), {"k": 4}))
    return leaves, spec.num_leaves, pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)


def asks(x):
    tree = [x, (x * 2, 3)]
    return pytree.tree_all(lambda leaf: leaf is not None, tree), pytree.tree_any(lambda leaf: leaf == 3, [1, (2, 3)]), x + 1


FOLLOWED = [maps, maps_two, maps_objects, maps_some, flattens, asks]


@pytest.mark.parametrize("program", FOLLOWED, ids=lambda f: f.__name__)
def test_trees_are_followed(program, stress):
    x = kt.arange(3) * 1.0
    fast = kt.compile(program, fullgraph=stress != "break_everywhere")
    for _ in range(2):
        assert shown(fast(x)) == shown(program(x))


# ---- Calls that are not looked into --------------------------------------------------------------------------------


@kt.compiler.nonstrict_trace
def advance(pose, reading=None, gain=Gain(1)):
    dynamo.graph_break()
    factor = 1 if reading is None else reading.weight
    return Pose(pose.place + pose.speed * factor, [pose.speed * gain.size], pose.name + "!")


@kt.compiler.nonstrict_trace
def several(tree):
    return Pair(tree["a"] + 1, {"k": Reading(tree["b"][0], None), "n": 3}), collections.OrderedDict(z=tree["a"]), Gain(4)


GAIN = Gain(3)


def uses_given(pose):
    moved = advance(pose)
    return moved.place * 2, moved.speed[0], moved.name


def uses_made(pose):
    moved = advance(Pose(pose.place + 1, pose.speed, "made"), reading=Reading(pose.speed, 2), gain=GAIN)
    return moved


def uses_nested(pose):
    pair, ordered, gain = several({"a": pose.place, "b": [pose.speed]})
    return pair.left + ordered["z"], pair.right["k"].value * gain.size, pair.right["n"], pair.right["k"].weight


@pytest.mark.parametrize("program", [uses_given, uses_made, uses_nested], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", [None, "eager"])
def test_registered_objects(program, backend, stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    fast = kt.compile(program, fullgraph=True, backend=backend)
    for turn in range(3):
        pose = Pose(kt.ones(2) * turn, kt.ones(2), "given")
        assert shown(fast(pose)) == shown(program(pose))


def test_registered_objects_guard_what_they_hold(stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda pose, gain: advance(pose, gain=gain).speed[0], fullgraph=True, backend=cnt)
    one, two = Gain(1), Gain(2)
    for name, gain, wanted, graphs in (("a", one, 1.0, 1), ("a", one, 1.0, 1), ("b", one, 1.0, 2), ("b", two, 2.0, 3), ("a", one, 1.0, 3)):
        assert fast(Pose(kt.ones(1), kt.ones(1), name), gain).tolist() == [wanted]
        assert cnt.frame_count == graphs


def test_cond_takes_registered_objects(stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")

    def f(pose):
        made = kt.cond(pose.place.sum() > 0, lambda p: Reading(p.place + 1, p.speed * 2), lambda p: Reading(p.place - 1, p.speed * 3), (pose,))
        return made.value, made.weight

    for backend in (None, "eager"):
        fast = kt.compile(f, fullgraph=True, backend=backend)
        for sign in (1, -1, 1):
            pose = Pose(kt.ones(1) * sign, kt.ones(1))
            assert shown(fast(pose)) == shown(f(pose))


class Mark:
    """Part of a context: equal to what its class says, if anybody asked."""
    asked = []

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        Mark.asked.append(other)
        return self.value == other.value

    __ne__ = __hash__ = None


class Marked:
    def __init__(self, x, mark):
        self.x, self.mark = x, mark


pytree.register_pytree_node(Marked, lambda m: ([m.x], (m.mark, [1.0, {"k": None}])), lambda parts, context: Marked(parts[0], context[0]))


def test_contexts_are_compared_without_the_programs_code(stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    value = [1]

    @kt.compiler.nonstrict_trace
    def gives(x):
        return Marked(x + 1, Mark(value[0]))

    fast = kt.compile(lambda x: gives(x).x * 2, fullgraph=True)
    for _ in range(2):
        assert fast(kt.ones(1)).tolist() == [4.0]
    value[0] = 2
    if not stress:
        with pytest.raises(RuntimeError, match="must always answer alike"):
            fast(kt.ones(1))
    assert Mark.asked == []


made_inside = lambda x: advance(Pose(x, x), gain=Gain(x.shape[0]))  # noqa: E731
gives_unknown = kt.compiler.nonstrict_trace(lambda x: Unknown(x))
takes = kt.compiler.nonstrict_trace(lambda o: kt.ones(1))
BREAKS = {
    "Invalid input type for nonstrict_trace-ed function": lambda x: takes([Unknown()]),
    "Invalid use of pytree_flatten with nonstrict_trace-ed function": lambda x: takes(Tagged(x, Unknown())),
    "Input marked with `pytree.register_constant` constructed in the `kt.compile` region": made_inside,
    "Unsupported output type for nonstrict_trace-ed function": lambda x: gives_unknown(x),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_breaks(kind, stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    with pytest.raises(dynamo.exc.Unsupported) as told:
        kt.compile(BREAKS[kind], fullgraph=True)(kt.ones(1))
    assert str(told.value).splitlines()[0] == kind
    if "input type" in kind:
        assert all(name in str(told.value) for name in ("register_pytree_node", "register_dataclass", "register_constant"))
    dynamo.reset()
    assert type(kt.compile(BREAKS[kind])(kt.ones(1))) is type(BREAKS[kind](kt.ones(1)))


def test_an_answer_of_another_form_is_an_error(stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    state = {"name": "a"}
    odd = kt.compiler.nonstrict_trace(lambda x: Pose(x, x + 1, state["name"]))
    fast = kt.compile(lambda x: odd(x).place, fullgraph=True)
    fast(kt.ones(1))
    state["name"] = "b"
    if not stress:
        with pytest.raises(RuntimeError, match="answer"):
            fast(kt.ones(1))
