"""set_stance, settings, logs: what governs the process, and its scope."""
import logging
import subprocess
import sys
import threading

import pytest

import kintsugi as kt
from control_programs import asks, is_compiled, variants

dynamo, compiler = kt._dynamo, kt.compiler

pytestmark = pytest.mark.usefixtures("switches")


# ---- Stances -------------------------------------------------------------------------------------------------------


def test_force_eager_in_every_form():
    fast = kt.compile(asks)
    x = kt.ones(1)
    decorated = compiler.set_stance("force_eager")(lambda: is_compiled(fast, x))
    assert (is_compiled(fast, x), decorated(), is_compiled(fast, x)) == (True, False, True)
    with compiler.set_stance("force_eager"):
        assert is_compiled(fast, x) is False
        with compiler.set_stance("default"):
            assert is_compiled(fast, x) is True
        assert is_compiled(fast, x) is False
    with pytest.raises(KeyError):
        with compiler.set_stance("force_eager"):
            raise KeyError
    assert is_compiled(fast, x) is True
    compiler.set_stance("force_eager")
    assert is_compiled(fast, x) is False


def test_force_eager_outranks_fullgraph_and_reaches_callees():
    inner = kt.compile(asks)

    @kt.compile(fullgraph=True)
    def f(x):
        dynamo.graph_break()
        return inner(x)

    with compiler.set_stance("force_eager"):
        assert is_compiled(f, kt.ones(1)) is False


def test_eager_on_recompile(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(asks, dynamic=False)
    fast(kt.ones(2))
    with compiler.set_stance("eager_on_recompile"):
        assert [is_compiled(fast, kt.ones(n)) for n in (2, 3, 2)] == [True, False, True]
        assert is_compiled(kt.compile(lambda x: asks(x), fullgraph=True), kt.ones(1)) is False
    assert is_compiled(fast, kt.ones(3)) is True


def test_fail_on_recompile(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(asks, dynamic=False)
    fast(kt.ones(2))
    with compiler.set_stance("fail_on_recompile"):
        assert is_compiled(fast, kt.ones(2))
        with pytest.raises(RuntimeError, match="(?s)fail_on_recompile.*function name: 'asks', line number: .*guard failure.*actual 3"):
            fast(kt.ones(3))
    assert is_compiled(fast, kt.ones(3))


@pytest.mark.parametrize("stance", ["eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"])
def test_a_hit_asks_no_stance(stance, stress):
    if stress:
        pytest.skip("takes the long way")
    fast, x = kt.compile(lambda x: x * x + 1), kt.ones(2)
    fast(x)
    native = dynamo.utils.counters["native"]
    before = native["frameless_calls"], native["segment_runs"]
    with compiler.set_stance(stance):
        for _ in range(10):
            assert fast(x).tolist() == [2.0, 2.0]
    assert (native["frameless_calls"], native["segment_runs"]) == (before[0] + 10, before[1])


def test_eager_then_compile_counts_by_code_object():
    seen = []

    @kt.compile
    def f(x):
        seen.append(("head", compiler.is_compiling()))
        dynamo.graph_break()
        seen.append(("tail", compiler.is_compiling()))
        return x + 1

    with compiler.set_stance("eager_then_compile"):
        for _ in range(3):
            f(kt.ones(1))
    assert seen[:2] == [("head", False), ("tail", False)] and seen[2] == ("head", True) and seen[-1] == ("tail", True)


@pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
def test_what_differs_becomes_an_input(stance, stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x, k, f: x * k + f, backend=cnt)
    with compiler.set_stance(stance):
        for n in (2, 3, 4, 5):
            assert fast(kt.ones(n), n, n / 2).tolist() == [n + n / 2] * n
    assert cnt.frame_count == 1


def test_errors_of_set_stance():
    with pytest.raises(RuntimeError, match="invalid"):
        compiler.set_stance("no_such")
    with pytest.raises(RuntimeError, match="force_backend"):
        compiler.set_stance("fail_on_recompile", force_backend="eager")
    stanced = compiler.set_stance("force_eager")(lambda x: x + 1)
    for f in (lambda x: (compiler.set_stance("default"), x + 1)[1], lambda x: stanced(x)):
        with pytest.raises(AssertionError, match="forbidden callable"):
            kt.compile(f)(kt.ones(1))
    with pytest.raises(AssertionError, match="forbidden callable"):
        kt.compile(stanced)(kt.ones(1))

    @kt.compile
    def skipped(x):
        dynamo.skip_frame()
        compiler.set_stance("force_eager")

    with pytest.raises(RuntimeError, match="compile region"):
        skipped(kt.ones(1))
    off = compiler.disable(lambda: compiler.set_stance("default"))
    kt.compile(lambda x: (off(), x + 1)[1])(kt.ones(1))


def test_the_stance_is_of_the_process():
    fast, seen = kt.compile(asks), []
    with compiler.set_stance("force_eager"):
        thread = threading.Thread(target=lambda: seen.append(is_compiled(fast, kt.ones(1))))
        thread.start()
        thread.join()
    assert seen == [False]


def test_run_compiles_nothing(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(asks, dynamic=False)
    fast(kt.ones(2))
    only = dynamo.run(fast)
    assert [is_compiled(only, kt.ones(n)) for n in (2, 3)] == [True, False]


# ---- Settings ------------------------------------------------------------------------------------------------------


def test_patch_in_its_three_forms():
    config = dynamo.config
    for patch in (config.patch(recompile_limit=3), config.patch("recompile_limit", 3), config.patch({"recompile_limit": 3})):
        for _ in range(2):
            with patch:
                assert config.recompile_limit == config.cache_size_limit == 3
            assert config.recompile_limit == 8
    assert config.patch(verbose=True)(lambda: config.verbose)() is True and config.verbose is False


def test_unknown_settings_are_refused_with_close_names():
    for act in (lambda: dynamo.config.recompile_limi, lambda: setattr(dynamo.config, "recompile_limi", 3),
                lambda: dynamo.config.patch(recompile_limi=3)):
        with pytest.raises(AttributeError, match="Did you mean recompile_limit"):
            act()


SETTINGS = ["accumulated_recompile_limit", "nested_graph_breaks", "capture_dynamic_output_shape_ops", "allow_empty_graphs",
            "rewrite_assert_with_torch_assert", "allow_unspec_int_on_nn_module", "side_effect_replay_policy", "dont_skip_tracing",
            "suppress_errors", "error_on_recompile", "specialize_int", "specialize_float", "assume_static_by_default",
            "automatic_dynamic_shapes", "capture_scalar_outputs", "fail_on_recompile_limit_hit", "verbose", "disable"]


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_exists(name):
    before = getattr(dynamo.config, name)
    with dynamo.config.patch({name: before}):
        assert getattr(dynamo.config, name) == before
    with pytest.raises(TypeError):
        setattr(dynamo.config, name, None)


INT, FLOAT, SIZES = [(kt.ones(2), n) for n in (2, 3, 4)], [(kt.ones(2), n + 0.5) for n in (2, 3, 4)], [(kt.ones(n), 2) for n in (2, 3, 4)]
EFFECTS = [({}, INT, 2), ({"specialize_int": True}, INT, 3), ({}, FLOAT, 2), ({"specialize_float": True}, FLOAT, 3), ({}, SIZES, 2),
           ({"automatic_dynamic_shapes": False}, SIZES, 3), ({"assume_static_by_default": False}, SIZES, 1)]


@pytest.mark.parametrize("settings, calls, wanted", EFFECTS)
def test_settings_of_sizes_and_numbers(settings, calls, wanted, stress):
    if stress:
        pytest.skip("compiles again")
    with dynamo.config.patch(settings):
        assert variants(lambda x, n: x * n, *calls) == wanted


def test_recompile_errors(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(asks, dynamic=False)
    fast(kt.ones(2))
    with dynamo.config.patch(error_on_recompile=True), pytest.raises(dynamo.exc.RecompileError, match="guard failure"):
        fast(kt.ones(3))
    with dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        with pytest.raises(dynamo.exc.FailOnRecompileLimitHit, match="fail_on_recompile_limit_hit"):
            fast(kt.ones(3))


def test_config_disable():
    fast = kt.compile(asks)
    with dynamo.config.patch(disable=True):
        assert is_compiled(fast, kt.ones(1)) is False
        with pytest.raises(RuntimeError, match="no compiled frame"):
            kt.compile(asks, fullgraph=True)(kt.ones(1))


# ---- Logging -------------------------------------------------------------------------------------------------------


class Catch(logging.Handler):
    def __init__(self, name):
        super().__init__()
        self.lines = []
        self.logger = logging.getLogger(f"kintsugi.__{name}")

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        self.logger.addHandler(self)
        return self.lines

    def __exit__(self, *error):
        self.logger.removeHandler(self)


def breaks(x):
    dynamo.graph_break("why not")
    return x + 1


def test_set_logs_replaces(capfd):
    kt._logging.set_logs(graph_breaks=True)
    with Catch("graph_breaks") as lines:
        kt.compile(breaks)(kt.ones(1))
        assert len(lines) >= 1 and "why not" in lines[0]
        kt._logging.set_logs(recompiles=True)
        count = len(lines)
        dynamo.reset()
        kt.compile(breaks)(kt.ones(1))
        assert len(lines) == count
    assert "[__graph_breaks] Graph break in user code at" in capfd.readouterr().err


def skips(x):
    x = x + 1
    dynamo.skip_frame("why")
    return x


def steps(x):
    x = (x + 1) * 2
    dynamo.step_unsupported("why")
    return x


def stores(x):
    x.name = 1
    return x


def branches(x, limit):
    if (x * 2).sum() > limit:
        return x
    return x + 1


BREAKS = {  # what a record says of them, in order
    "call": (lambda x: breaks(x), (), ["Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y)\n"
                                       "Call to `kt._dynamo.graph_break()`\n  Explanation: "]),
    "keywords": (lambda x: print(x.shape, end=""), (), ["to trace CALL_KW: a function call with keyword", "print with ("]),
    "variadic": (lambda x: print(*x.shape), (), ["to trace CALL_FUNCTION_EX: a variadic function call"]),
    "store": (stores, (), ["to trace STORE_ATTR: an attribute store", "Failed to set tensor attribute"]),
    "partial": (steps, (), ["Nothing can resume from this break", "Call to `kt._dynamo.step_unsupported()`"]),
    "skipped": (skips, (), ["This break cannot be handled gracefully", "Call to `kt._dynamo.skip_frame()`"]),
    "branch": (branches, (5,), ["Graph Break Reason: Data-dependent branching\n", "Hint: Use `kt.cond`", "Developer debug context: ",
                                "computed as\n    %1 = mul(x, 2)\n    %2 = sum(%1)\n    %3 = gt(%2, 5)\n"]),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_what_a_break_record_says(kind, stress, capsys):
    if stress == "break_everywhere":
        pytest.skip("breaks elsewhere")
    function, more, told = BREAKS[kind]
    kt._logging.set_logs(graph_breaks=True)

    def outside():
        return fast(kt.ones(2), *more)

    for _ in range(2):  # a new wrapper: told in full again
        fast = kt.compile(function)
        with Catch("graph_breaks") as lines:
            outside()
            dynamo.reset()
            outside()
        text = lines[0]
        for part in ["Graph break in user code at ", "Graph Break Reason: ", *told, "User code traceback:", ", in outside\n"]:
            assert part in text, text
            text = text[text.index(part):]
        assert any(line.startswith("Graph break (user stack suppressed") and "traceback" not in line for line in lines[1:])
        dynamo.reset()


def test_long_computations_are_cut(stress):
    if stress == "break_everywhere":
        pytest.skip("breaks elsewhere")

    space = {}
    exec("def f(x):\n" + "    x = x * 1.5 + 1\n" * 100 + "    return x if x.sum() > 0 else -x", space)
    with pytest.raises(dynamo.exc.Unsupported) as told:
        kt.compile(space["f"], fullgraph=True)(kt.ones(1))
    text = str(told.value)
    assert 10 < text.count(" = ") < 20 and "%1 = " in text and "sum(%" in text and "..." in text


def test_break_records_in_full(stress):
    if stress == "break_everywhere":
        pytest.skip("breaks elsewhere")
    kt._logging.set_logs(graph_breaks=True)
    with dynamo.config.patch(verbose=True), Catch("graph_breaks") as lines:
        kt.compile(breaks)(kt.ones(1))
    before, _, after = lines[0].partition("Most recent instructions:\n")
    assert "begun in the middle of the function" in before and after.rstrip().endswith(": CALL 1")


RECOMPILES = """
def callee(a, k):
    return a * k

def root(a, k):
    b = callee(a, k)
    graph_break()
    return b + k
"""


@pytest.mark.parametrize("shown", ["record", "stance", "error"])
def test_what_recompiles_say(shown, stress, tmp_path, capfd):
    """Compile ids, and the user stack of each guard that failed."""
    if stress:
        pytest.skip("compiles again")
    script = tmp_path / "program.py"
    script.write_text(RECOMPILES)
    space = {"graph_break": dynamo.graph_break}
    exec(compile(RECOMPILES, str(script), "exec"), space)
    fast = kt.compile(space["root"], dynamic=False)
    kt._logging.set_logs(recompiles=shown == "record")
    with Catch("recompiles") as lines:
        for k in (2, 3):
            fast(kt.ones(4), k)
    if shown == "record":
        assert len(lines) == 2
        text = lines[0]
        err = capfd.readouterr().err
        assert "] [0/1] [__recompiles] Recompiling function root in" in err and "] [1/1] [__recompiles] " in err
        assert "- 1/0: k: expected 2, found 3  # return b + k" in lines[1]
    else:
        stance, config = ("fail_on_recompile", {}) if shown == "stance" else ("default", {"error_on_recompile": True})
        with compiler.set_stance(stance), dynamo.config.patch(config), pytest.raises(RuntimeError) as caught:
            fast(kt.ones(5), 3)
        text = str(caught.value)
        assert "- 0/1: tensor 'a' size mismatch at index 0. expected 4, actual 5  # return a * k" in text
    assert f"""- 0/0: k: expected 2, found 3  # return a * k
      User stack trace:
        File "{script}", line 6, in root
          b = callee(a, k)
        File "{script}", line 3, in callee
          return a * k""" in text
    dynamo.reset()
    kt._logging.set_logs(graph_breaks=True)
    fast(kt.ones(4), 2)
    assert "] [0/0] [__graph_breaks] " in capfd.readouterr().err


def test_recompiles_verbose_tells_every_check(stress):
    if stress:
        pytest.skip("compiles again")

    class Settings:
        gain = 1

    def f(x, k, settings, items):
        return x * k + settings.gain + len(items)

    fast, settings = kt.compile(f, dynamic=False), Settings()
    settings.gain = 2
    kt._logging.set_logs(recompiles=True, recompiles_verbose=True)
    with Catch("recompiles") as first, Catch("recompiles_verbose") as every:
        fast(kt.ones(3), 2, settings, [1])
        settings.gain = 3
        fast(kt.ones(4), 3, settings, [1, 2])
        fast(kt.ones(4), 3, settings, (1, 2))
    failed = [[line.strip().partition("  #")[0] for line in text.split("\n") if "- 0/" in line] for text in (*first, *every)]
    kind = "items: expected an object of class list, found a tuple of 2 items"
    before = ["- 0/0: k: expected 2, found 3", "- 0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4",
              "- 0/0: settings.gain: expected 2, found 3"]
    assert failed[:2] == [before[:1], [before[0], f"- 0/1: {kind}"]]
    assert failed[2] == [*before, "- 0/0: items: expected a list of 1 items, found a list of 2 items"]
    assert failed[3] == [*before, f"- 0/0: {kind}", f"- 0/1: {kind}"]


def test_recompiles_verbose_passes_over_what_a_changed_class_held(stress):
    if stress:
        pytest.skip("compiles again")

    class Filter:
        taps = [1.0, 2.0, 3.0]

    fast = kt.compile(lambda x: x * Filter.taps[0])
    assert fast(kt.ones(2)).tolist() == [1.0, 1.0]
    Filter.taps = (7.0,)
    others = [[each] for each in range(100)]  # where the old one lay
    kt._logging.set_logs(recompiles_verbose=True)
    with Catch("recompiles_verbose") as told:
        assert fast(kt.ones(2)).tolist() == [7.0, 7.0]
    assert "its class was changed" in told[0] and "taps: expected" not in told[0] and len(others) == 100


def test_set_logs_errors():
    for bad in ({"graph_breaks": 1}, {"dynamo": True}, {"dynamo": 17}):
        with pytest.raises(ValueError):
            kt._logging.set_logs(**bad)
    with pytest.raises(TypeError, match="graph_breaks"):
        kt._logging.set_logs(no_such=True)
    kt._logging.set_logs(dynamo=logging.DEBUG, recompiles_verbose=True, side_effects=True)


@pytest.mark.parametrize("name", ["KINTSUGI_LOGS", "TORCH_LOGS"])
def test_the_environment_outranks_set_logs(name):
    program = ("import kintsugi as kt, warnings\nwith warnings.catch_warnings(record=True) as told:\n    kt._logging.set_logs(guards=True)\n"
               "assert len(told) == 1\n@kt.compile\ndef f(x):\n    kt._dynamo.graph_break()\n    return x\nf(kt.ones(1))")
    import os
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, name: "graph_breaks"}, capture_output=True, text=True)
    assert done.returncode == 0 and "[kintsugi graph_breaks 0/0] Graph break in user code" in done.stderr, done.stderr


def test_ignored_and_reordered(capsys):
    def note(*things):
        print("note", *things)

    @kt.compile
    def f(x, n):
        x = x + 1
        note("at", n, (1, "two"))
        note(f"{n} {x.shape[0]}")
        return x * 2

    for _ in range(2):
        assert f(kt.ones(2), 3).tolist() == [4.0, 4.0]
    plain = capsys.readouterr().out
    dynamo.config.reorderable_logging_functions.add(note)
    dynamo.reset()
    fast = kt.compile(lambda x, n: f(x, n), fullgraph=True)
    for _ in range(2):
        assert fast(kt.ones(2), 3).tolist() == [4.0, 4.0]
    assert capsys.readouterr().out == plain
    dynamo.config.reorderable_logging_functions.clear()
    dynamo.config.ignore_logging_functions.add(note)
    dynamo.reset()
    assert fast(kt.ones(2), 3).tolist() == [4.0, 4.0]
    assert capsys.readouterr().out == ""


# ---- Marks of tensors ----------------------------------------------------------------------------------------------


def marked(n, mark, *args, **more):
    t = kt.ones(n)
    mark(t, *args, **more)
    return (t, 2)


@pytest.mark.parametrize("mark", [dynamo.mark_dynamic, dynamo.maybe_mark_dynamic, dynamo.mark_unbacked])
def test_mark_dynamic(mark, stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x, n: x * n, backend=cnt, dynamic=False)
    fast(kt.ones(3), 2)
    assert cnt.frame_count == 1
    fast(*marked(3, mark, 0))  # what was compiled without the mark is not used
    assert cnt.frame_count == 2
    for n in (4, 5, 6):
        assert fast(kt.ones(n), 2).tolist() == [2.0] * n
    assert cnt.frame_count == 2


def test_mark_static(stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x, n: x * n, backend=cnt, dynamic=True)
    for n in (3, 4, 5):
        assert fast(*marked(n, dynamo.mark_static)).tolist() == [2.0] * n
    assert cnt.frame_count == 3


def test_marks_change_nothing_else():
    for mark in (dynamo.mark_dynamic, dynamo.mark_static):
        t = kt.arange(6).reshape(2, 3) * 1.0
        mark(t, [0, -1])
        assert (t + 1).tolist() == (kt.arange(6).reshape(2, 3) * 1.0 + 1).tolist()
        assert kt.compile(lambda a: (a.T @ a, a[0], a.add_(1.0)))(t)[2] is t and t[0, 0].item() == 1.0
        assert (t == t).all().item() and t.contiguous() is t
    with pytest.raises(IndexError):
        dynamo.mark_dynamic(kt.ones(2), 1)
    with pytest.raises(dynamo.exc.ConstraintViolationError):
        dynamo.mark_dynamic(kt.ones(2), 0, min=3)
    for mark in (dynamo.mark_dynamic, dynamo.maybe_mark_dynamic):
        with pytest.raises(AssertionError, match="forbidden"):
            kt.compile(lambda t: mark(t, 0))(kt.ones(2))
    assert kt.compile(lambda t: (dynamo.mark_static(t, 0), t + 1)[1], fullgraph=True)(kt.ones(1)).tolist() == [2.0]
