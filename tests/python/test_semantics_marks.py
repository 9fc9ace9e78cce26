"""Sections 8, 10 to 13 of the behaviour: marks of callables, opaque functions, is_compiling by place, stances."""
import pytest

import kintsugi as kt
from kintsugi._runtime import _driver
from semantics_rows import rows

dynamo, compiler, exc = kt._dynamo, kt.compiler, kt._dynamo.exc

pytestmark = pytest.mark.usefixtures("switches")


# ---- Section 8 -----------------------------------------------------------------------------------------------------


def marked_allow(cnt):
    body = compiler.allow_in_graph(lambda x: (print("run"), x * 2)[1])
    assert dynamo.allow_in_graph is compiler.allow_in_graph
    fast = kt.compile(lambda x: body(x) + 1, backend=cnt, fullgraph=True)
    assert fast(kt.ones(1)).tolist() == [3.0] and body(kt.ones(1)).tolist() == [2.0]
    assert cnt.op_count == 2  # the call, and the addition
    dynamo.disallow_in_graph(body)  # the way back
    dynamo.reset()
    with pytest.raises(exc.Unsupported):
        fast(kt.ones(1))


def marked_disallow(cnt):
    pair = [kt.cos, kt.sin]
    assert dynamo.disallow_in_graph(pair) == pair and dynamo.disallow_in_graph(tuple(pair)) == pair
    f = lambda x: kt.cos(x + 1)  # noqa: E731
    try:
        fast = kt.compile(f, backend=cnt)
        assert [fast(kt.ones(1)).tolist() for _ in range(2)] == [f(kt.ones(1)).tolist()] * 2
        assert cnt.frame_count == 1 and cnt.op_count == 1
        with pytest.raises(exc.Unsupported, match="disallow_in_graph"):
            kt.compile(f, fullgraph=True)(kt.ones(1))
    finally:
        compiler.allow_in_graph(pair)
    dynamo.reset()
    kt.compile(f, fullgraph=True)(kt.ones(1))


def marked_forbid(cnt):
    never = dynamo.forbid_in_graph(lambda x: x + 1)
    assert never(kt.ones(1)).tolist() == [2.0]
    for full in (False, True):
        with pytest.raises(AssertionError, match="(?s)Attempt to trace forbidden callable.*from user code"):
            kt.compile(lambda x: never(x), fullgraph=full)(kt.ones(1))
    with pytest.raises(AttributeError):
        dynamo.forbid_in_graph(len)


MARKS = {"allow_in_graph": marked_allow, "disallow_in_graph": marked_disallow, "forbid_in_graph": marked_forbid}


@rows("8 marks", MARKS)
def test_mark(row, stress):
    if stress == "miss_every_guard":
        pytest.skip("compiles again")
    for mark in (compiler.allow_in_graph, dynamo.disallow_in_graph, dynamo.forbid_in_graph):
        with pytest.raises(AssertionError):
            mark("text")
    MARKS[row](dynamo.testing.CompileCounter())


# ---- Section 12 ----------------------------------------------------------------------------------------------------


def ask(x=None):
    return compiler.is_compiling(), compiler.is_dynamo_compiling(), compiler.is_exporting()


def asking(x):
    return ask(), x + 1


def place_skipped():
    @kt.compile
    def f(x):
        dynamo.skip_frame()
        return compiler.is_compiling(), compiler.is_dynamo_compiling(), compiler.is_exporting()
    return f(kt.ones(1))


off = compiler.disable(ask)
said = []


@kt.library.custom_op("semantics::asks", mutates_args=())
def op_asks(x: kt.Tensor) -> kt.Tensor:
    said.append(ask())
    return x + 1


op_asks.register_fake(lambda x: x.clone())


def place_stance():
    with compiler.set_stance("eager_on_recompile"):
        return kt.compile(asking)(kt.ones(1))[0]


def place_force():
    with compiler.set_stance("force_eager"):
        return kt.compile(asking, fullgraph=True)(kt.ones(1))[0]


def place_operator():
    said.clear()
    kt.compile(lambda x: op_asks(x), fullgraph=True)(kt.ones(1))
    return said[-1]


def place_between():
    between = []
    kt.compile(lambda x: (x + 1, between.append(_driver.is_compiling.__call__()), compiler.disable, off(x), x + 2))(kt.ones(1))
    return off(kt.ones(1))


def place_backend():
    found = []
    kt.compile(lambda x: x + 1, backend=lambda graph, inputs: found.append(ask()) or graph.forward)(kt.ones(1))
    return found[0]


NEVER = (False, False, False)
PLACES = {
    "plain eager": (ask, NEVER),
    "traced code": (lambda: kt.compile(asking)(kt.ones(1))[0], (True, True, False)),
    "skipped frame": (place_skipped, NEVER),
    "disabled function": (lambda: kt.compile(lambda x: off(x))(kt.ones(1)), NEVER),
    "code between two graphs": (place_between, NEVER),
    "frame under force_eager": (place_force, NEVER),
    "frame run eagerly by another stance": (place_stance, NEVER),
    "custom operator body at run time": (place_operator, NEVER),
    "the backend callable while it compiles": (place_backend, (True, False, False)),
    "export": (lambda: kt.export.export(asking, (kt.ones(1),)).module()(kt.ones(1))[0], (True, True, True)),
}


@rows("12 is_compiling", PLACES)
def test_is_compiling(row):
    run, wanted = PLACES[row]
    assert run() == wanted
    assert dynamo.is_compiling is compiler.is_compiling


# ---- Section 13 ----------------------------------------------------------------------------------------------------


def compiled_under(stance, sizes):
    """Whether each call ran compiled code, first without the stance for size 2."""
    fast = kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0], dynamic=False)
    fast(kt.ones(2))
    out = []
    with compiler.set_stance(stance):
        for n in sizes:
            try:
                out.append(fast(kt.ones(n)))
            except RuntimeError as error:
                assert "fail_on_recompile" in str(error)
                out.append("error")
    return out


STANCES = {  # what fits, what does not, twice
    "default": [True, True, True],
    "force_eager": [False, False, False],
    "eager_on_recompile": [True, False, False],
    "fail_on_recompile": [True, "error", "error"],
    "eager_then_compile": [True, True, True],  # the code object was offered before
    "aot_eager_then_compile": [True, True, True],
}


@rows("13.1 stances", STANCES)
def test_stance(row, stress):
    if stress == "miss_every_guard":
        pytest.skip("nothing fits")
    assert compiled_under(row, (2, 3, 3)) == STANCES[row]
    assert compiled_under(row, (2,))[0] == STANCES[row][0]


@pytest.mark.parametrize("stance, wanted", [("eager_then_compile", [False, True, True]), ("aot_eager_then_compile", [True] * 3)])
def test_first_calls(stance, wanted):
    fast = kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0])
    with compiler.set_stance(stance):
        assert [fast(kt.ones(2)) for _ in range(3)] == wanted


def test_force_backend(stress):
    cnt, other = dynamo.testing.CompileCounter(), dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x: x + 1, backend=other)
    with compiler.set_stance(force_backend=cnt):
        fast(kt.ones(2))
    fast(kt.ones(2))
    if not stress:
        assert (cnt.frame_count, other.frame_count) == (1, 1)
    with pytest.raises(RuntimeError, match="force_backend"):
        compiler.set_stance("force_eager", force_backend=cnt)
    with compiler.set_stance("default", skip_guard_eval_unsafe=True):
        assert fast(kt.ones(2)).tolist() == [2.0, 2.0]


def test_the_object_sets_the_stance_when_made():
    fast = kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0])
    made = compiler.set_stance("force_eager")
    assert fast(kt.ones(1)) is False
    with made:
        assert fast(kt.ones(1)) is False
    assert fast(kt.ones(1)) is True
