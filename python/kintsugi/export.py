"""kt.export: a function, or a module, as one graph that stands alone: readable, callable, with the sizes that it takes."""
import itertools
import keyword
import math

from . import _opaque, _runtime, fx, nn
from ._runtime import _driver
from .utils import _pytree

__all__ = ["Dim", "ExportedProgram", "GraphSignature", "InputSpec", "OutputSpec", "ValueRange", "dims", "export"]
Tensor = _runtime.Tensor
_INFINITE = 1 << 62
_DEEPEST = 50


# ---- Sizes -----------------------------------------------------------------------------------------------------------------


class Dim:
    """A size that may differ from call to call: Dim("n"), Dim("n", min=2, max=64). One Dim in two places: equal sizes.

    Dim.DYNAMIC, Dim.AUTO: any size, without a name. Dim.STATIC: the example's.
    """

    def __init__(self, name, *, min=0, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"a Dim's name is an identifier, not {name!r}")
        low, high = min, _INFINITE if max is None else max
        if type(low) is not int or type(high) is not int or not 0 <= low <= high:
            raise ValueError(f"Dim {name!r}: 0 <= min <= max is wanted, not min={min!r}, max={max!r}")
        self.__name__, self.min, self.max = name, low, high

    def __repr__(self):
        return self.__name__


Dim.DYNAMIC, Dim.AUTO, Dim.STATIC = Dim("DYNAMIC"), Dim("AUTO"), Dim("STATIC")


def dims(*names, min=0, max=None):
    """Several Dims at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ValueRange:
    """Bounds of a size, both included."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def __eq__(self, other):
        return type(other) is ValueRange and (self.lower, self.upper) == (other.lower, other.upper)

    def __repr__(self):
        return f"[{self.lower}, {'inf' if self.upper == _INFINITE else self.upper}]"


# ---- Structure -------------------------------------------------------------------------------------------------------------


class _Leaf:
    """One value among the arguments: a tensor, or a constant that each call has to give again."""

    def __init__(self, path, value):
        self.path, self.value = path, value
        self.name = None  # of a tensor: that of its placeholder
        self.sizes = tuple(value.shape) if type(value) is Tensor else None
        self.dynamic = {}  # dimension -> name of its size


class _Node:
    """A container among them: a tuple, named or not, a list, a dict, or an object of a class that kt.utils._pytree knows, which
    `unflatten` builds of its parts and the context."""

    def __init__(self, kind, keys, parts, context=None, unflatten=None):
        self.kind, self.keys, self.parts, self.context, self.unflatten = kind, keys, parts, context, unflatten


def _spec_of(value, path, leaves, around=()):
    """around: the containers that the value is in."""
    if any(each is value for each in around):
        raise _exc().UserError(f"kt.export: the argument {path} contains itself, which no call could give again; pass its parts")
    if len(around) > _DEEPEST:
        raise _exc().UserError(f"kt.export: the argument {path.partition('[')[0]} has containers within containers, more than {_DEEPEST}; "
                               "pass its parts")
    around = (*around, value)
    if type(value) in (tuple, list):
        return _Node(type(value), None, [_spec_of(each, f"{path}[{i}]", leaves, around) for i, each in enumerate(value)])
    if type(value) is dict:
        return _Node(dict, list(value), [_spec_of(each, f"{path}[{key!r}]", leaves, around) for key, each in value.items()])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _Node(type(value), None,
                     [_spec_of(each, f"{path}.{name}", leaves, around) for name, each in zip(value._fields, value)])
    node = _opaque.parts_of(value)
    if node is not None and node[0]:
        parts = [_spec_of(each, f"{path}.<{i}>", leaves, around) for i, each in enumerate(node[0])]
        return _Node(type(value), None, parts, node[1], _pytree.node_of_class(type(value)).unflatten_fn)
    leaf = _Leaf(path, value)
    leaves.append(leaf)
    return leaf


def _text(spec, names):
    """An expression that makes it again of its tensors' names."""
    if type(spec) is _Leaf:
        if spec.name is not None:
            return spec.name
        name = f"_constant_{len(names)}"
        names[name] = spec.value
        return name
    parts = [_text(part, names) for part in spec.parts]
    if spec.kind is tuple:
        return "(" + "".join(part + ", " for part in parts) + ")"
    if spec.kind is list:
        return "[" + ", ".join(parts) + "]"
    if spec.kind is dict:
        keys = []
        for key in spec.keys:
            keys.append(f"_constant_{len(names)}")
            names[keys[-1]] = key
        return "{" + ", ".join(f"{key}: {part}" for key, part in zip(keys, parts)) + "}"
    name = f"_class_{len(names)}"
    names[name] = spec.unflatten or spec.kind
    if spec.unflatten is not None:
        names[f"_context_{len(names)}"] = spec.context
        return f"{name}([{', '.join(parts)}], {list(names)[-1]})"
    return f"{name}({', '.join(parts)})"


def _same(value, constant):
    """Whether a program that was made for the constant may be given the value. NaN is one value; 0.0 and -0.0 are two."""
    if type(value) is not type(constant):
        return False
    if type(value) is float:
        return value == constant and math.copysign(1, value) == math.copysign(1, constant) or value != value and constant != constant
    return value is constant or bool(value == constant)


def _given(spec, value, path, tensors):
    """Takes a call's tensors out of its arguments; RuntimeError where these are not as they were."""
    if type(spec) is _Node and spec.unflatten is not None:
        node = _opaque.parts_of(value) if type(value) is spec.kind else None
        if node is None or len(node[0]) != len(spec.parts) or node[1] != spec.context:
            raise RuntimeError(f"{path} was a {spec.kind.__name__} of {len(spec.parts)} parts and the context {spec.context!r} when it was "
                               f"exported, not {value!r}")
        for at, (part, each) in enumerate(zip(spec.parts, node[0])):
            _given(part, each, f"{path}.<{at}>", tensors)
    elif type(spec) is _Node:
        like = type(value) is spec.kind and (list(value) == spec.keys if spec.kind is dict else len(value) == len(spec.parts))
        if not like:
            raise RuntimeError(f"{path} was a {spec.kind.__name__} of {len(spec.parts)} when it was exported"
                               f"{f' with the keys {spec.keys}' if spec.keys else ''}, not {value!r}")
        for part, each, at in zip(spec.parts, value.values() if spec.kind is dict else value,
                                  spec.keys or range(len(spec.parts))):
            _given(part, each, f"{path}[{at!r}]", tensors)
    elif spec.sizes is None:
        if not _same(value, spec.value):
            raise RuntimeError(f"{path} was the constant {spec.value!r} when it was exported, not {value!r}")
    elif type(value) is not Tensor:
        raise RuntimeError(f"{path} was a tensor when it was exported, not {value!r}")
    else:
        tensors.append(value)


# ---- The program -----------------------------------------------------------------------------------------------------------


class InputSpec:
    """A placeholder: kind is USER_INPUT, PARAMETER, BUFFER or CONSTANT_TENSOR (target: where it was found), arg its name."""

    def __init__(self, kind, arg, target=None):
        self.kind, self.arg, self.target = kind, arg, target

    def __repr__(self):
        return f"InputSpec(kind={self.kind}, arg={self.arg!r}, target={self.target!r})"


class OutputSpec:
    """An output: kind is USER_OUTPUT; arg the node's name, or, of what does not depend on the inputs, the value itself."""

    def __init__(self, kind, arg):
        self.kind, self.arg = kind, arg

    def __repr__(self):
        return f"OutputSpec(kind={self.kind}, arg={self.arg!r})"


class GraphSignature:
    """What the graph's placeholders and outputs stand for, in order."""

    def __init__(self, input_specs, output_specs):
        self.input_specs, self.output_specs = input_specs, output_specs

    @property
    def user_inputs(self):
        return tuple(spec.arg for spec in self.input_specs if spec.kind == "USER_INPUT")

    @property
    def user_outputs(self):
        return tuple(spec.arg for spec in self.output_specs)

    @property
    def parameters(self):
        return tuple(spec.target for spec in self.input_specs if spec.kind == "PARAMETER")

    def __repr__(self):
        return "\n".join(["inputs", *(f"    {spec.arg}: {spec.kind}{f' of {spec.target}' if spec.target else ''}"
                                      for spec in self.input_specs), "outputs", *(f"    {spec.arg}" for spec in self.output_specs)])


class ExportedProgram:
    """What export answers. module()(*args, **kwargs) runs it.

    graph_module, graph   the tensor calls; placeholders are graph_signature.input_specs
    example_inputs        (args, kwargs) as they were given
    state_dict            tensors that are no arguments, by where they were found: the program holds them
    range_constraints     bounds of the dynamic sizes, by name
    """

    def __init__(self, graph_module, signature, arguments, state, returned, ranges, reads_gradients):
        self.graph_module, self.graph_signature, self.state_dict = graph_module, signature, state
        self.range_constraints = ranges
        self.example_inputs = None
        self._arguments, self._returned, self._reads_gradients = arguments, returned, reads_gradients

    @property
    def graph(self):
        return self.graph_module.graph

    @property
    def input_shapes(self):
        """By placeholder: a size each, an int or the name of a dynamic one."""
        return {leaf.name: tuple(leaf.dynamic.get(at, size) for at, size in enumerate(leaf.sizes)) for leaf in self._arguments.tensors}

    def module(self):
        return _Module(self)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("an ExportedProgram is not called itself: call what its module() answers")

    def __str__(self):
        code = "\n".join("    " + line if line else "" for line in self.graph_module.code.splitlines())
        sizes = ", ".join(f"{name}: {shape}" for name, shape in self.input_shapes.items())
        return (f"ExportedProgram:\n{code}\n\nGraph signature:\n{self.graph_signature!r}\nInput shapes: {sizes}\n"
                f"Range constraints: {self.range_constraints}\n")

    def _check(self, tensors):
        found = {}
        for leaf, tensor in zip(self._arguments.tensors, tensors):
            sizes, wanted = tuple(tensor.shape), self.input_shapes[leaf.name]
            if self._reads_gradients and tensor.requires_grad != leaf.requires_grad:
                raise RuntimeError(f"Expected input {leaf.path} to have requires_grad={leaf.requires_grad}, which the exported function looked "
                                   f"at, but got requires_grad={tensor.requires_grad}")
            if tensor.dtype != leaf.value.dtype or len(sizes) != len(wanted):
                raise RuntimeError(f"Expected input {leaf.path} to be a tensor of {leaf.value.dtype} and sizes {wanted}, but got one of "
                                   f"{tensor.dtype} and sizes {sizes}")
            for at, (size, want) in enumerate(zip(sizes, wanted)):
                if type(want) is int and size != want:
                    raise RuntimeError(f"Expected input {leaf.path}.shape[{at}] to be equal to {want}, but got {size}: exported with sizes "
                                       f"{wanted}, called with {sizes}")
                if type(want) is int:
                    continue
                bounds = self.range_constraints[want]
                if not bounds.lower <= size <= bounds.upper:
                    raise RuntimeError(f"Expected input {leaf.path}.shape[{at}] to be in {bounds}, the range of {want}, but got {size}: "
                                       f"exported with sizes {wanted}, called with {sizes}")
                if found.setdefault(want, size) != size:
                    raise RuntimeError(f"Expected input {leaf.path}.shape[{at}] to be equal to {found[want]}, as {want} is elsewhere, but got "
                                       f"{size}: exported with sizes {wanted}, called with {sizes}")


class _Module:
    """The callable form: takes what the exported function took, and answers in the same structure."""

    def __init__(self, program):
        self._program = program
        names = {"_out": None}
        self.graph, self.code = program.graph, program.graph_module.code
        exec(f"def answer(_out): return {program._returned(names)}", names)
        self._answer = names["answer"]

    def __call__(self, *args, **kwargs):
        program = self._program
        tensors = program._arguments.tensors_of(args, kwargs)
        program._check(tensors)
        before = _grad_mode()
        try:
            return self._answer(program.graph_module.forward(*program.state_dict.values(), *tensors))
        finally:  # an error within a region of another mode
            _runtime._change_grad_mode(before)

    def print_readable(self, print_output=True):
        return self._program.graph_module.print_readable(print_output)

    def __repr__(self):
        return repr(self._program.graph_module)


# ---- Export ----------------------------------------------------------------------------------------------------------------


class _Taken(BaseException):
    """Ends the trace: (inputs, calls, what is returned)."""


def _grad_mode():
    return 2 if _runtime.is_inference_mode_enabled() else 0 if _runtime.is_grad_enabled() else 1


def _take(*told):
    """What jit/export_graph.cpp calls."""
    raise _Taken(told)


def _assert(condition, message):
    """An assert statement about a tensor, in a graph."""
    if not condition:
        raise AssertionError(message)


class _Made:
    """Marks, itself, an object among what a traced function answers: (_Made, function that makes it, arguments); with None for the
    function a container by its number: [number, container], and [number] where it comes again."""


def _outgoing(value, around=(), told=None):
    """What a function answers, told in tuples, lists, dicts and atoms; a container in two places by its number. Followed while tracing."""
    for each in around:
        if each is value:
            return value  # the tracer says so
    kind = type(value)
    if kind is Tensor or kind is int or kind is float:
        return value
    if kind is slice:
        return (_Made, slice, [value.start, value.stop, value.step])
    if kind is _runtime.Size:
        return (_Made, kind, [[*value]])
    node = _pytree.node_of_class(kind)
    if kind is not set and kind is not frozenset and (node is None or node.is_constant):
        return value
    told = [] if told is None else told
    for number, each in enumerate(told):
        if each is value:
            return (_Made, None, [number])
    number = len(told)
    told.append(value)
    around = (*around, value)
    if kind is tuple or kind is list:
        parts = []
        for each in value:
            parts.append(_outgoing(each, around, told))
        answer = tuple(parts) if kind is tuple else parts
    elif kind is dict:
        answer = {}
        for key, each in value.items():
            answer[key] = _outgoing(each, around, told)
    elif node is None:
        answer = (_Made, kind, [_outgoing([*value], around, told)])
    else:
        children, context = node.flatten_fn(value)
        parts = []
        for each in children:
            parts.append(_outgoing(each, around, told))
        answer = (_Made, node.unflatten_fn, [parts, _outgoing(context, around, told)])
    return (_Made, None, [number, answer])


def _bound(function, captured, defaults, keyword_defaults):
    """A function that a graph makes: with these objects in its cells, and as defaults."""
    import types
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults, tuple(map(types.CellType, captured)))
    made.__kwdefaults__ = keyword_defaults
    return made


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=True):
    """The program that mod(*args, **kwargs) is for tensors of these dtypes and sizes, as one graph. Nothing is run.

    mod             a function, or a callable object such as a module
    args, kwargs    example arguments: tensors in tuples, lists and dicts; anything else in them is a constant of the program
    dynamic_shapes  which sizes may differ: by parameter's name, or in order; for a tensor {0: Dim("n")}, or a Dim or None for
                    each dimension; None: all sizes are the example's
    strict          accepted; the trace is the same

    What cannot be in one graph is an error that says what to change: Unsupported for a break; UserError for what depends on a
    tensor's contents, changes an object outside, or answers something without a form in a graph; ConstraintViolationError
    for what depends on a size that is declared dynamic. Calls of config.reorderable_logging_functions are left out.

    >>> program = kt.export.export(lambda x: x * 2, (kt.ones(3, 4),), dynamic_shapes=({0: kt.export.Dim("n")},))
    >>> program.module()(kt.ones(5, 4))
    """
    if not isinstance(args, tuple):
        raise _exc().UserError(f"kt.export: args is a tuple of example arguments, not {args!r}")
    if not callable(mod):
        raise _exc().UserError(f"kt.export takes a function or a callable object, not {mod!r}")
    from ._compile import stripped
    mod, kwargs, taken = stripped(mod), dict(kwargs or {}), {"_mod", "_traced", "_outgoing"}
    arguments = _Arguments(mod, args, kwargs)
    ranges = _declare(dynamic_shapes, arguments)
    for leaf in arguments.tensors:
        leaf.name = _unique(_identifier(leaf.path), taken)
    own = {}
    if isinstance(mod, nn.Module):
        own = {id(each): ("PARAMETER", "p_", name) for name, each in mod.named_parameters()}
        own |= {id(each): ("BUFFER", "b_", name) for name, each in mod.named_buffers()}
    program = _program(*_trace(mod, arguments), arguments, ranges, taken, own)
    program.example_inputs = args, kwargs
    return program


def _identifier(path):
    text = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in path).strip("_") or "constant"
    return f"_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text


def _exc():
    from ._dynamo import exc
    return exc


def _unique(name, taken):
    for count in itertools.count():
        each = name if count == 0 else f"{name}_{count}"
        if each not in taken:
            taken.add(each)
            return each


class _Arguments:
    """Those of the example call, by parameter; any other call's are brought into the same order."""

    def __init__(self, mod, args, kwargs):
        import inspect
        try:
            self._signature = inspect.signature(mod.forward if isinstance(mod, nn.Module) else mod)
        except ValueError:
            self._signature = inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                                                 inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])
        self._bound = self._bind(args, kwargs)
        self.leaves = []
        self.spec = _Node(dict, list(self._bound.arguments),
                          [_spec_of(value, name, self.leaves) for name, value in self._bound.arguments.items()])
        self.tensors = [leaf for leaf in self.leaves if leaf.sizes is not None]

    def _bind(self, args, kwargs):
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"kt.export: the arguments do not fit the exported function: {error}") from None

    def tensors_of(self, args, kwargs):
        """RuntimeError where the arguments are not built as the example's were."""
        tensors = []
        _given(self.spec, dict(self._bind(args, kwargs).arguments), "the arguments", tensors)
        return tensors

    def text(self, names):
        """The call's arguments, as Python."""
        parameters = self._signature.parameters
        for name, spec in zip(self.spec.keys, self.spec.parts):
            kind = parameters[name].kind
            if kind == kind.VAR_POSITIONAL:
                spec = tuple(spec.parts)
            elif kind == kind.VAR_KEYWORD:
                spec = dict(zip(spec.keys, spec.parts))
            self._bound.arguments[name] = spec
        given = [_text(spec, names) for spec in self._bound.args]
        for name, spec in self._bound.kwargs.items():
            value = _text(spec, names)
            if name.isidentifier() and name.isascii() and not keyword.iskeyword(name):
                given.append(f"{name}={value}")
            else:
                names[f"_constant_{len(names)}"] = name
                given.append(f"**{{{list(names)[-1]}: {value}}}")
        return ", ".join(given)


def _declare(shapes, arguments):
    """Fills in each leaf's dynamic sizes; the bounds of all, by name."""
    exc, ranges, owners = _exc(), {}, {}

    def one(leaf, at, wanted):
        at = at + len(leaf.sizes) if at < 0 else at
        if not 0 <= at < len(leaf.sizes):
            raise exc.UserError(f"kt.export: dynamic_shapes names dimension {at} of {leaf.path}, which has {len(leaf.sizes)}")
        if wanted is None or wanted is Dim.STATIC or wanted == leaf.sizes[at] and type(wanted) is int:
            return
        if type(wanted) is str:
            wanted = owners.get(wanted) or Dim(wanted)
        if not isinstance(wanted, Dim):
            raise exc.UserError(f"kt.export: a size of {leaf.path} is declared by a Dim, a name, the size itself or None, not {wanted!r}")
        if wanted in (Dim.DYNAMIC, Dim.AUTO):
            wanted = Dim(_unique(f"s{len(ranges)}", set(ranges)))
        if owners.setdefault(wanted.__name__, wanted) is not wanted:
            raise exc.UserError(f"kt.export: two Dims are called {wanted.__name__!r}; use one object in both places")
        if not wanted.min <= leaf.sizes[at] <= wanted.max:
            raise exc.ConstraintViolationError(f"kt.export: {leaf.path}.shape[{at}] is {leaf.sizes[at]} in the example, outside of "
                                               f"{ValueRange(wanted.min, wanted.max)}, the range of {wanted}")
        ranges[wanted.__name__] = ValueRange(wanted.min, wanted.max)
        leaf.dynamic[at] = wanted.__name__

    def walk(spec, wanted, path):
        if wanted is None:
            return
        if type(spec) is _Node:
            keys = spec.keys if spec.kind is dict else range(len(spec.parts))
            if isinstance(wanted, dict):
                unknown = [key for key in wanted if key not in keys]
                if unknown:
                    raise exc.UserError(f"kt.export: dynamic_shapes names {unknown[0]!r}, which is not in {path}; there is {list(keys)}")
                pairs = [(spec.parts[list(keys).index(key)], each) for key, each in wanted.items()]
            elif isinstance(wanted, (tuple, list)) and len(wanted) == len(spec.parts):
                pairs = list(zip(spec.parts, wanted))
            else:
                raise exc.UserError(f"kt.export: dynamic_shapes has {wanted!r} for {path}, which has {len(spec.parts)} parts")
            for part, each in pairs:
                walk(part, each, path)
        elif spec.sizes is None:
            raise exc.UserError(f"kt.export: dynamic_shapes has {wanted!r} for {spec.path}, which is no tensor")
        elif isinstance(wanted, dict):
            for at, each in wanted.items():
                one(spec, at, each)
        elif isinstance(wanted, (tuple, list)) and len(wanted) == len(spec.sizes):
            for at, each in enumerate(wanted):
                one(spec, at, each)
        else:
            raise exc.UserError(f"kt.export: dynamic_shapes has {wanted!r} for {spec.path}, a tensor of {len(spec.sizes)} dimensions")

    spec = arguments.spec
    walk(spec if isinstance(shapes, dict) else _Node(tuple, None, spec.parts), shapes, "the arguments")
    wanted = {name: {leaf.sizes[at] for leaf in arguments.tensors for at, each in leaf.dynamic.items() if each == name}
              for name in ranges}
    for name, sizes in wanted.items():
        if len(sizes) > 1:
            raise exc.ConstraintViolationError(f"kt.export: {name} is {' and '.join(map(str, sorted(sizes)))} in the example arguments")
    return ranges


def _trace(mod, arguments):
    """What the tracer tells of a function of the tensors alone."""
    names = {"__name__": __name__, "_mod": mod, "_traced": _driver.is_exporting, "_outgoing": _outgoing}
    given, tensors = arguments.text(names), arguments.tensors
    lines = [f"def exported({', '.join(leaf.name for leaf in tensors)}):", "    if _traced():", f"        return _outgoing(_mod({given}))",
             "    raise RuntimeError('kt.export: nothing is traced here: a debugger or profiler is on')"]
    exec(compile("\n".join(lines), f"<kt.export of {getattr(mod, '__qualname__', type(mod).__qualname__)}>", "exec"), names)
    shown = []
    for leaf in tensors:
        tensor = leaf.value.clone()  # no tensor that the function finds elsewhere, and no marks of the caller's
        if getattr(leaf.value, "requires_grad", False):
            tensor.requires_grad_(True)
        leaf.shown, leaf.requires_grad = tensor, tensor.requires_grad
        bits = sum(1 << at for at in leaf.dynamic)
        if bits:
            _driver.mark_sizes(tensor, bits, 0)
        shown.append(tensor)
    compiled = _driver.make_compiled(names["exported"], True, 0, None, _driver.EXPORT)
    before = _driver.set_stance(0, None)
    try:
        compiled(*shown)
    except _Taken as taken:
        return taken.args[0]
    finally:
        _driver.set_stance(*before)
    raise RuntimeError("kt.export: nothing was traced")


def _program(inputs, calls, returned, reads_gradients, arguments, ranges, taken, own):
    exc = _exc()
    tensors = arguments.tensors
    by_example = {id(leaf.shown): leaf for leaf in tensors}
    numbers, state, lifted = {}, {}, []
    for number, source, value, real in inputs:
        leaf = by_example.get(id(value))
        if leaf is not None:
            numbers[leaf.name] = number
        elif real and type(value) is Tensor:
            source = source.rpartition(" ")[2].removeprefix("_mod").strip(".") or "constant"
            kind, prefix, source = own.get(id(value), ("CONSTANT_TENSOR", "", source))
            name = _unique(prefix + _identifier(source), taken)
            lifted.append((number, name, value, kind))
            state[source if source not in state else name] = value
        else:
            raise exc.UserError(f"kt.export: {source}, a {type(value).__name__}, is given to a call of the graph; only tensors, numbers, text "
                                "and containers of them have a form in it")
    rows = [*(each[:3] for each in lifted), *((numbers.get(leaf.name, -1 - at), leaf.name, leaf.shown) for at, leaf in enumerate(tensors))]
    outputs = []

    def collect(value):
        if type(value) is fx.Ref:
            outputs.append(value.number)
            return f"_out[{len(outputs) - 1}]"
        if type(value) is tuple and len(value) == 3 and value[0] is _Made:
            if value[1] is None:
                name = f"_told_{value[2][0]}"
                return f"({name} := {collect(value[2][1])})" if len(value[2]) > 1 else name
            return f"{constant(value[1])}({', '.join(map(collect, value[2]))})"
        if type(value) is tuple:
            return "(" + "".join(collect(each) + ", " for each in value) + ")"
        if type(value) is list:
            return "[" + ", ".join(map(collect, value)) + "]"
        if type(value) is dict:
            return "{" + ", ".join(f"{collect(key)}: {collect(each)}" for key, each in value.items()) + "}"
        return constant(value)

    constants = []

    def constant(value):
        constants.append(value)
        return f"_constant_{len(constants) - 1}"

    text = collect(returned)
    try:
        compile(text, "answer", "eval")
    except (SyntaxError, RecursionError, MemoryError):
        raise exc.UserError("kt.export: the function answers containers within containers, too many for Python text; answer less deep ones") from None

    def returns(names):
        names.update((f"_constant_{i}", value) for i, value in enumerate(constants))
        return text

    module, nodes = fx.build(rows, calls, outputs)
    placeholders = module.graph.nodes[:len(rows)]
    for node in placeholders:
        node.meta = {}  # the program outlives the example
    for node, leaf in zip(placeholders[len(lifted):], tensors):
        leaf.name = node.name
    kinds = [InputSpec(each[3], node.name, source) for node, each, source in zip(placeholders, lifted, state)]
    specs = kinds + [InputSpec("USER_INPUT", leaf.name) for leaf in tensors]
    signature = GraphSignature(specs, [OutputSpec("USER_OUTPUT", node.name) for node in nodes])
    for leaf in tensors:
        del leaf.shown
    return ExportedProgram(module, signature, arguments, state, returns, ranges, reads_gradients)
