"""What is compiled of which program: graphs, breaks with their lines, call-outs, hand-overs, kernels, against
expected_native.toml, exactly. Rows are the programs of the language_*.py files, cases those of ../shared/cases, demo is
examples/kalman.py. `python test_expected_native.py` prints the file as it would be now.
"""
import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tomllib

import pytest

import kintsugi as kt
from kintsugi._runtime import _driver

import language_programs

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CASES = ROOT.parent / "shared" / "cases"
EXPECTED = tomllib.loads((HERE / "expected_native.toml").read_text())
ROWS = {name: row for part in language_programs.PARTS for name, row in EXPECTED[part].items()}
KEYS = ("graphs", "tensor_ops", "breaks", "call_outs", "hand_overs", "kernels", "fallbacks")

native = kt._dynamo.utils.counters["native"]


def load(path):
    """A script as a module of its own, its folder importable meanwhile."""
    spec = importlib.util.spec_from_file_location("expected_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def shown(value):
    """A value as text and plain containers, so that two runs can be compared: types, dtypes, bits, attributes."""
    if isinstance(value, kt.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), repr(value.tolist())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(item)) for key, item in value.items()]
    if isinstance(value, (int, float, str, type(None))):
        return type(value).__name__, repr(value)
    slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)}
    if callable(value) or not hasattr(value, "__dict__") and not slots:
        return type(value).__name__
    return type(value).__name__, shown({**getattr(value, "__dict__", {}), **slots})


def outcome(function, make_arguments):
    arguments = make_arguments()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            result = shown(function(*arguments))
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, shown(arguments), shown(language_programs.effects), printed.getvalue()


def breaks(records, file):
    """Where traces ended, in order, in the program's own file."""
    for record in records:
        if not record["break"]:
            continue
        place, line, name = record["stack"][-1].rsplit(":", 2)
        if place == file:
            yield f"{pathlib.Path(place).name}:{line} in {name}: {record['break'].splitlines()[0]}"


def measure(function, make_arguments):
    """Three identical calls: what was compiled in them, and what the third one did. The values are checked on the way."""
    plain = outcome(function, make_arguments)
    kt._dynamo.reset()
    kt._dynamo.utils.counters.clear()
    _driver.start_recording()
    try:
        fast = kt.compile(function)
        for _ in range(2):
            assert outcome(fast, make_arguments) == plain
        before = dict(native)
        assert outcome(fast, make_arguments) == plain
        after = dict(native)
    finally:
        records = _driver.stop_recording()
    done = {key: after[key] - before[key] for key in after}
    return {
        "graphs": sum(record["tensor_ops"] > 0 for record in records),
        "tensor_ops": sum(record["tensor_ops"] for record in records),
        "breaks": list(breaks(records, function.__code__.co_filename)),
        "call_outs": done["call_outs"], "hand_overs": done["hand_overs"], "kernels": done["kernels"],
        "fallbacks": after["fallbacks"],
    }


def measure_row(name):
    return measure(*language_programs.PROGRAMS[name])


def measure_case(name):
    if not CASES.is_dir():
        pytest.skip(f"there is no {CASES}")
    row = EXPECTED["cases"][name]
    module = load(CASES / f"{name}.py")
    function = eval(row["function"], vars(module))
    return measure(function, lambda: eval(f"({row['arguments']},)", vars(module)))


def measure_demo(name):
    """A step of the log: the robot is brought to it by plain calls, each time anew."""
    kalman = load(ROOT / "examples" / "kalman.py")
    readings = kalman.read_log(kalman.vector)
    index = EXPECTED["demo"][name]["step"]

    def arguments():
        robot = kalman.PoseFilter(kalman.START)
        for reading in readings[:index]:
            kalman.follow(robot, reading)
        return robot, readings[index]
    return measure(kalman.follow, arguments)


def compare(found, row):
    assert found == {key: row[key] for key in KEYS}


@pytest.fixture
def counted(stress):
    if stress:
        pytest.skip(f"{stress} changes the numbers")


def test_every_program_has_a_row():
    assert set(EXPECTED) == {*language_programs.PARTS, "cases", "demo"}
    for part, programs in language_programs.PARTS.items():
        assert list(EXPECTED[part]) == programs
    if CASES.is_dir():
        assert set(EXPECTED["cases"]) == {path.stem for path in CASES.glob("case*.py")}


def test_what_is_followed_has_no_break():
    for name, row in ROWS.items():
        if name in EXPECTED["breaking"]:
            assert row["breaks"] and row["kernels"] >= 1 and row["fallbacks"] == 0, name
            continue
        assert row["breaks"] == [] and row["call_outs"] == row["hand_overs"] == row["fallbacks"] == 0, name
        assert row["graphs"] == 1 and row["kernels"] >= 1, name
    for name, row in [*EXPECTED["cases"].items(), *EXPECTED["demo"].items()]:
        assert row["fallbacks"] == 0, name


@pytest.mark.parametrize("name", ROWS)
def test_row(name, counted):
    compare(measure_row(name), ROWS[name])


@pytest.mark.parametrize("name", EXPECTED["cases"])
def test_case(name, counted):
    compare(measure_case(name), EXPECTED["cases"][name])


@pytest.mark.parametrize("name", EXPECTED["demo"])
def test_demo(name, counted):
    compare(measure_demo(name), EXPECTED["demo"][name])


def test_fails_when_nothing_is_compiled(counted):
    """The numbers above prove something: with compile replaced by the identity each row, case and demo step fails."""
    program = ("import sys, pytest, kintsugi as kt\n"
               "kt.compile = lambda function, **settings: function\n"
               "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', '--tb=no', '-k', 'test_row or test_case or test_demo', "
               f"{str(HERE / 'test_expected_native.py')!r}]))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    passed = [name for name in done.stdout.splitlines() if " passed" in name]
    rest = [row for kind in ("cases", "demo") for row in EXPECTED[kind].values() if row["graphs"] or row["breaks"]]
    failed = len(ROWS) + (len(rest) if CASES.is_dir() else len(EXPECTED["demo"]))
    assert f"{failed} failed" in done.stdout, passed


def main():
    def text(value):
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]" if len(value) < 2 else "[\n" + "".join(f"  {text(v)},\n" for v in value) + "]"
        return '"' + value.replace('"', '\\"') + '"' if isinstance(value, str) else str(value)

    print((HERE / "expected_native.toml").read_text().split("[")[0].rstrip())
    for part, programs in language_programs.PARTS.items():
        print(f"\n[{part}]")
        for name in programs:
            found = measure_row(name)
            print(f"{name} = {{ " + ", ".join(f"{key} = {text(value)}" for key, value in found.items()) + " }")
    for kind, run in (("cases", measure_case), ("demo", measure_demo)):
        for name, row in EXPECTED[kind].items():
            print(f"\n[{kind}.{name}]")
            given = {key: value for key, value in row.items() if key not in KEYS}
            for key, value in {**given, **run(name)}.items():
                print(f"{key} = {text(value)}")


if __name__ == "__main__":
    main()
