"""Programs as people write them (tests/python/programs): each runs plain and compiled, three calls with other inputs,
twice over. Results, prints, changed arguments and exceptions agree; kernels ran natively; nothing fell back.
`python test_program_folder.py [name]` tells where each one breaks, most frequent reasons first.
"""
import collections
import importlib.util
import pathlib
import sys

import pytest

import kintsugi as kt
from comparing import counts, observe

FOLDER = pathlib.Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
TURNS = (0, 1, 2, 0, 1, 2)


def load(name):
    """A module of its own each time: nothing compiled, class attributes as written."""
    spec = importlib.util.spec_from_file_location("program_" + name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_enough():
    assert len(NAMES) >= 40


@pytest.mark.parametrize("name", NAMES)
def test_program(name, stress):
    plain, compiled = load(name), load(name)
    fast = kt.compile(compiled.run)
    before = counts()
    for turn in TURNS:
        want = observe(plain.run, lambda: plain.make_arguments(turn))
        assert want["result"][0] == "value", want
        assert observe(fast, lambda: compiled.make_arguments(turn)) == want, turn
    after = counts()
    if stress != "tiny_code_memory":
        assert after["fallbacks"] == before["fallbacks"], kt._dynamo.utils.counters["fallback"]
    assert after["segments"] > before["segments"]
    if stress != "break_everywhere":
        assert after["kernels"] > before["kernels"]


def main(names):
    total = collections.Counter()
    places = collections.defaultdict(list)
    for name in names or NAMES:
        module = load(name)
        kt._dynamo.reset()
        kt._dynamo.utils.counters.clear()
        told = kt._dynamo.explain(module.run)(*module.make_arguments(0))
        native = counts()
        print(f"{name}: {told.graph_break_count} breaks, {native['call_outs']} call-outs, {native['hand_overs']} hand-overs")
        for reason in told.break_reasons:
            text = reason.reason.splitlines()[0]
            frame = reason.user_stack[-1]
            total[text] += 1
            places[text].append(f"{name} {frame.lineno}: {frame.line}")
    for text, number in total.most_common():
        print(number, text)
        for place in dict.fromkeys(places[text]):
            print("      ", place)


if __name__ == "__main__":
    main(sys.argv[1:])
