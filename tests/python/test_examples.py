"""The programs of examples_spec/, each in a fresh child process: its exact output, and as many source lines that break as
it says. Then again with every `backend=` left out: the same but for what counters print and for what the backends themselves do.
What a stress switch changes is a whole output of its own in examples.toml: nothing is skipped."""
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import traceback

import pytest

import kintsugi as kt
from kintsugi._runtime import _driver

HERE = pathlib.Path(__file__).parent
PROGRAMS = sorted((HERE / "examples_spec").glob("*.py"))
TABLE = tomllib.loads((HERE / "examples.toml").read_text())
STRESS = os.environ.get("KINTSUGI_STRESS", "")
pytestmark = pytest.mark.slow  # a process a program
NUMBER = "<n>"
# Numbers in them come from explain() or kt._dynamo.utils.counters.
ALL_NUMBERS_COUNT = {"exp_01", "exp_02"}


class Anything:
    """A counter's figure, where it is not compared."""

    def __str__(self):
        return NUMBER

    __repr__ = __str__


class Blind:
    """Stands for CompileCounter where no backend is given to compile, or where a switch changes how much is compiled."""
    frame_count = op_count = property(lambda self: Anything())

    def __call__(self, graph, inputs):
        return graph.forward

    def clear(self):
        pass


class WithoutBackends(ast.NodeTransformer):
    def visit_Call(self, call):
        self.generic_visit(call)
        call.keywords = [word for word in call.keywords if word.arg != "backend"]
        return call


def in_child(work):
    """What work() answers in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            answer = work()
        except BaseException:
            answer = {"failure": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


def run(path, backends, counted):
    """{"output", "failure", "raised": its class, "lines": where it broke}."""
    def work():
        testing = getattr(kt._dynamo, "testing")
        if not counted:
            testing.CompileCounter = Blind
        tree = ast.parse(path.read_text(), str(path))
        if not backends:
            tree = ast.fix_missing_locations(WithoutBackends().visit(tree))
        names = {"__name__": path.stem, "kt": kt, "cnt": testing.CompileCounter() if hasattr(testing, "CompileCounter") else None}
        out, failure, raised = io.StringIO(), None, None
        if path.stem not in ALL_NUMBERS_COUNT:  # explain() records too
            _driver.start_recording()
        with contextlib.redirect_stdout(out), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            try:
                exec(compile(tree, str(path), "exec"), names)
            except Exception as error:
                failure, raised = traceback.format_exc(), type(error).__name__
        lines = {record["stack"][-1].rsplit(":", 1)[0] for record in _driver.stop_recording() if record["stack"]}
        return {"output": out.getvalue(), "failure": failure, "raised": raised, "lines": sorted(lines)}

    return in_child(work)


def expected_of(path, backends, stress=STRESS):
    """(output, the class of an exception that leaves the program, number of source lines that break)."""
    text = path.read_text()
    rows = [TABLE["under_stress"].get(stress, {}), {} if backends else TABLE["without_backends"], TABLE["other_output"]]
    row = next((table[path.stem] for table in rows if path.stem in table), {})
    output = row.get("output", re.findall(r"^# \| (.*)$", text, re.M))
    lines = re.search(r"at (\d+) source line", text)
    return "".join(line + "\n" for line in output), row.get("raises"), int(lines.group(1)) if lines else 0


def same(got, wanted, path):
    """Equal, but for figures that stand for themselves in `got`."""
    if path.stem in ALL_NUMBERS_COUNT:
        got, wanted = (re.sub(r"\d+", NUMBER, text) for text in (got, wanted))
    return re.fullmatch(re.escape(got).replace(re.escape(NUMBER), r"(\d+|<n>)"), wanted) is not None


def judge(path, backends):
    """None, or what is wrong."""
    counted = backends and not STRESS
    done = run(path, backends, counted)
    output, raises, lines = expected_of(path, backends)
    if done["failure"] and done.get("raised") != raises:
        return done["failure"]
    if raises and not done["failure"]:
        return f"{raises} should leave it"
    if not (done["output"] == output if counted else same(done["output"], output, path)):
        return f"printed\n{done['output']}instead of\n{output}"
    if counted and path.stem not in ALL_NUMBERS_COUNT:
        lines = TABLE["other_lines"].get(path.stem, {}).get("lines", lines)
        if len(done["lines"]) != lines:
            return f"{lines} source lines should break, not {done['lines']}"
    return None


def check(path, backends):
    wrong = judge(path, backends)
    assert wrong is None, wrong


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_as_written(path):
    check(path, backends=True)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_without_backends(path):
    check(path, backends=False)


def test_the_table_names_programs_that_exist():
    names = {path.stem for path in PROGRAMS}
    tables = [TABLE["other_output"], TABLE["other_lines"], TABLE["without_backends"], *TABLE["under_stress"].values()]
    assert set().union(*tables) <= names


def test_each_row_says_something_else():
    """What is expected without it. A row that does not has no use any more."""
    for name, row in TABLE["other_output"].items():
        assert row["output"] != re.findall(r"^# \| (.*)$", (HERE / f"examples_spec/{name}.py").read_text(), re.M), name
    for name, row in TABLE["other_lines"].items():
        assert row["lines"] != expected_of(HERE / f"examples_spec/{name}.py", True)[2], name
    for name in TABLE["without_backends"]:
        path = HERE / f"examples_spec/{name}.py"
        assert "backend=" in path.read_text() and not same(*[expected_of(path, backends, "")[0] for backends in (False, True)], path), name
    for switch, rows in TABLE["under_stress"].items():
        for name in rows:
            path = HERE / f"examples_spec/{name}.py"
            (output, raises, _), (usual, *_) = expected_of(path, True, switch), expected_of(path, True, "")
            assert raises or not same(output, usual, path), (switch, name)


@pytest.mark.parametrize("switch", TABLE["under_stress"])
def test_rows_under_stress(switch, stress):
    """Where no switch is on too: what changes such a row is seen before a run with all switches."""
    if stress:
        pytest.skip("this run looks itself at what it changes")
    environment = {**os.environ, "KINTSUGI_STRESS": switch, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, __file__, *TABLE["under_stress"][switch]], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def main(names):
    """Says which programs do not give their output, and why: all, with and without backends, or those that are named, with them."""
    failed = False
    for backends in (True,) if names else (True, False):
        wrong = {path.stem: judge(path, backends) for path in PROGRAMS if not names or path.stem in names}
        for name, why in wrong.items():
            if why:
                print(f"==== {name}\n{why}")
        print(f"{'with' if backends else 'without'} backends: {list(wrong.values()).count(None)} of {len(wrong)} pass")
        failed = failed or any(wrong.values())
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
