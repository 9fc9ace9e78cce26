"""Containers as trees: what is in them in order (leaves), and their form (a TreeSpec) from which they are built again.

    leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})      # [1, 2, 3]
    tree_unflatten([x * 2 for x in leaves], spec)             # {"a": (2, 4), "b": [6]}

tuple, list, dict, named tuples, OrderedDict, defaultdict and deque are containers; other classes once they are registered:
register_pytree_node, register_dataclass, register_constant. Anything else, None too, is a leaf. Plain Python, and followed in
compiled code.
"""
import collections

Context = PyTree = object  # for annotations: anything

NodeDef = collections.namedtuple("NodeDef", "type flatten_fn unflatten_fn with_keys is_constant")
SUPPORTED_NODES = {}  # class -> NodeDef


class TreeSpec:
    """The form of a tree: its class, what the class keeps beside its children, the children's forms. Compared with ==."""

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_nodes, self.num_leaves, self.num_children = 1, 0, len(children_specs)
        for child in children_specs:
            self.num_nodes += child.num_nodes
            self.num_leaves += child.num_leaves

    def is_leaf(self):
        return self.type is None

    def children(self):
        return list(self.children_specs)

    def child(self, index):
        return self.children_specs[index]

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type is other.type and self.num_leaves == other.num_leaves and self.context == other.context and
                self.children_specs == other.children_specs)

    def __hash__(self):
        return hash((self.type, self.num_nodes, self.num_leaves, tuple(self.children_specs)))

    def __repr__(self):
        return self._shown(0)

    def _shown(self, indent):
        if self.is_leaf():
            return "*"
        gap = ",\n" + " " * (indent + 2)
        children = gap.join(child._shown(indent + 2) for child in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"


def LeafSpec():
    """The form of a leaf."""
    spec = TreeSpec(None, None, [])
    spec.num_leaves = 1
    return spec


# ---- The registry --------------------------------------------------------------------------------------------------


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Makes instances of exactly this class containers.

    flatten_fn            instance -> (list of children, context): whatever else is needed to build it again; compared with ==
    unflatten_fn          (children, context) -> instance
    flatten_with_keys_fn  instance -> (list of (key, child), context), for the functions that tell paths

    The other arguments are for writing trees to files and are not used here. TypeError for what is no class, ValueError for one
    that is registered.

    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, context: Pair(*children))
    """
    _register(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register(cls, flatten_fn, unflatten_fn, with_keys=None, is_constant=False):
    if not isinstance(cls, type):
        raise TypeError(f"a class is registered, not {cls!r}")
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls!r} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, with_keys, is_constant)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Registers a dataclass, or, given field_names, any class whose __init__ takes them by name: its fields are the children.

    Fields that are None are kept in the context. drop_field_names: left out, so they must have defaults. ValueError where the
    names are not those of the fields.

    >>> @dataclasses.dataclass
    ... class State: x: kt.Tensor; v: kt.Tensor
    >>> kt.utils._pytree.register_dataclass(State)
    """
    if not isinstance(cls, type):
        raise TypeError(f"a class is registered, not {cls!r}")
    import dataclasses
    dropped = tuple(drop_field_names or ())
    if dataclasses.is_dataclass(cls):
        fields = [field.name for field in dataclasses.fields(cls) if field.init]
        if field_names is None:
            field_names = [name for name in fields if name not in dropped]
        if set(field_names) | set(dropped) != set(fields):
            raise ValueError(f"{cls.__name__} has the fields {fields}, not {[*field_names, *dropped]}")
    elif field_names is None:
        raise ValueError(f"{cls.__name__} is no dataclass: say its field_names")
    names = tuple(field_names)

    def flatten(instance):
        children, present, absent = [], [], []
        for name in names:
            value = getattr(instance, name)
            if value is None:
                absent.append(name)
            else:
                children.append(value)
                present.append(name)
        return children, [present, absent]

    def unflatten(children, context):
        present, absent = context
        given = dict(zip(present, children))
        for name in absent:
            given[name] = None
        return cls(**given)

    def with_keys(instance):
        children, context = flatten(instance)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children)], context

    _register(cls, flatten, unflatten, with_keys)
    return cls


class ConstantNode:
    """The context of a constant: the object."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, ConstantNode) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"ConstantNode({self.value!r})"


def register_constant(cls):
    """Registers a class whose instances are constants: no leaf is in them. It needs __eq__ and __hash__ of its own."""
    if not isinstance(cls, type):
        raise TypeError(f"a class is registered, not {cls!r}")
    if cls.__eq__ is object.__eq__:
        raise TypeError(f"register_constant: {cls.__name__} needs an __eq__ of its own, by which two constants are the same")
    if cls.__hash__ is None:
        raise TypeError(f"register_constant: {cls.__name__} needs a __hash__ of its own, which goes with its __eq__")

    def flatten(instance):
        return [], ConstantNode(instance)

    def unflatten(children, context):
        return context.value

    _register(cls, flatten, unflatten, lambda instance: flatten(instance), is_constant=True)
    return cls


def is_constant_class(cls):
    """Whether register_constant was given this class."""
    return cls in SUPPORTED_NODES and SUPPORTED_NODES[cls].is_constant


def node_of_class(cls):
    """How instances of this class are flattened, a NodeDef; None: they are leaves."""
    found = SUPPORTED_NODES.get(cls)
    if found is None and is_namedtuple_class(cls):
        return _NAMED_TUPLE
    return found


def _node_of(tree):
    return node_of_class(type(tree))


def is_namedtuple_class(cls):
    """Whether it is a class that collections.namedtuple made, or derives from one."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


# ---- Keys of paths -------------------------------------------------------------------------------------------------


class _Key:
    """A step of a path. Compared with ==."""

    def __init__(self, key):
        setattr(self, self._field, key)

    def _own(self):
        return getattr(self, self._field)

    def __eq__(self, other):
        return type(other) is type(self) and self._own() == other._own()

    def __hash__(self):
        return hash((type(self), self._own()))

    def __repr__(self):
        return f"{type(self).__name__}({self._field}={self._own()!r})"

    def __str__(self):
        return f"[{self._own()!r}]"

    def get(self, tree):
        return tree[self._own()]


class MappingKey(_Key):
    _field = "key"


class SequenceKey(_Key):
    _field = "idx"


class GetAttrKey(_Key):
    _field = "name"

    def __str__(self):
        return f".{self.name}"

    def get(self, tree):
        return getattr(tree, self.name)


def keystr(path):
    """The text of a path: "['a'][0].b"."""
    return "".join([str(key) for key in path])


def key_get(tree, path):
    """What is at a path."""
    for key in path:
        tree = key.get(tree)
    return tree


# ---- Builtin containers --------------------------------------------------------------------------------------------


def _flatten_sequence(tree):
    return list(tree), None


def _sequence_keys(tree):
    return [(SequenceKey(at), child) for at, child in enumerate(tree)], _node_of(tree).flatten_fn(tree)[1]


def _flatten_mapping(tree):
    return list(tree.values()), list(tree.keys())


def _mapping_keys(tree):
    return [(MappingKey(key), child) for key, child in tree.items()], _node_of(tree).flatten_fn(tree)[1]


def _build_dict(children, context):
    return dict(zip(context, children))


def _build_ordered(children, context):
    return collections.OrderedDict(zip(context, children))


def _flatten_default(tree):
    return list(tree.values()), [tree.default_factory, list(tree.keys())]


def _build_default(children, context):
    return collections.defaultdict(context[0], zip(context[1], children))


def _build_tuple(children, context):
    return tuple(children)


def _build_list(children, context):
    return list(children)


def _flatten_deque(tree):
    return list(tree), tree.maxlen


def _build_deque(children, context):
    return collections.deque(children, context)


def _flatten_named(tree):
    return list(tree), type(tree)


def _build_named(children, context):
    return context(*children)


def _named_keys(tree):
    return [(GetAttrKey(name), child) for name, child in zip(type(tree)._fields, tree)], type(tree)


_NAMED_TUPLE = NodeDef(collections.namedtuple, _flatten_named, _build_named, _named_keys, False)
_register(tuple, _flatten_sequence, _build_tuple, _sequence_keys)
_register(list, _flatten_sequence, _build_list, _sequence_keys)
_register(dict, _flatten_mapping, _build_dict, _mapping_keys)
_register(collections.OrderedDict, _flatten_mapping, _build_ordered, _mapping_keys)
_register(collections.defaultdict, _flatten_default, _build_default, _mapping_keys)
_register(collections.deque, _flatten_deque, _build_deque, _sequence_keys)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
BUILTIN_TYPES = frozenset([*SUPPORTED_NODES, collections.namedtuple])


# ---- Trees ---------------------------------------------------------------------------------------------------------


def tree_is_leaf(tree, is_leaf=None):
    """Whether it counts as one leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec). is_leaf: a function that answers True for what is not to be looked into."""
    leaves = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree, leaves, is_leaf):
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = node.flatten_fn(tree)
    specs = []
    for child in children:
        specs.append(_flatten_into(child, leaves, is_leaf))
    return TreeSpec(tuple_class(node, tree), context, specs)


def tuple_class(node, tree):
    """What the spec of a tree of this node has as its class."""
    return collections.namedtuple if node is _NAMED_TUPLE else type(tree)


def tree_unflatten(leaves, treespec):
    """The tree of this form with these leaves. ValueError where there are more or fewer than the form has."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten takes leaves and a TreeSpec, not {treespec!r}")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(leaves)} leaves for a form of {treespec.num_leaves}: {treespec}")
    return _build(iter(leaves), treespec)


def _build(leaves, spec):
    if spec.is_leaf():
        return next(leaves)
    children = []
    for child in spec.children_specs:
        children.append(_build(leaves, child))
    node = _NAMED_TUPLE if spec.type is collections.namedtuple else SUPPORTED_NODES[spec.type]
    return node.unflatten_fn(children, spec.context)


def tree_leaves(tree, is_leaf=None):
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """The same, one after the other."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree, is_leaf=None):
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The same tree with func(leaf) in place of each leaf; func(leaf, *others) with those of `rests`, trees of the same form."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        columns.append(_leaves_like(rest, spec))
    return tree_unflatten([func(*row) for row in zip(*columns)], spec)


def _leaves_like(tree, spec):
    """The parts of `tree` where the form has leaves; ValueError where it differs above them."""
    if spec.is_leaf():
        return [tree]
    node = _node_of(tree)
    if type(tree) in _MAPPINGS and spec.type in _MAPPINGS:
        return _mapped_leaves_like(tree, spec)
    if node is None or tuple_class(node, tree) is not spec.type:
        raise ValueError(f"trees differ: {type(tree).__name__} where there is {spec.type.__name__}")
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children or context != spec.context:
        raise ValueError(f"trees differ: {spec.type.__name__} with {len(children)} children and {context} where there are "
                         f"{spec.num_children} and {spec.context}")
    found = []
    for child, like in zip(children, spec.children_specs):
        found.extend(_leaves_like(child, like))
    return found


def _mapped_leaves_like(tree, spec):
    """Of a dict, by the keys of the form: their order does not matter, nor which kind of dict it is."""
    keys = spec.context[1] if spec.type is collections.defaultdict else spec.context
    missing = [key for key in keys if key not in tree]
    if missing or len(tree) != len(keys):
        raise ValueError(f"trees differ: {type(tree).__name__} with the keys {list(tree)} where there are {keys}")
    found = []
    for key, like in zip(keys, spec.children_specs):
        found.extend(_leaves_like(tree[key], like))
    return found


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func as tree_map does and answers the tree as it was."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _matches(leaf, kinds):
    return isinstance(leaf, kinds) if isinstance(kinds, (type, tuple)) else bool(kinds(leaf))


def map_only(type_or_types_or_pred, /):
    """Decorator: the function is called for leaves of these classes (or for which the predicate holds); others come back."""
    def decorate(func):
        def apply(leaf):
            return func(leaf) if _matches(leaf, type_or_types_or_pred) else leaf

        return apply

    return decorate


def tree_map_only(type_or_types_or_pred, func, tree, is_leaf=None):
    """tree_map that leaves alone what is of another class."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, func, tree, is_leaf=None):
    """tree_map_ that leaves alone what is of another class."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether pred holds for every leaf."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_any(pred, tree, is_leaf=None):
    """Whether pred holds for some leaf."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_all_only(type_or_types, pred, tree, is_leaf=None):
    """Whether pred holds for every leaf of these classes."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types, pred, tree, is_leaf=None):
    """Whether pred holds for some leaf of these classes."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_flatten_with_path(tree, is_leaf=None):
    """(list of (path, leaf), spec); a path is a tuple of keys. ValueError for a class registered without flatten_with_keys_fn."""
    found = []
    _paths_into(tree, (), found, is_leaf)
    return found, tree_structure(tree, is_leaf)


def _paths_into(tree, path, found, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    node = _node_of(tree)
    if node.with_keys is None:
        raise ValueError(f"{type(tree)!r} was registered without flatten_with_keys_fn, so that its children have no keys")
    for key, child in node.with_keys(tree)[0]:
        _paths_into(child, (*path, key), found, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """The list of (path, leaf)."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """As tree_map, with func(path, leaf, *others)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found]]
    columns += [_leaves_like(rest, spec) for rest in rests]
    return tree_unflatten([func(*row) for row in zip(*columns)], spec)
