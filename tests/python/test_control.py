"""What governs compilation: error_on_graph_break, breaks on demand, disable, marks of callables, is_compiling. Each test is named
after what it is about; rows of one kind are a table."""
import gc
import threading
import weakref

import pytest

import kintsugi as kt
from kintsugi._runtime import _driver

dynamo, compiler = kt._dynamo, kt.compiler
Unsupported = dynamo.exc.Unsupported

pytestmark = pytest.mark.usefixtures("switches")


@pytest.fixture
def cnt():
    return dynamo.testing.CompileCounter()


def breaker(x):
    x = x + 1
    dynamo.graph_break()
    return x + 2


@dynamo.error_on_graph_break(False)
def relaxed(x):
    return breaker(x)


@dynamo.error_on_graph_break(True)
def strict(x):
    return breaker(x)


def refuses(function, *args, says=""):
    with pytest.raises(Unsupported) as told:
        function(*args)
    assert says in str(told.value)
    return str(told.value)


# ---- error_on_graph_break ------------------------------------------------------------------------------------------


def test_flag_off_by_default(stress):
    assert kt.compile(breaker)(kt.ones(2)).tolist() == [4.0, 4.0]


def test_flag_on_refuses():
    refuses(kt.compile(strict), kt.ones(2), says="graph_break()")


def test_flag_both_orders_of_decorators():
    x = kt.ones(2)
    refuses(dynamo.error_on_graph_break(True)(kt.compile(breaker)), x)
    refuses(kt.compile(dynamo.error_on_graph_break(True)(breaker)), x)


def test_flag_is_put_back_after_an_exception():
    def fails(x):
        with dynamo.error_on_graph_break(True):
            raise KeyError("gone")

    for function in (fails, kt.compile(fails)):
        with pytest.raises((KeyError, Unsupported)):
            function(kt.ones(1))
        assert _driver.set_error_on_graph_break(False) is False


def test_flag_is_seen_by_plain_code_inside_the_block():
    seen = []

    @compiler.disable
    def look():
        value = _driver.set_error_on_graph_break(False)
        _driver.set_error_on_graph_break(value)
        seen.append(value)

    def f(x):
        look()
        with dynamo.error_on_graph_break(False):
            look()
            x = x + 1
        look()
        return x

    wanted = f(kt.ones(1)).tolist()
    assert seen == [False, False, False]
    assert kt.compile(f)(kt.ones(1)).tolist() == wanted
    assert seen == [False] * 6
    seen.clear()
    _driver.set_error_on_graph_break(True)
    f(kt.ones(1))
    plain = seen.copy()
    seen.clear()
    kt.compile(relax_around(f))(kt.ones(1))
    assert seen == [False] * 3 and plain == [True, False, True]


def relax_around(f):
    return dynamo.error_on_graph_break(False)(f)


def test_flag_object_is_reused_and_nested():
    relax, tighten = dynamo.error_on_graph_break(False), dynamo.error_on_graph_break(True)

    def f(x):
        with tighten:
            with relax:
                with relax:
                    dynamo.graph_break()
                x = x + 1
                dynamo.graph_break()
        return x * 2

    fast = kt.compile(f)
    for _ in range(3):
        assert fast(kt.ones(1)).tolist() == [4.0]
    assert relax._before == tighten._before == []


def test_flag_leaf_decides():
    def chain(x):
        return relaxed(x) * 2

    assert kt.compile(dynamo.error_on_graph_break(True)(chain))(kt.ones(1)).tolist() == [8.0]
    refuses(kt.compile(lambda x: strict(x) * 2), kt.ones(1))


def test_flag_covers_exceptions_that_leave():
    @kt.compile
    def f(x):
        with dynamo.error_on_graph_break(True):
            raise KeyError("gone")

    refuses(f, kt.ones(1))


def test_flag_commits_nothing():
    done = []

    @kt.compile
    def f(x):
        with dynamo.error_on_graph_break(True):
            done.append(1)
            dynamo.graph_break()
        return x

    for _ in range(2):
        refuses(f, kt.ones(1))
    assert done == []


def test_flag_is_read_while_compiling_only(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(breaker)
    fast(kt.ones(2))
    with dynamo.error_on_graph_break(True):
        assert fast(kt.ones(2)).tolist() == [4.0, 4.0]
        refuses(fast, kt.ones(2, dtype=kt.float64))


def test_flag_is_of_the_process():
    seen = []
    with dynamo.error_on_graph_break(True):
        thread = threading.Thread(target=lambda: seen.append(_driver.set_error_on_graph_break(True)))
        thread.start()
        thread.join()
    assert seen == [True]


# ---- skip_frame, step_unsupported ----------------------------------------------------------------------------------


def test_skip_frame_runs_the_frame_plain(cnt):
    seen = []

    def callee(x):
        return x * 2 if compiler.is_compiling() else x - 1

    @kt.compile(backend=cnt)
    def f(x):
        seen.append("before")
        x = x + 1
        dynamo.skip_frame("not here")
        seen.append(compiler.is_compiling())
        return callee(x)

    for _ in range(2):
        assert f(kt.ones(2)).tolist() == [4.0, 4.0]
    assert seen == ["before", False] * 2


def test_skip_frame_in_a_callee_skips_the_callee():
    def callee(x):
        dynamo.skip_frame()
        return (x, compiler.is_compiling())

    @kt.compile
    def f(x):
        y, inside = callee(x + 1)
        return y * 2, inside, compiler.is_compiling()

    for _ in range(2):
        y, inside, outside = f(kt.ones(1))
        assert (y.tolist(), inside, outside) == ([4.0], False, True)


def test_skip_frame_after_a_break_skips_the_rest():
    @kt.compile
    def f(x):
        first = compiler.is_compiling()
        dynamo.graph_break()
        dynamo.skip_frame()
        return first, compiler.is_compiling(), x + 1

    assert f(kt.ones(1))[:2] == (True, False)


def test_skipped_frames_are_traced_again_after_reset():
    on = [True]

    @kt.compile
    def f(x):
        if on[0]:
            dynamo.skip_frame()
        return compiler.is_compiling(), x + 1

    assert f(kt.ones(1))[0] is False
    on[0] = False
    dynamo.reset()
    assert f(kt.ones(1))[0] is True


@pytest.mark.parametrize("call", [dynamo.skip_frame, dynamo.step_unsupported], ids=["skip_frame", "step_unsupported"])
@pytest.mark.parametrize("how", ["fullgraph", "strict"])
def test_frame_controls_are_errors_where_breaks_are(call, how):
    def f(x):
        x = x + 1
        call()
        return x

    fast = kt.compile(f, fullgraph=True) if how == "fullgraph" else dynamo.error_on_graph_break(True)(kt.compile(f))
    refuses(fast, kt.ones(1), says=call.__name__)


def test_step_unsupported_keeps_what_came_before(cnt):
    seen = []

    @kt.compile(backend=cnt)
    def f(x):
        x = x + 1
        seen.append(compiler.is_compiling())
        dynamo.step_unsupported()
        seen.append(compiler.is_compiling())
        return x * 2

    for _ in range(2):
        assert f(kt.ones(1)).tolist() == [4.0]
    assert seen == [True, False] * 2


def test_frame_controls_do_nothing_in_plain_code():
    assert [dynamo.graph_break(), dynamo.skip_frame(msg="x"), dynamo.step_unsupported("x")] == [None] * 3


# ---- disable -------------------------------------------------------------------------------------------------------


def asks(x):
    return compiler.is_compiling(), x


def test_disable_forms():
    for off in (compiler.disable(asks), compiler.disable()(asks), compiler.disable(recursive=False)(asks),
                compiler.disable(asks, recursive=False), dynamo.disable(asks, reason="because")):
        assert kt.compile(lambda x: off(x + 1)[0])(kt.ones(1)) is False


def test_disable_recursive_reaches_callees():
    deep, shallow = compiler.disable(lambda x: asks(x)), compiler.disable(lambda x: asks(x), recursive=False)
    assert kt.compile(lambda x: deep(x)[0])(kt.ones(1)) is False
    assert kt.compile(lambda x: shallow(x)[0])(kt.ones(1)) is True


def test_disable_leaves_the_original_alone():
    compiler.disable(asks, recursive=False)
    assert kt.compile(lambda x: asks(x)[0])(kt.ones(1)) is True


def test_disable_a_class_and_methods():
    @compiler.disable
    class Box:
        def __init__(self):
            self.made = compiler.is_compiling()

        def __call__(self):
            return compiler.is_compiling()

        def other(self):
            return compiler.is_compiling()

    box = Box()
    assert kt.compile(lambda x: (Box().made, box(), box.other(), x + 1)[:3])(kt.ones(1)) == (False, False, True)
    box.other = compiler.disable(box.other)
    assert kt.compile(lambda x: (box.other(), x + 1)[0])(kt.ones(1)) is False


def test_disable_once_is_enough():
    off = compiler.disable(compiler.disable(asks))
    assert off.__wrapped__ is asks
    assert dynamo.is_dynamo_disable_recursive(off) is True
    assert dynamo.is_dynamo_disable_recursive(compiler.disable(asks, recursive=False)) is False
    assert dynamo.is_dynamo_disable_recursive(asks) is None


def test_disable_tells_why():
    text = refuses(kt.compile(lambda x: compiler_off(x), fullgraph=True), kt.ones(1), says="it talks to a sensor")
    assert "Skip calling `kt.compiler.disable()`d function" in text
    refuses(kt.compile(lambda x: shallow_off(x), fullgraph=True), kt.ones(1), says="reason: None")


compiler_off = compiler.disable(asks, reason="it talks to a sensor")
shallow_off = compiler.disable(asks, recursive=False)


def test_disable_called_in_a_region():
    refuses(kt.compile(lambda x: compiler.disable(asks)(x), fullgraph=True), kt.ones(1), says="inside a compiled region")


def test_compile_inside_disable_compiles():
    inner = kt.compile(asks)
    off = compiler.disable(lambda x: inner(x)[0])
    assert kt.compile(lambda x: off(x))(kt.ones(1)) is True


def test_newest_wrapper_decides():
    assert kt.compile(compiler.disable(asks))(1)[0] is True
    assert compiler.disable(kt.compile(asks))(1)[0] is False


# ---- Marks ---------------------------------------------------------------------------------------------------------


def test_allow_in_graph_is_one_node(cnt):
    calls = []

    def body(x, k):
        dynamo.graph_break()
        calls.append(compiler.is_compiling())
        return x * k, [x + 1, None]

    compiler.allow_in_graph(body)

    @kt.compile(backend=cnt, fullgraph=True)
    def f(x):
        a, (b, nothing) = body(x + 1, 3)
        return a + b, nothing

    for _ in range(3):
        y, nothing = f(kt.ones(2))
        assert (y.tolist(), nothing) == ([9.0, 9.0], None)
    assert calls[-1] is False


@pytest.mark.parametrize("result", [1, True, "text", {"a": 1}, object()])
def test_allow_in_graph_refuses_other_results(result):
    body = compiler.allow_in_graph(lambda x: result)
    text = refuses(kt.compile(lambda x: (body(x), x + 1)[1], fullgraph=True), kt.ones(1))
    assert "op returned non-Tensor" in text.splitlines()[0]


def test_allow_in_graph_refuses_arguments_without_a_form():
    body = compiler.allow_in_graph(lambda x, thing: x)
    thing = object()
    text = refuses(kt.compile(lambda x: body(x, thing), fullgraph=True), kt.ones(1))
    assert "Failed to convert args/kwargs to proxy" in text.splitlines()[0]


def test_allow_in_graph_floats_come_out():
    body = compiler.allow_in_graph(lambda x: float(x.sum().item()))
    fast = kt.compile(lambda x: x * body(x), fullgraph=True)
    assert [fast(kt.ones(3)).tolist(), fast(kt.ones(3) * 2).tolist()] == [[3.0] * 3, [12.0] * 3]


def test_allow_in_graph_must_answer_alike():
    body = compiler.allow_in_graph(lambda x: x if x.sum().item() > 0 else x.reshape(1, 3))
    fast = kt.compile(lambda x: body(x) * 2, fullgraph=True)
    assert fast(kt.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="must always answer alike"):
        fast(kt.ones(3) * -1)


def test_marks_are_by_identity():
    def make():
        def body(x):
            return x, compiler.is_compiling()
        return body

    one, other = make(), make()
    compiler.disable(one)
    dynamo.forbid_in_graph(one)

    def f(x, body):
        return body(x + 1)[1]

    fast = kt.compile(f)
    assert fast(kt.ones(1), other) is True
    with pytest.raises(AssertionError, match="forbidden callable"):
        fast(kt.ones(1), one)
    assert fast(kt.ones(1), other) is True


def test_marks_die_with_their_object():
    def make():
        return lambda x: x + 1

    function = dynamo.forbid_in_graph(make())
    address, dead = id(function), weakref.ref(function)
    del function
    gc.collect()
    assert dead() is None
    for _ in range(100):
        again = make()
        assert _driver.marks(again) == set()
        if id(again) == address:
            break


def test_disallow_and_allow():
    def plain(x):
        return x, compiler.is_compiling()

    with pytest.raises(RuntimeError, match="allowed callable"):
        dynamo.disallow_in_graph(plain)
    compiler.allow_in_graph(plain)
    dynamo.disallow_in_graph(plain)
    refuses(kt.compile(lambda x: plain(x), fullgraph=True), kt.ones(1), says="disallow_in_graph")
    dynamo.disallow_in_graph([kt.sub])
    try:
        refuses(kt.compile(lambda x: kt.sub(x, 1), fullgraph=True), kt.ones(1), says="disallow_in_graph")
    finally:
        compiler.allow_in_graph(kt.sub)
    dynamo.reset()
    assert kt.compile(lambda x: kt.sub(x, 1), fullgraph=True)(kt.ones(1)).tolist() == [0.0]


def test_forbid_takes_what_takes_attributes():
    with pytest.raises(AttributeError):
        dynamo.forbid_in_graph(len)
    with pytest.raises(AssertionError):
        dynamo.forbid_in_graph("text")


def test_forbidden_wins():
    def never(x):
        return x + 1

    compiler.allow_in_graph(never)
    dynamo.forbid_in_graph(never)
    for call in (never, compiler.disable(never)):
        with pytest.raises(AssertionError, match="forbidden callable"):
            with dynamo.error_on_graph_break(False):
                kt.compile(lambda x: call(x))(kt.ones(1))
    with dynamo.config.patch(suppress_errors=True):
        assert kt.compile(lambda x: never(x))(kt.ones(1)).tolist() == [2.0]
    assert kt.compile(never)(kt.ones(1)).tolist() == [2.0]  # as a root it is traced


def test_nonstrict_trace_takes_and_gives_containers():
    @compiler.nonstrict_trace
    def body(parts, *, k, name=None):
        assert name == "n"
        return {"sum": parts[0] + parts[1]["b"] * k, "name": name, "n": 3}

    def f(x):
        out = body([x, {"b": x + 1}], k=2, name="n")
        return out["sum"], out["name"], out["n"] + 1

    fast = kt.compile(f, fullgraph=True)
    for _ in range(2):
        got = fast(kt.ones(2))
        assert (got[0].tolist(), got[1:]) == ([5.0, 5.0], ("n", 4))


def test_nonstrict_trace_guards_numbers():
    @compiler.nonstrict_trace
    def body(x, k):
        return x * k

    fast = kt.compile(lambda x, k: body(x, k), fullgraph=True)
    assert [fast(kt.ones(1), k).tolist() for k in (2, 3, 2, 4)] == [[2.0], [3.0], [2.0], [4.0]]
    with pytest.raises(AssertionError):
        compiler.nonstrict_trace(3)


def test_assume_constant_result():
    calls = []

    @compiler.assume_constant_result
    def table(n):
        calls.append(n)
        return [1.0, 2.0, n]

    fast = kt.compile(lambda x: x * table(3)[2], fullgraph=True)
    before = [fast(kt.ones(1)).tolist() for _ in range(3)]
    assert before == [[3.0]] * 3


def test_assume_constant_result_is_not_called_again(stress):
    if stress:
        pytest.skip("compiles again")
    calls = []

    @compiler.assume_constant_result
    def scale():
        calls.append(1)
        return 2.5

    fast = kt.compile(lambda x: x * scale(), fullgraph=True)
    assert [fast(kt.ones(1)).tolist() for _ in range(3)] == [[2.5]] * 3 and calls == [1]


def test_substitute_in_graph():
    import _bisect

    with pytest.raises(TypeError, match="signature"):
        compiler.substitute_in_graph(_bisect.bisect_left)(lambda a: a)

    @compiler.substitute_in_graph(_bisect.bisect_left)
    def bisect_left(a, x, lo=0, hi=None, *, key=None):
        for i in range(len(a)):
            if a[i] >= x:
                return i
        return len(a)

    with pytest.raises(ValueError):
        compiler.substitute_in_graph(_bisect.bisect_left)(bisect_left)
    assert bisect_left([1, 2, 3], 2) == 1
    fast = kt.compile(lambda x: x + _bisect.bisect_left([1, 2, 3], 3), fullgraph=True)
    assert fast(kt.ones(1)).tolist() == [3.0]


# ---- is_compiling --------------------------------------------------------------------------------------------------


def test_is_compiling_keeps_frames_without_operations():
    fast = kt.compile(lambda n: (n, compiler.is_compiling(), compiler.is_dynamo_compiling(), compiler.is_exporting(),
                                 dynamo.is_compiling()))
    for n in range(12):
        assert fast(n) == (n, True, True, False, True)


def test_is_compiling_in_a_backend():
    seen = []

    def backend(graph, inputs):
        seen.append((compiler.is_compiling(), compiler.is_dynamo_compiling()))
        return graph.forward

    kt.compile(lambda x: x + 1, backend=backend)(kt.ones(1))
    assert seen == [(True, False)] and not compiler.is_compiling()


# ---- Settings of a region ------------------------------------------------------------------------------------------


def captures_in_a_region(x):
    with dynamo.patch_dynamo_config(capture_scalar_outputs=True, verbose=True):
        n = x.sum().item()
        y = x + n
    return y * 2


captures_throughout = dynamo.patch_dynamo_config("capture_scalar_outputs", True)(lambda x: x + x.sum().item())


def breaks_after_a_region(x):
    with dynamo.patch_dynamo_config({"capture_scalar_outputs": True}):
        x = x + 1
    return x + x.sum().item()


@pytest.mark.parametrize("program", [captures_in_a_region, captures_throughout])
def test_region_setting_holds_inside(program, cnt, stress):
    with dynamo.error_on_graph_break(True):
        fast = kt.compile(program, backend=cnt)
        for value in (1.0, 2.0):
            assert fast(kt.ones(2) * value).tolist() == program(kt.ones(2) * value).tolist()
    if not stress:
        assert cnt.frame_count == 1
    assert dynamo.config.capture_scalar_outputs is False and dynamo.config.verbose is False


def test_region_setting_ends_with_it():
    with dynamo.error_on_graph_break(True):
        refuses(kt.compile(breaks_after_a_region), kt.ones(1), says="capture_scalar_outputs")
    assert kt.compile(breaks_after_a_region)(kt.ones(1)).tolist() == [4.0]


def test_region_setting_is_seen_by_what_breaks():
    seen = []

    def f(x):
        with dynamo.patch_dynamo_config(capture_scalar_outputs=True):
            seen.append(off())
            x = x + x.sum().item()
        seen.append(off())
        return x

    off = compiler.disable(lambda: dynamo.config.capture_scalar_outputs)
    assert kt.compile(f)(kt.ones(1)).tolist() == [2.0] and seen == [True, False]


@pytest.mark.parametrize("wrong", [{"recompile_limit": 3}, {"capture_scalar_outputs": 1}, {"nonsense": True}])
def test_region_setting_refused(wrong):
    with pytest.raises(ValueError):
        dynamo.patch_dynamo_config(**wrong)


# ---- Errors of operations ------------------------------------------------------------------------------------------


def wrong_sizes(x):
    return kt.ones(2, 3) @ (x + 1)


def caught(x):
    try:
        return kt.ones(2, 3) @ x
    except RuntimeError as error:
        return x + 1, str(error)


def caught_index(x):
    try:
        return x[7]
    except IndexError as error:
        return x + 1, str(error), type(error.__context__)


def caught_elsewhere(x):
    try:
        return wrong_sizes(x)
    except (KeyError, RuntimeError) as error:
        return x * 2, str(error)


def within(x):
    with kt.no_grad(), kt.enable_grad():
        return kt.ones(2, 3) @ x


def within_and_caught(x):
    try:
        with kt.no_grad():
            return kt.ones(2, 3) @ x
    except RuntimeError as error:
        return x + 1, str(error), kt.is_grad_enabled()


INVALID = {
    "product": (lambda x: kt.ones(2, 3) @ x, RuntimeError), "sum": (lambda x: x + kt.ones(3), RuntimeError),
    "compare": (lambda x: x < kt.ones(3), RuntimeError), "view": (lambda x: x.view(3), RuntimeError),
    "index": (lambda x: x[7], IndexError), "in a manager": (within, RuntimeError), "reduce": (lambda x: x.sum(dim=4), IndexError), "callee": (wrong_sizes, RuntimeError),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_operation(name):
    function, kind = INVALID[name]
    x = kt.ones(2)
    with pytest.raises(kind) as plain:
        function(x)
    with pytest.raises(kind) as told:
        kt.compile(function)(x)
    assert type(told.value) is kind and str(told.value) == str(plain.value)
    for full in (True, False):
        dynamo.reset()
        with dynamo.error_on_graph_break(True), pytest.raises(dynamo.exc.TorchRuntimeError) as told:
            kt.compile(function, fullgraph=full)(x)
        text = str(told.value)
        assert str(plain.value) in text and "from user code:" in text and 'set_stance("force_eager")' in text


@pytest.mark.parametrize("program", [caught, caught_index, caught_elsewhere, within_and_caught])
def test_invalid_operation_is_caught_in_the_trace(program):
    x = kt.ones(2)
    for _ in range(2):
        shown = [part.tolist() if isinstance(part, kt.Tensor) else part for part in kt.compile(program, fullgraph=True)(x)]
        assert shown == [part.tolist() if isinstance(part, kt.Tensor) else part for part in program(x)]


def test_invalid_operation_of_changed_sizes():
    fast = kt.compile(lambda x: x + kt.ones(3), dynamic=True)
    assert fast(kt.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError):
        fast(kt.ones(2))
    assert fast(kt.ones(1)).tolist() == [2.0] * 3


# ---- Operators by name ---------------------------------------------------------------------------------------------


def test_ops_by_name():
    @kt.library.custom_op("control::twice", mutates_args=())
    def twice(x: kt.Tensor) -> kt.Tensor:
        return x * 2

    kt.library.register_fake("control::twice")(lambda x: kt.empty_like(x))
    kt.library.register_autograd("control::twice", lambda ctx, grad: grad, setup_context=lambda *a: None)
    assert kt.ops.control.twice is twice and twice.default is twice and twice.overloads() == ["default"]
    assert kt.compile(lambda x: kt.ops.control.twice.default(x), fullgraph=True)(kt.ones(1)).tolist() == [2.0]
    assert kt.compile(twice, fullgraph=True)(kt.ones(1)).tolist() == [2.0]
    dynamo.disallow_in_graph(kt.ops.control.twice)
    refuses(kt.compile(lambda x: twice(x) + 1, fullgraph=True), kt.ones(1))
    for wrong, kind in ((lambda: kt.ops.control.thrice, AttributeError), (lambda: kt.library.register_fake("no::such", len), ValueError),
                        (lambda: twice.register_autograd(3), TypeError), (kt.library.get_ctx, RuntimeError)):
        with pytest.raises(kind):
            wrong()


def test_nested_graph_breaks_switched_off():
    def f(x):
        with dynamo.disable_nested_graph_breaks():
            return breaker(x) * 2

    assert kt.compile(f)(kt.ones(1)).tolist() == [8.0]
    assert kt.compile(dynamo.disable_nested_graph_breaks(breaker))(kt.ones(1)).tolist() == [4.0]
    assert dynamo.config.nested_graph_breaks is True
