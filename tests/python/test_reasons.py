"""Each row of runtime/breaks.def is provoked by a program: under fullgraph the error says it, or a counter does."""
import copy
import logging
import pathlib
import sys
import threading

import pytest

import kintsugi as kt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import make_breaks  # noqa: E402

dynamo = kt._dynamo
ROWS = {name: (kind, explanation) for name, kind, explanation, _ in make_breaks.rows()}
x2 = kt.ones(2)
lock = threading.Lock()
log = logging.getLogger("reasons")


class Plain:
    pass


class Bad:
    def __init__(self):
        return 1


off = kt.compiler.disable(lambda x: x)
off_frame = kt.compiler.disable(lambda x: x, recursive=False)
disallowed = kt.compiler.allow_in_graph(lambda x: x + 1)
dynamo.disallow_in_graph(disallowed)
gives_text = kt.compiler.allow_in_graph(lambda x: "text")
takes_any = kt.compiler.allow_in_graph(lambda x, y: x + 1)
fails = kt.compiler.allow_in_graph(lambda x: {}["k"])
wants = kt.compiler.nonstrict_trace(lambda o: x2)
gives = kt.compiler.nonstrict_trace(lambda x: Plain())
note = lambda *a, **k: None  # noqa: E731
plain = Plain()


class Tagged:
    def __init__(self, tag):
        self.tag = tag


class Held:
    def __eq__(self, other):
        return isinstance(other, Held)

    def __hash__(self):
        return 1


def register_once():
    from kintsugi.utils import _pytree
    if Tagged not in _pytree.SUPPORTED_NODES:
        _pytree.register_pytree_node(Tagged, lambda t: ([], t.tag), lambda parts, tag: Tagged(tag))
        _pytree.register_constant(Held)


@kt.library.custom_op("reasons::some", mutates_args=())
def some(x: kt.Tensor) -> kt.Tensor:
    return x[:1] + 1


@some.register_fake
def _(x):
    return kt.empty(kt.library.get_ctx().new_dynamic_size())


def outside():
    yield 1


def unpacks(x):
    a, b = lock
    return a


def local(x):
    def inner(x):
        return x
    return kt.compiler.nonstrict_trace(inner)(x)


def unbound(x):
    if x is None:
        y = 1
    return y


def imports(x):
    import no_such_module_anywhere
    return no_such_module_anywhere


def deletes_a_global(x):
    global x2
    del x2


def stores_at(x):
    x[x.sum().long()] = 1
    return x


def stores_data(x):
    x.data = x


def stores_flag(x):
    x.requires_grad = True


def stores_name(x):
    x.name = 1


def with_lock(x):
    with lock:
        return x


def class_statement(x):
    class Kind:
        line = sys._getframe().f_lineno
    return Kind


class Truth:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return bool(self.x.sum() > 0)


def steps(x):
    dynamo.step_unsupported()
    return x


PROGRAMS = {
    "graph_break": lambda x: dynamo.graph_break(),
    "skip_frame": lambda x: dynamo.skip_frame(),
    "step_strict": steps,
    "disabled": lambda x: off(x),
    "disabled_frame": lambda x: off_frame(x),
    "disable_called": lambda x: kt.compiler.disable(note),
    "disallowed": lambda x: disallowed(x),
    "marks_called": lambda x: kt.compiler.allow_in_graph(note),
    "not_reorderable": lambda x: note(tag=1),
    "graph_arguments": lambda x: takes_any(x, plain),
    "graph_result": lambda x: gives_text(x),
    "opaque_fails": lambda x: fails(x),
    "nonstrict_local": local,
    "nonstrict_input": lambda x: wants(plain),
    "nonstrict_context": lambda x: wants(Tagged(plain)),
    "constant_made_inside": lambda x: wants(Held()),
    "nonstrict_output": lambda x: gives(x),
    "opaque": lambda x: dynamo.testing.opaque(x),
    "data_branch": lambda x: 1 if x.sum() > 0 else 2,
    "unruled_shape": lambda x: x[x > 0],
    "object_branch": lambda x: 1 if Truth(x) else 2,
    "logger": lambda x: log.info("text"),
    "deepcopy": lambda x: copy.deepcopy([x]),
    "deepcopy_tensor": lambda x: copy.deepcopy(x),
    "class_statement": class_statement,
    "context_manager": with_lock,
    "variadic": lambda x: max(*lock),
    "tolist": lambda x: x.tolist(),
    "backward": lambda x: x.sum().backward(),
    "tensor_data": stores_data,
    "tensor_attribute": stores_name,
    "set_requires_grad": stores_flag,
    "sort_keys": lambda x: sorted([1, 0], key=lambda n: x[n]),
    "compare_tensors": lambda x: [x] == [x + 1],
    "item": lambda x: x.item(),
    "index_by_tensor": stores_at,
    "repr_tensor": lambda x: str(x),
    "builtin": lambda x: open("no such file"),
    "instruction": deletes_a_global,
    "call": lambda x: lock(),
    "call_binding": lambda x: unbound(x, x),
    "method": lambda x: x.data_ptr(),
    "attribute": lambda x: x.no_such_attribute,
    "raises": lambda x: {}["k"],
    "iteration": unpacks,
    "tensor_call": lambda x: kt.sin(x, x),
    "requires_grad": lambda x: kt.ones(2, requires_grad=True),
    "unbound": unbound,
    "import_name": imports,
}
# Rows that are shown in another way.
ELSEWHERE = {
    "step_unsupported": "test_control.py, without fullgraph", "step_empty": "test_control.py", "generator": "refused before tracing",
    "not_inlined": "recursion goes on in frames of its own", "everywhere": "the stress switch", "trace_limit": "goes on in a new segment",
    "recompile_limit": "a fallback", "internal": "nothing should", "container": "below", "dynamic_shape": "below, without fullgraph",
}


def test_every_row_has_a_program():
    assert set(PROGRAMS) | set(ELSEWHERE) == set(ROWS)
    assert len(ROWS) == (pathlib.Path(make_breaks.ROOT) / "runtime" / "breaks.def").read_text().count("\nKN_BREAK(")


@pytest.mark.parametrize("name", PROGRAMS)
def test_row(name):
    dynamo.reset()
    register_once()
    kind, explanation = ROWS[name]
    reorderable = dynamo.config.reorderable_logging_functions
    reorderable.add(note)
    with pytest.raises(dynamo.exc.Unsupported) as told:
        kt.compile(PROGRAMS[name], fullgraph=True)(kt.ones(2))
    reorderable.discard(note)
    text = str(told.value)
    assert text.splitlines()[0] == kind and explanation in text, text
    assert "from user code:" in text and f'File "{__file__}"' in text


def test_generators_are_no_roots():
    with pytest.raises(dynamo.exc.Unsupported, match="Attempt to trace generator"):
        kt.compile(outside, fullgraph=True)()


def test_sizes_that_depend_on_data(stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    with dynamo.error_on_graph_break(True), pytest.raises(dynamo.exc.Unsupported, match="Dynamic shape operator"):
        kt.compile(lambda x: some(x) + 1)(kt.ones(2))
    assert kt.compile(lambda x: some(x) + 1)(kt.ones(2)).tolist() == [3.0]
