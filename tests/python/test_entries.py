"""Entries and segments: what is compiled when, what is learnt from misses, how much is kept, and when it goes."""
import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

import kintsugi as kt

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


def unstressed(stress):
    if stress:
        pytest.skip(f"{stress} changes how often things are compiled")


def test_one_segment_serves_equal_calls(stress):
    unstressed(stress)
    fast = kt.compile(lambda a, b: a * b + a)
    a, b = kt.tensor([1.0, 2.0]), kt.tensor([3.0, 4.0])
    for _ in range(5):
        assert fast(a, b).tolist() == [4.0, 10.0]
    assert native["segments"] == 1
    assert native["frameless_calls"] == 5
    assert native["fallbacks"] == native["hand_overs"] == native["frames"] == 0
    assert native["kernels"] == 5


def test_sizes_are_learnt(stress):
    unstressed(stress)
    fast = kt.compile(lambda x: x * 2.0 + 1.0)
    for n in range(2, 200):
        assert fast(kt.ones(n)).tolist() == [3.0] * n
    assert native["segments"] <= 3
    assert native["fallbacks"] == 0


def test_numbers_are_learnt(stress):
    unstressed(stress)
    fast = kt.compile(lambda x, k: x * k)
    x = kt.ones(3)
    for k in range(-20, 20):
        assert fast(x, k).tolist() == [float(k)] * 3
    for k in range(20):
        assert fast(x, k / 8).tolist() == [k / 8] * 3
    assert native["segments"] <= 5


def test_dynamic_never_and_from_the_start(stress):
    unstressed(stress)
    f = lambda x: x + 1.0  # noqa: E731
    never = kt.compile(f, dynamic=False)
    for n in range(2, 6):
        never(kt.ones(n))
    assert native["segments"] == 4
    at_once = kt.compile(f, dynamic=True)
    for n in range(2, 6):
        assert at_once(kt.ones(n)).tolist() == [2.0] * n
    assert native["segments"] == 5


def test_limit_keeps_what_there_is(stress, capfd):
    unstressed(stress)
    kinds = [type(f"Kind{i}", (), {"gain": float(i)}) for i in range(6)]
    fast = kt.compile(lambda x, kind: x * kind.gain)
    x = kt.ones(2)
    with kt._dynamo.config.patch(recompile_limit=3):
        for _ in range(2):
            for i, kind in enumerate(kinds):
                assert fast(x, kind()).tolist() == [float(i)] * 2
    assert native["segments"] == 3
    assert native["fallbacks"] == 6
    assert sum(kt._dynamo.utils.counters["fallback"].values()) == 6
    assert capfd.readouterr().err.count("recompile_limit") == 1


def test_several_segments_keep_serving(stress):
    unstressed(stress)
    fast = kt.compile(lambda x: x + x)
    tensors = [kt.tensor([1, 2]), kt.tensor([1.0, 2.0]), kt.tensor([[1.0], [2.0]]), kt.tensor([True, False])]
    for _ in range(4):
        for x in tensors:
            assert fast(x).tolist() == (x + x).tolist()
    assert native["segments"] == 4
    assert native["frameless_calls"] == 16


gain = 2.0


def test_global_replaced(stress):
    global gain
    fast = kt.compile(lambda x: x * gain)
    x = kt.ones(2)
    for value in (2.0, 3.0, 2.0, -0.0, 0.0):
        gain = value
        assert [str(v) for v in fast(x).tolist()] == [str(value)] * 2
    gain = 2.0


def test_segment_retires_with_what_it_relied_on(stress):
    def make():
        class Model:
            def __init__(self):
                self.w = kt.ones(3)

        model = Model()
        return kt.compile(lambda x: x * model.w), weakref.ref(model), weakref.ref(Model)

    for _ in range(20):
        fast, model, kind = make()
        assert fast(kt.ones(3)).tolist() == [1.0] * 3
        del fast
        gc.collect()
        assert model() is None and kind() is None


def test_reset_while_calls_are_active():
    def callback(x):
        kt._dynamo.reset()
        return x

    depth = 0

    @kt.compile
    def f(x, n):
        y = x + 1.0
        callback(y)
        if n > 0:
            y = f(y, n - 1)
        callback(y)
        return y * 2.0

    for _ in range(3):
        assert f(kt.ones(2), 3).tolist() == [(1.0 + 4) * 16] * 2
    assert depth == 0


def test_reset_from_another_thread():
    @kt.compile
    def f(x):
        for _ in range(10):
            x = x + 1.0
        return x

    stop = threading.Event()

    def keep_resetting():
        while not stop.is_set():
            kt._dynamo.reset()

    thread = threading.Thread(target=keep_resetting)
    thread.start()
    try:
        for n in range(2, 300):
            assert f(kt.zeros(n % 7 + 2)).tolist() == [10.0] * (n % 7 + 2)
    finally:
        stop.set()
        thread.join()


def test_functions_without_tensors_become_plain(stress):
    unstressed(stress)
    kinds = [type(f"Kind{i}", (), {"gain": i}) for i in range(6)]
    fast = kt.compile(lambda scale, x: [scale.name, x])
    for i in range(50):
        scale = Scale()
        scale.name = "s" * i if i % 2 else kinds[i % 6]
        assert fast(scale, i) == [scale.name, i]
    assert native["segments"] < 8
    assert native["plain_calls"] + native["frameless_calls"] > 40
    assert native["fallbacks"] == 0


class Scale:
    pass


def test_fullgraph_raises_at_a_break():
    def f(x):
        y = x + 1.0
        kt._dynamo.graph_break("here")
        return y * 2.0

    x = kt.ones(2)
    assert kt.compile(f)(x).tolist() == [4.0, 4.0]
    strict = kt.compile(f, fullgraph=True)
    for _ in range(2):
        with pytest.raises(kt._dynamo.exc.Unsupported) as error:
            strict(x)
        text = str(error.value)
        assert text.startswith("Call to `kt._dynamo.graph_break()`\n")
        for part in ("Explanation:", "Hint:", "Developer debug context:", "here", "from user code:", "graph_break(\"here\")"):
            assert part in text
    assert kt.compile(f)(x).tolist() == [4.0, 4.0]


def test_fullgraph_without_a_break(stress):
    if stress == "break_everywhere":
        pytest.skip("everything breaks")
    fast = kt.compile(lambda x: (x + 1.0).sum(), fullgraph=True)
    assert fast(kt.ones(3)).item() == 6.0


def test_explain(stress):
    unstressed(stress)

    def f(x):
        y = x * 2.0 + 1.0
        kt._dynamo.graph_break("between")
        return y - 3.0

    told = kt._dynamo.explain(f)(kt.ones(3))
    assert told.graph_count == 2 and told.op_count == 3 and told.graph_break_count == 1
    assert [len(ops) for ops in told.ops_per_graph] == [2, 1]
    reason = told.break_reasons[0]
    assert reason.reason.startswith("Call to `kt._dynamo.graph_break()`")
    assert reason.user_stack[-1].name == "f" and "graph_break" in reason.user_stack[-1].line
    assert told.out_guards and all(us >= 0 for us in told.phases.values()) and told.phases["trace"] > 0
    text = str(told)
    for part in ("Graph Count: 2", "Graph Break Count: 1", "Op Count: 3", "Break Reason 1:", "Ops per Graph:", "Out Guards:",
                 "Compile Times:"):
        assert part in text


def test_explain_tells_lines_as_they_are(stress):
    unstressed(stress)

    def branch(x):
        if x.sum() > 0:
            return x + 1
        return x

    assert str(kt._dynamo.explain(branch)(kt.ones(3))).count("in branch: if x.sum() > 0:\n") == 1
    assert kt._dynamo.explain(lambda n: n + 1)(1).graph_break_count == 0


def run_script(text, **environment):
    import os
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment})


SCRIPT = """
    import kintsugi as kt

    @kt.compile
    def f(x, k):
        y = x * k
        kt._dynamo.graph_break("why")
        return y + 1.0

    for k in (1.0, 2.0):
        f(kt.ones(2), k)
    f(kt.ones((2, 2)), 1.0)
    """


def test_records(stress, tmp_path):
    unstressed(stress)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = run_script(f"import runpy; runpy.run_path({str(script)!r})", KINTSUGI_LOGS="graph_breaks,recompiles,graph,guards,plan,asm")
    assert done.returncode == 0, done.stderr
    err = done.stderr
    assert f"[kintsugi graph_breaks 0/0] Graph break in user code at {script}:7" in err
    assert "Call to `kt._dynamo.graph_break()`" in err and "why" in err and "User code traceback:" in err
    assert "[kintsugi recompiles 0/1] Recompiling function f in" in err and "triggered by the following guard failure(s):" in err
    for kind in ("graph", "guards", "plan", "asm"):
        assert f"[kintsugi {kind} 0/0]" in err
    assert run_script(SCRIPT, KINTSUGI_LOGS="").stderr == ""
    assert "no record is called 'nonsense'" in run_script(SCRIPT, KINTSUGI_LOGS="nonsense").stderr


def test_config():
    config = kt._dynamo.config
    assert config.recompile_limit == 8
    with config.patch(recompile_limit=2):
        assert config.recompile_limit == 2
    assert config.recompile_limit == 8
    with pytest.raises(AttributeError, match="recompile_limit"):
        config.nonsense = 1
    with pytest.raises(TypeError):
        config.recompile_limit = "many"
    with pytest.raises(ValueError, match="between"):
        config.recompile_limit = 0
    with config.patch(disable=True):
        assert kt.compile(lambda x: x + 1)(1) == 2
    assert native["segments"] == 0


def test_counters_are_live():
    counters = kt._dynamo.utils.counters
    kept = counters["native"]
    before = kept["segments"] + kept["frames"] + kept["frameless_calls"]
    kt.compile(lambda x: x + 1.0)(kt.ones(2))
    assert kept["segments"] + kept["frames"] + kept["frameless_calls"] > before
    assert {"frameless_calls", "segments", "kernels", "call_outs", "hand_overs", "fallbacks"} <= set(kept)
    counters["mine"]["x"] += 1
    counters.clear()
    assert sum(counters["native"].values()) == 0 and "mine" not in counters


@pytest.mark.parametrize("switch, counter", [("break_everywhere", "steps_everywhere"), ("miss_every_guard", "forced_misses"),
                                             ("no_fuse", "unfused"), ("no_frameless", "early_frames")])
def test_stress_switches_have_their_effect(switch, counter):
    fast = kt.compile(lambda a, b: (a * b + a).sum())
    x = kt.ones(3)
    with kt._dynamo.config.patch({switch: True}):
        kt._dynamo.reset()
        for _ in range(20):
            assert fast(x, x).item() == 6.0
    assert native[counter] > 0


def test_tiny_code_memory_evicts():
    done = run_script("""
        import kintsugi as kt

        x = kt.ones(3)
        functions = []
        for i in range(150):
            space = {}
            exec(f"def f(x): return ((x * {i}.0 + 1.0) * (x - {i}.5)).sum() + x.sum() * {i}.25", space)
            functions.append((space["f"], kt.compile(space["f"])))
        with kt._dynamo.config.patch(tiny_code_memory=True):
            for _ in range(2):
                for plain, fast in functions:
                    assert fast(x).item() == plain(x).item()
        assert kt._dynamo.utils.counters["native"]["evictions"] > 0
        """)
    assert done.returncode == 0, done.stderr


def test_interpreter_exit_in_the_middle():
    done = run_script("""
        import atexit, threading, kintsugi as kt

        @kt.compile
        def f(x):
            return x * 2.0

        class Late:
            def __init__(self): self.x, self.kt = kt.ones(2), kt
            def __del__(self): f(self.x)

        keep = Late()
        f(kt.ones(2))
        atexit.register(lambda: f(kt.ones(3)))

        def spin():
            while True: f(kt.ones(4))

        threading.Thread(target=spin, daemon=True).start()
        """)
    assert done.returncode == 0, done.stderr
