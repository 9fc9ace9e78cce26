"""Graphs as backends see them: the tensor calls of one compiled part, readable, callable, and written out as Python."""
import itertools
import keyword
import operator
import types
import weakref

import kintsugi as _kt

from ._opaque import Part
from ._runtime import _driver

_numbers = itertools.count(1)
# By what the tracer tells: the argument of BINARY_OP, Py_LT and on, Unary of jit/tensor_calls.h.
_BINARY = ("add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor",
           "iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imul", "imod", "ior", "ipow", "irshift", "isub", "itruediv", "ixor")
_COMPARE = ("lt", "le", "eq", "ne", "gt", "ge")
_UNARY = ("neg", "pos", "invert", "abs")
_SIGNS = {"add": "+", "and_": "&", "floordiv": "//", "lshift": "<<", "matmul": "@", "mul": "*", "mod": "%", "or_": "|", "pow": "**",
          "rshift": ">>", "sub": "-", "truediv": "/", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">",
          "ge": ">="}


class Ref:
    """A value of the graph, by number, among the arguments that the tracer tells."""

    def __init__(self, number):
        self.number = number


class Slice:
    """A slice among them; its parts may be Refs."""

    def __init__(self, start, stop, step):
        self.parts = start, stop, step


def leaf(answer, path):
    """A part of what an opaque call answered."""
    for key in path:
        answer = key(answer) if type(key) is Part else answer[key]
    return answer


class Node:
    """One value or call: `op` is placeholder, call_function, call_method or output; `target` what is called.

    `shape` and `dtype` are those of its result, None where that is no tensor.
    """

    def __init__(self, graph, op, name, target, args=(), kwargs=None, example=None):
        self.graph, self.op, self.name, self.target, self.args, self.kwargs = graph, op, name, target, tuple(args), kwargs or {}
        is_tensor = type(example) is _kt.Tensor
        self.shape = tuple(example.shape) if is_tensor else None
        self.dtype = example.dtype if is_tensor else None
        self.meta = {"example_value": example}

    def __repr__(self):
        return self.name

    def format_node(self):
        if self.op == "placeholder":
            return f"%{self.name} : placeholder[target={self.target}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        return f"%{self.name} : {self.op}[target={name_of(self.target)}](args = {self.args}, kwargs = {self.kwargs})"


def name_of(target):
    """How a node names what it calls."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", None) or ""
    return f"{module}.{getattr(target, '__name__', repr(target))}".removeprefix(".").replace("_operator.", "operator.")


class Graph:
    """The nodes in order."""

    def __init__(self):
        self.nodes = []
        self._names = dict.fromkeys(("kt", "operator", "leaf", "forward"), 0)  # taken

    def add(self, op, name, target, *args, **facts):
        name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name).strip("_") or "value"
        if name[0].isdigit() or keyword.iskeyword(name):
            name = "_" + name
        count = self._names[name] = self._names.get(name, -1) + 1
        node = Node(self, op, name if count == 0 else f"{name}_{count}", target, *args, **facts)
        self.nodes.append(node)
        return node

    def __str__(self):
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self):
        """Prints a line for each node: opcode, name, target, args, kwargs."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, name_of(node.target), str(node.args), str(node.kwargs)) for node in self.nodes]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for number, row in enumerate(rows):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
            if number == 0:
                print("  ".join("-" * width for width in widths))


class _Writer:
    """Python text of a graph, and the objects that it names."""

    def __init__(self, graph):
        self.names = {"kt": _kt, "operator": operator, "leaf": leaf}
        inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
        lines = [f"def forward({', '.join(inputs)}):"]
        for node in graph.nodes:
            if node.op == "output":
                lines.append(f"    return {self.text(node.args[0])}")
            elif node.op != "placeholder":
                lines.append(f"    {node.name} = {self.call(node)}")
        self.source = "\n".join(lines) + "\n"

    def call(self, node):
        args = [self.text(each) for each in node.args]
        rest = args + [f"{name}={self.text(value)}" for name, value in node.kwargs.items()]
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({', '.join(rest[1:])})"
        name = getattr(node.target, "__name__", "")
        if node.target is getattr(operator, name, None):
            if name in _SIGNS and len(args) == 2:
                return f"{args[0]} {_SIGNS[name]} {args[1]}"
            return f"operator.{name}({', '.join(args)})"
        if node.target is getattr:
            return f"{args[0]}.{node.args[1]}"
        return f"{self.named(node.target)}({', '.join(rest)})"

    def named(self, thing):
        name = getattr(thing, "__name__", "")
        if isinstance(name, str) and name and getattr(_kt, name, None) is thing:
            return f"kt.{name}"
        if thing is leaf:
            return "leaf"
        name = f"_{name if isinstance(name, str) and name.isidentifier() else 'constant'}_{len(self.names)}"
        self.names[name] = thing
        return name

    def text(self, value):
        if isinstance(value, Node):
            return value.name
        if type(value) is tuple:
            return "(" + "".join(self.text(each) + ", " for each in value) + ")"
        if type(value) is list:
            return "[" + ", ".join(self.text(each) for each in value) + "]"
        if type(value) is dict:
            return "{" + ", ".join(f"{key!r}: {self.text(each)}" for key, each in value.items()) + "}"
        if type(value) is slice:
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if value is None or value is Ellipsis or type(value) in (bool, int, str):
            return repr(value)
        if type(value) is float and value == value and abs(value) != float("inf"):
            return repr(value)
        return self.named(value)


class GraphModule:
    """A graph that can be called: `forward` takes the values of the placeholders and answers a tuple of outputs.

    graph   the nodes           code    Python text of `forward`
    """

    def __init__(self, graph):
        self.graph = graph
        self._forward = None
        self._writer = None

    def _written(self):
        if self._writer is None:
            self._writer = _Writer(self.graph)
        return self._writer

    @property
    def code(self):
        return self._written().source

    @property
    def forward(self):
        """Compiled by the default backend, as it is first called."""
        if self._forward is None:
            writer = self._written()
            file = f"<kintsugi graph {next(_numbers)}>"
            names = {"__name__": "kintsugi.fx.graph", **writer.names}
            import linecache
            linecache.cache[file] = len(writer.source), None, writer.source.splitlines(True), file
            exec(compile(writer.source, file, "exec"), names)
            weakref.finalize(names["forward"], linecache.cache.pop, file, None)
            self._forward = _driver.make_compiled(names["forward"], False, -1)
        return self._forward

    def __call__(self, *args):
        return self.forward(*args)

    def print_readable(self, print_output=True):
        """`code`, printed too unless print_output is False."""
        if print_output:
            print(self.code)
        return self.code

    def __repr__(self):
        return f"GraphModule()\n\n{self.code}"


def build(inputs, calls, outputs):
    """The graph of what the tracer tells; see jit/graph_calls.cpp."""
    graph, values = Graph(), {}
    for number, name, example in inputs:
        values[number] = graph.add("placeholder", name, name, example=example)

    def put(value):
        if type(value) is Ref:
            return values[value.number]
        if type(value) in (tuple, list):
            return type(value)(put(each) for each in value)
        if type(value) is dict:
            return {key: put(each) for key, each in value.items()}
        if type(value) is Slice:
            return slice(*(put(each) for each in value.parts))
        return value

    for form, operation, target, args, names, number, example in calls:
        args = [put(each) for each in args]
        kwargs = {}
        if names:
            kwargs = dict(zip(names, args[len(args) - len(names):]))
            del args[len(args) - len(names):]
        op = "call_function"
        if form == "binary":
            target = getattr(operator, _BINARY[operation])
        elif form == "compare":
            target = getattr(operator, _COMPARE[operation])
        elif form == "unary":
            target = getattr(operator, _UNARY[operation])
        elif form in ("getitem", "setitem"):
            target = getattr(operator, form)
        elif form == "attribute":
            target, args = getattr, [*args, target]
        elif form == "leaf":
            path, target = target, leaf
            args = [*args, path]
            if len(path) == 1 and type(path[0]) is not Part:
                target, args = operator.getitem, [args[0], path[0]]
        elif form == "method":
            op = "call_method"
        name = target if isinstance(target, str) else getattr(target, "__name__", "call")
        node = graph.add(op, name, target, args=args, kwargs=kwargs, example=example)
        if number >= 0:
            values[number] = node
    graph.add("output", "output", "output", args=(tuple(values[number] for number in outputs),))
    return GraphModule(graph), [values[number] for number in outputs]


class _Caller:
    """What a segment runs where a backend answered code of its own: calls it and looks at what comes."""

    def __init__(self, compiled, examples, dynamic, backend):
        self.compiled, self.examples, self.dynamic, self.backend = compiled, examples, dynamic, backend

    def __call__(self, *inputs):
        answer = self.compiled(*inputs)
        if not isinstance(answer, (tuple, list)) or len(answer) != len(self.examples):
            raise RuntimeError(f"what backend {self.backend!r} made has to answer a tuple or list of {len(self.examples)}, not "
                               f"{answer!r}")
        return tuple(map(self._fits, answer, self.examples))

    def _fits(self, part, example):
        if type(part) is not type(example):
            raise RuntimeError(f"what backend {self.backend!r} made answers {part!r} where the graph has a {type(example).__name__}")
        if type(example) is int and not -1 << 63 <= part < 1 << 63:
            raise RuntimeError(f"what backend {self.backend!r} made answers {part!r} where the graph has an int of 64 bits")
        if type(example) is not _kt.Tensor:
            return part
        if (wanted := _kt._runtime._gradients(example)) != _kt._runtime._gradients(part):
            part = _kt._runtime._set_gradients(part.detach(), wanted)  # modes that the graph does not show
        if _driver.same_layout(part, example, self.dynamic):
            return part
        if part.dtype == example.dtype and tuple(part.shape) == tuple(example.shape):
            like = part.contiguous()
            if _driver.same_layout(like, example, False):
                return like
        raise RuntimeError(f"what backend {self.backend!r} made answers a tensor of {part.dtype} and sizes {tuple(part.shape)} where "
                           f"the graph has {example.dtype} and {tuple(example.shape)}")


def _contents(nodes):
    """What makes a graph; the same objects as long as nobody edits it."""
    return [part for node in nodes for part in (node, node.op, node.target, node.args, node.kwargs)]


def compile_graph(backend, inputs, calls, outputs, dynamic, fullgraph):
    """None: the backend answers the graph's own code. Else what is called in its place. False: it failed under suppress_errors."""
    from ._dynamo import backends, config, exc
    module, wanted = build(inputs, calls, outputs)
    nodes = [*module.graph.nodes]
    examples = [node.meta["example_value"] for node in wanted]
    before = _contents(nodes)
    try:
        compiled = backend(module, [example for _, _, example in inputs])
        if not callable(compiled):
            raise TypeError(f"a backend has to answer a callable, not {compiled!r}")
        is_own = (compiled is module or compiled is module._forward or
                  type(compiled) is types.MethodType and compiled.__self__ is module and compiled.__func__ is GraphModule.__call__)
    except Exception as error:
        if config.suppress_errors and not fullgraph:
            import logging
            logging.getLogger("kintsugi").warning("backend %r raised %s: %s; this part runs plain", backends.name_of(backend),
                                                  type(error).__name__, error)
            return False
        raise exc.BackendCompilerFailed(backends.name_of(backend), error) from error
    finally:  # the graph may live on; the arguments of this call need not
        given = {id(example) for _, _, example in inputs}
        for node in nodes:
            if type(node.meta) is dict and id(node.meta.get("example_value")) in given and node not in wanted:
                node.meta = {**node.meta, "example_value": None}
    if is_own and list(map(id, _contents(module.graph.nodes))) == list(map(id, before)):
        return None
    return _Caller(compiled, examples, bool(dynamic), backends.name_of(backend))
