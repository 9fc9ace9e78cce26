"""Sections 23 to 25 and 27 of the behaviour: what explain and counters tell, classes of errors and what they name, settings, and
what became of the reference's quirks."""
import contextlib
import io

import pytest

import kintsugi as kt
from control_programs import asks, variants
from semantics_rows import ROWS, row, rows

dynamo, compiler, exc = kt._dynamo, kt.compiler, kt._dynamo.exc
config, counters = dynamo.config, dynamo.utils.counters
x1 = kt.ones(1)


@pytest.fixture(autouse=True)
def fresh(switches):
    counters.clear()


def breaker(x):
    y = x * 2 + 1
    dynamo.graph_break("between")
    return y - 3


def branches(x):
    return x + 1 if x.sum() > 0 else x - 1


# ---- Section 23 ----------------------------------------------------------------------------------------------------


EXPLAINED = {
    "graphs": lambda told: len(told.graphs) == 2,
    "graph_count": lambda told: told.graph_count == 2,
    "graph_break_count": lambda told: told.graph_break_count == 1,
    "break_reasons": lambda told: (told.break_reasons[0].reason.startswith("Call to `kt._dynamo.graph_break()`")
                                   and told.break_reasons[0].graph_break is True
                                   and told.break_reasons[0].user_stack[-1].name == "breaker"
                                   and "graph_break" in told.break_reasons[0].user_stack[-1].line),
    "op_count": lambda told: told.op_count == 3,
    "ops_per_graph": lambda told: [len(ops) for ops in told.ops_per_graph] == [2, 1],
    "out_guards": lambda told: len(told.out_guards) > 0,
    "compile_times": lambda told: isinstance(told.compile_times, str),
}


@rows("23.1 explain", EXPLAINED)
def test_explain(row):
    told = dynamo.explain(breaker)(kt.ones(3))
    assert EXPLAINED[row](told)
    for part in ("Graph Count", "Graph Break Count", "Op Count", "Break Reason 1", "User Stack", "Ops per Graph", "Out Guards",
                 "Compile Times"):
        assert part in str(told)


def test_explain_really_runs():
    done = []
    with pytest.warns(FutureWarning):
        dynamo.explain(lambda x: done.append(1) or x + 1, x1)
    assert done == [1]
    with pytest.raises(KeyError):
        dynamo.explain(lambda x: {}["k"])(x1)


COUNTED = {
    "frames": lambda: counters["frames"]["total"] == counters["frames"]["ok"] == 4,
    "graph_break": lambda: {text.split("\n")[0]: n for text, n in counters["graph_break"].items()} == {
        "Call to `kt._dynamo.graph_break()`": 1, "Data-dependent branching": 1},
    "unimplemented": lambda: [text.split("\n")[0] for text in counters["unimplemented"]] == ["Data-dependent branching"],
    "stats": lambda: counters["stats"]["calls_captured"] == 6 and counters["stats"]["unique_graphs"] == 4,
    "resumes": lambda: sum(counters["resumes"].values()) == 2 and any("breaker" in name for name in counters["resumes"]),
}


@rows("23.3 counters", COUNTED)
def test_counters(row, stress):
    if stress in ("miss_every_guard", "tiny_code_memory"):
        pytest.skip("compiles again")
    kt.compile(breaker)(x1)
    kt.compile(branches)(x1)
    assert COUNTED[row](), dict(counters[row])
    dynamo.reset()
    assert COUNTED[row]()
    counters.clear()
    assert not any(counters[row].values())


# ---- Section 24 ----------------------------------------------------------------------------------------------------


def fullgraph(function):
    return kt.compile(function, fullgraph=True)


def bad_backend(graph, inputs):
    raise ValueError("no thanks")


never = dynamo.forbid_in_graph(lambda x: x)


@kt.library.custom_op("semantics::no_rule", mutates_args=())
def no_rule(x: kt.Tensor) -> kt.Tensor:
    return x + 1


def export_by_data(x):
    return x + 1 if x.sum().item() > 0 else x


def second_variant(**settings):
    fast = kt.compile(lambda x: x + 1, dynamic=False)
    fast(x1)
    with config.patch(settings):
        fast(kt.ones(2))


def over_the_limit():
    second_variant(recompile_limit=1, fail_on_recompile_limit_hit=True)


def under_fail():
    with compiler.set_stance("fail_on_recompile"):
        kt.compile(lambda x: x + 1)(x1)


CONSTRAINED = lambda: kt.export.export(lambda x: x + 1 if x.shape[0] > 2 else x, (kt.ones(3),), dynamic_shapes=({0: "n"},))  # noqa: E731
ERRORS = {  # base; what raises it; what the text names
    "TorchDynamoException": (RuntimeError, lambda: fullgraph(breaker)(x1), ["graph_break"]),
    "Unsupported": (exc.TorchDynamoException, lambda: fullgraph(breaker)(x1),
                    ["Call to `kt._dynamo.graph_break()`", "Explanation:", "Hint:", "Developer debug context: between", "from user code:",
                     "test_semantics_errors.py", "in breaker", "dynamo.graph_break"]),
    "UserError": (exc.TorchDynamoException, lambda: kt.export.export(export_by_data, (x1,)), ["data-dependent", "kt.cond", "in export_by_data"]),
    "TorchRuntimeError": (exc.TorchDynamoException, lambda: kt.compile(lambda x: no_rule(x))(x1), ["register_fake", "from user code"]),
    "BackendCompilerFailed": (exc.TorchDynamoException, lambda: kt.compile(lambda x: x + 1, backend=bad_backend)(x1),
                              ["backend='bad_backend' raised:", "ValueError", "no thanks"]),
    "InvalidBackend": (exc.TorchDynamoException, lambda: kt.compile(lambda x: x, backend="eagre"), ["'eagre'", "'eager'", "list_backends"]),
    "UncapturedHigherOrderOpError": (exc.TorchDynamoException, lambda: kt.compile(
        lambda x: kt.cond(x.sum() > 0, breaker, lambda x: x, (x,)))(x1), ["cond", "graph_break"]),
    "RecompileError": (exc.TorchDynamoException, lambda: second_variant(error_on_recompile=True), ["guard failure", "expected 1, actual 2"]),
    "FailOnRecompileLimitHit": (Exception, over_the_limit, ["recompile_limit", "fail_on_recompile_limit_hit"]),
    "AssertionError": (Exception, lambda: kt.compile(lambda x: never(x))(x1), ["Attempt to trace forbidden callable", "from user code"]),
    "RuntimeError": (Exception, under_fail, ["fail_on_recompile", "test_semantics_errors.py", "line number"]),
    "ConstraintViolationError": (RuntimeError, CONSTRAINED, ["shape[0]", "dynamic_shapes"]),
}


@rows("24 errors", ERRORS)
def test_error(row, stress):
    if stress in ("miss_every_guard", "tiny_code_memory") and row in ("FailOnRecompileLimitHit", "RecompileError"):
        pytest.skip("no limit there")
    base, provoke, texts = ERRORS[row]
    kind = getattr(exc, row, None) or getattr(__import__("builtins"), row)
    assert issubclass(kind, base) and (row != "FailOnRecompileLimitHit" or not issubclass(kind, exc.TorchDynamoException))
    with pytest.raises(kind) as told:
        provoke()
    for text in texts:
        assert text in str(told.value)
    if row == "BackendCompilerFailed":
        assert told.value.backend_name == "bad_backend" and isinstance(told.value.inner_exception, ValueError)


row("24 errors", "InternalTorchDynamoError")


def test_deep_recursion_is_no_internal_error():
    """InternalTorchDynamoError: the tracer does not overflow where Python does not; a fault of its own runs plain, once said so."""
    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    assert issubclass(exc.InternalTorchDynamoError, exc.TorchDynamoException)
    assert kt.compile(deep)(x1, 300).tolist() == [301.0]


def test_a_failed_trace_leaves_nothing():
    done, on = [], [True]

    @kt.compile(fullgraph=True)
    def f(x):
        done.append(1)
        if on[0]:
            dynamo.graph_break()
        return x + 1

    for _ in range(2):
        with pytest.raises(exc.Unsupported):
            f(x1)
    on[0] = False
    assert done == [] and f(x1).tolist() == [2.0]


def test_suppress_errors_hides_no_breaks():
    with config.patch(suppress_errors=True):
        with pytest.raises(exc.Unsupported):
            fullgraph(breaker)(x1)
        with pytest.raises(exc.Unsupported):
            dynamo.error_on_graph_break(True)(kt.compile(breaker))(x1)
        with pytest.raises(exc.UncapturedHigherOrderOpError):
            kt.compile(lambda x: kt.cond(x.sum() > 0, breaker, lambda x: x, (x,)))(x1)
        with pytest.raises(KeyError):
            kt.compile(lambda x: {}["k"])(x1)
        assert kt.compile(lambda x: x + 1, backend=bad_backend)(x1).tolist() == [2.0]
        for function, backend in ((lambda x: x + 1, bad_backend), (lambda x: never(x), None)):
            with pytest.raises((exc.BackendCompilerFailed, AssertionError)):
                kt.compile(function, fullgraph=True, backend=backend)(x1)


# ---- Section 25 ----------------------------------------------------------------------------------------------------


INT, FLOAT, SIZES = [(kt.ones(2), n) for n in (2, 3, 4)], [(kt.ones(2), n + 0.5) for n in (2, 3, 4)], [(kt.ones(n), 2) for n in (2, 3, 4)]
product = lambda x, n: x * n  # noqa: E731


def setting_limit():
    fast = kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0], dynamic=False)
    with config.patch(cache_size_limit=2):
        assert config.recompile_limit == 2
        assert [fast(kt.ones(n)) for n in (1, 2, 3, 1)] == [True, True, False, True]


def setting_fail():
    with pytest.raises(exc.FailOnRecompileLimitHit):
        over_the_limit()


def setting_error():
    with pytest.raises(exc.RecompileError):
        second_variant(error_on_recompile=True)


def setting_scalars():
    f = lambda x: x * x.sum().item()  # noqa: E731
    assert variants(f, (kt.ones(2),)) == 2
    with config.patch(capture_scalar_outputs=True):
        assert variants(f, (kt.ones(2),), (kt.ones(2) * 3,)) == 1


def setting_logs():
    note = lambda *a: print("note")  # noqa: E731
    f = lambda x: (note(), x + 1)[1]  # noqa: E731
    assert config.ignore_logger_methods is config.ignore_logging_functions
    for members, printed in ((config.reorderable_logging_functions, "note\n"), (config.ignore_logging_functions, "")):
        dynamo.reset()
        members.add(note)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            fullgraph(f)(x1)
        assert out.getvalue() == printed
        members.clear()


def setting_suppress():
    with config.patch(suppress_errors=True):
        assert kt.compile(lambda x: never(x))(x1) is x1


def setting_disable():
    with config.patch(disable=True):
        assert kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0])(x1) is False
        with pytest.raises(RuntimeError, match="no compiled frame"):
            fullgraph(lambda x: x + 1)(x1)


def setting_verbose():
    kt._logging.set_logs(graph_breaks=True)
    try:
        lengths = []
        for verbose in (False, True):
            with config.patch(verbose=verbose), contextlib.redirect_stderr(io.StringIO()) as err:
                for fast in (kt.compile(breaker),) * 2:  # the second is a duplicate
                    dynamo.reset()
                    fast(x1)
            lengths.append(err.getvalue().count("User code traceback:"))
        assert lengths[0] < lengths[1] == 2
    finally:
        kt._logging.set_logs()


def setting_shapes():
    assert variants(product, *SIZES) == 2
    with config.patch(automatic_dynamic_shapes=False):
        assert variants(product, *SIZES) == 3
    dynamo.reset()
    with config.patch(assume_static_by_default=False):
        assert variants(product, *SIZES) == 1


def setting_numbers():
    for name, calls in (("specialize_int", INT), ("specialize_float", FLOAT)):
        dynamo.reset()
        assert variants(product, *calls) == 2
        dynamo.reset()
        with config.patch({name: True}):
            assert variants(product, *calls) == 3


WITHOUT_EFFECT = {"accumulated_recompile_limit": 256, "nested_graph_breaks": True, "capture_dynamic_output_shape_ops": False,
                  "allow_unspec_int_on_nn_module": False, "rewrite_assert_with_torch_assert": True, "allow_empty_graphs": False,
                  "side_effect_replay_policy": "info"}
SETTINGS = {
    "recompile_limit / cache_size_limit": setting_limit, "fail_on_recompile_limit_hit": setting_fail, "error_on_recompile": setting_error,
    "capture_scalar_outputs": setting_scalars, "reorderable_logging_functions, ignore_logging_functions": setting_logs,
    "suppress_errors": setting_suppress, "disable": setting_disable, "verbose": setting_verbose,
    "automatic_dynamic_shapes, assume_static_by_default": setting_shapes, "specialize_int, specialize_float": setting_numbers,
}


@rows("25 settings", {**SETTINGS, **WITHOUT_EFFECT})
def test_setting(row, stress):
    if stress and row not in WITHOUT_EFFECT:
        pytest.skip("compiles more or less often")
    if row in SETTINGS:
        return SETTINGS[row]()
    value = WITHOUT_EFFECT[row]  # accepted: docs/differences.md says why nothing follows
    assert getattr(config, row) == value
    other = {True: False, False: True, 256: 2, "info": "silent"}[value]
    with config.patch({row: other}):
        assert getattr(config, row) == other
        assert kt.compile(breaker)(x1).tolist() == [0.0]
    assert getattr(config, row) == value


def test_settings_of_a_region():
    for name in ("verbose", "rewrite_assert_with_torch_assert", "capture_scalar_outputs", "allow_unspec_int_on_nn_module",
                 "dont_skip_tracing", "nested_graph_breaks"):
        before = getattr(config, name)
        with dynamo.patch_dynamo_config(name, not before):
            assert getattr(config, name) is not before
        assert getattr(config, name) is before
    for wrong in ({"recompile_limit": 3}, {"verbose": 1}):
        with pytest.raises(ValueError):
            dynamo.patch_dynamo_config(wrong)


# ---- Section 27 ----------------------------------------------------------------------------------------------------


def quirk_skip_mark():
    """Nothing is remembered of a call without operations: a later one that records is compiled."""
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x, n: x + 1 if n else None, backend=cnt)
    for n in (0, 1, 0, 1):
        fast(x1, n)
    assert cnt.frame_count == 1


def quirk_fullgraph():
    assert kt.compile(breaker)(x1).tolist() == [0.0]
    with pytest.raises(exc.Unsupported):
        fullgraph(breaker)(x1)


def quirk_unknown_stance():
    with pytest.raises(RuntimeError, match="invalid.*no_such"):
        compiler.set_stance("no_such")


def quirk_message():
    for call in (lambda x: dynamo.graph_break("by place"), lambda x: dynamo.graph_break(msg="by name")):
        with pytest.raises(exc.Unsupported, match="by place|by name"):
            fullgraph(call)(x1)


def quirk_pass_through():
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x, y: (y, x), backend=cnt, fullgraph=True)
    y = kt.ones(2)
    assert fast(x1, y) == (y, x1) and cnt.frame_count == 0


def quirk_branches():
    kt.compile(branches)(x1)
    assert any("Data-dependent branching" in text for text in counters["graph_break"])


def quirk_examples():
    fast = kt.compile(lambda x: (compiler.is_compiling(), x + 1)[0])
    with compiler.set_stance("eager_then_compile"):
        first = [fast(x1), fast(x1)]
        dynamo.reset()
        assert [fast(x1), fast(x1)] == first == [False, True]


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def quirk_skip_in_with():
    seen = []

    def f(x):
        x = x + 1
        with Manager():
            x = x * 2
            dynamo.skip_frame()
            seen.append(compiler.is_compiling())
        return x

    assert kt.compile(f)(x1).tolist() == [4.0] and seen == [False]


def quirk_shallow():
    shallow = compiler.disable(asks, recursive=False)
    assert kt.compile(asks)(x1)[0] is True
    assert kt.compile(lambda x: shallow(x)[0])(x1) is False and shallow(x1)[0] is False
    assert kt.compile(asks)(x1)[0] is True


def quirk_builtins():
    fast = kt.compile(lambda x, things: x * len(things))
    assert fast(x1, [1, 2]).tolist() == [2.0]
    globals()["len"] = lambda things: 9
    try:
        assert fast(x1, [1, 2]).tolist() == [9.0]
    finally:
        del globals()["len"]


def callee(x):
    x = x + 1
    dynamo.graph_break()
    return x * 2


def quirk_records():
    """A break is told where it is, once, whatever called it."""
    told = dynamo.explain(lambda x: callee(x) + 1)(x1)
    assert [reason.user_stack[-1].name for reason in told.break_reasons] == ["callee"]


def quirk_disabled_stance():
    inner = kt.compile(asks)
    inner(x1)
    off = compiler.disable(lambda x: (inner(x)[0], asks(x)[0]))
    with compiler.set_stance("eager_on_recompile"):
        assert kt.compile(lambda x: off(x))(x1) == (True, False)


seen_by_op = []


@kt.library.custom_op("semantics::looks", mutates_args=())
def looks(x: kt.Tensor) -> kt.Tensor:
    seen_by_op.append(list(done))
    return x + 1


looks.register_fake(lambda x: x.clone())
done = []


def quirk_order():
    """Operator bodies and log calls see what the program did before them."""
    def note():
        seen_by_op.append(("note", list(done)))

    def f(x):
        done.append(1)
        x = looks(x)
        done.append(2)
        note()
        done.append(3)
        return x

    config.reorderable_logging_functions.add(note)
    fast = fullgraph(f)
    for _ in range(2):
        done.clear()
        seen_by_op.clear()
        assert fast(x1).tolist() == [2.0]
        assert seen_by_op == [[1], ("note", [1, 2])] and done == [1, 2, 3]


@kt.library.custom_op("semantics::fails", mutates_args=())
def fails(x: kt.Tensor) -> kt.Tensor:
    raise KeyError("at run time")


fails.register_fake(lambda x: x.clone())


def quirk_handlers():
    log = []

    def f(x):
        log.append("before")
        try:
            x = fails(x + 1)
        except KeyError as error:
            log.append(str(error))
            x = x * 5
        return x

    fast = kt.compile(f)
    assert [fast(x1).tolist() for _ in range(2)] == [[5.0]] * 2
    assert log == ["before", "'at run time'"] * 2


QUIRKS = dict(zip(ROWS["27 quirks"], [
    quirk_skip_mark, quirk_fullgraph, quirk_unknown_stance, quirk_message, quirk_pass_through, quirk_branches, quirk_examples,
    quirk_skip_in_with, quirk_shallow, quirk_builtins, quirk_records, quirk_disabled_stance, quirk_order, quirk_handlers]))


@rows("27 quirks", QUIRKS)
def test_quirk(row, stress):
    if stress == "miss_every_guard" and row in (ROWS["27 quirks"][0], "eager_on_recompile inside disable is run-only"):
        pytest.skip("compiles again")
    QUIRKS[row]()
