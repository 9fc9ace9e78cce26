"""The five stress switches: each has its effect, by its counter, over the cases and a program of its own; results stay."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

CASES = sorted((pathlib.Path(__file__).parents[2].parent / "shared" / "cases").glob("case*.py"))
COUNTERS = {"break_everywhere": "steps_everywhere", "miss_every_guard": "forced_misses", "tiny_code_memory": "evictions",
            "no_fuse": "unfused", "no_frameless": "early_frames"}

# Two functions called often, and enough different ones to fill 64 KB of code.
PROGRAM = """
import kintsugi as kt

def inner(x, k):
    return x * k + 1.0

def outer(x, k):
    y = inner(x, k)
    return y + inner(y, 2.0), [y for _ in range(2)]

fast = kt.compile(outer)
for n in (3, 3, 4, 5, 3):
    got, ys = fast(kt.ones(n), 3.0)
    assert got.tolist() == [13.0] * n and len(ys) == 2

for i in range(200):
    scope = {}
    exec(f"def f(x):\\n" + "".join(f"    x = x + {i + j}\\n" for j in range(10)) + "    return x, x * 2", scope)
    new = kt.compile(scope["f"])
    for _ in range(2):
        assert new(kt.zeros(3))[1].tolist() == [2.0 * sum(i + j for j in range(10))] * 3
    keep = globals().setdefault("keep", [])
    keep.append(new)
"""
TAIL = """
import json, kintsugi
print("counters " + json.dumps(dict(kintsugi._dynamo.utils.counters["native"])))
"""


def counters_of(text, switch, folder=None):
    environment = {**os.environ, "KINTSUGI_STRESS": switch, "KINTSUGI_STRICT": "1"}
    done = subprocess.run([sys.executable, "-c", text + TAIL], capture_output=True, text=True, env=environment, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("counters ")
    return json.loads(last.removeprefix("counters "))


@pytest.fixture(scope="module", autouse=True)
def once(stress):
    if stress:
        pytest.skip("sets the switches itself")


@pytest.fixture(scope="module")
def without():
    return counters_of(PROGRAM, "")


def test_none_is_on_by_default(without):
    assert [without[counter] for counter in COUNTERS.values()] == [0] * 5


@pytest.mark.parametrize("switch", COUNTERS)
def test_switch_has_its_effect(switch, without):
    found = counters_of(PROGRAM, switch)
    assert found[COUNTERS[switch]] > 0
    others = [counter for name, counter in COUNTERS.items() if name != switch and counter != "evictions"]
    assert [found[counter] for counter in others] == [0] * len(others)
    if switch == "break_everywhere":  # every instruction, so no callee is inlined and kernels cannot fuse across them
        assert found["steps_everywhere"] > 100
        assert found["call_outs"] > without["call_outs"]
    elif switch == "miss_every_guard":
        assert found["segments"] > without["segments"]
    elif switch == "no_fuse":
        assert found["kernels"] > without["kernels"]
        assert found["unfused"] == found["segments"]
    elif switch == "no_frameless":
        assert found["frameless_calls"] == 0 < without["frameless_calls"]
        assert found["frames"] > without["frames"]
    if switch != "tiny_code_memory":
        assert found["fallbacks"] == 0


def test_all_at_once():
    found = counters_of(PROGRAM, ",".join(COUNTERS))
    assert found["steps_everywhere"] > 0 and found["early_frames"] > 0 and found["unfused"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not CASES, reason="there is no folder ../shared/cases")
@pytest.mark.parametrize("switch", COUNTERS)
def test_switch_over_the_cases(switch):
    """All cases in one process: each passes, and the switch acted."""
    text = "import runpy\n" + "".join(f"runpy.run_path({str(path)!r})\n" for path in CASES)
    found = counters_of(text, switch)
    if switch != "tiny_code_memory":  # the cases alone may not fill the memory
        assert found[COUNTERS[switch]] > 0


def test_unknown_names_are_told():
    environment = {**os.environ, "KINTSUGI_STRESS": "break_evrywhere", "KINTSUGI_ISA": "avx9", "KINTSUGI_LOGS": "grphs"}
    done = subprocess.run([sys.executable, "-c", "import kintsugi"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    for text in ("no switch is called 'break_evrywhere'; there are break_everywhere,", "'grphs'",
                 "no instruction set is called 'avx9'; there are x86-64-v1, x86-64-v3, x86-64-v4"):
        assert text in done.stderr
