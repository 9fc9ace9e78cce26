"""The programs of examples_spec/, each in a fresh child process: its exact output, and as many source lines that break as
it says. Then again with every `backend=` left out: the same but for what counters print."""
import ast
import contextlib
import io
import json
import os
import pathlib
import re
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
    """{"output", "failure", "lines": where it broke}."""
    def work():
        testing = getattr(kt._dynamo, "testing")
        if not counted:
            testing.CompileCounter = Blind
        tree = ast.parse(path.read_text(), str(path))
        if not backends:
            tree = ast.fix_missing_locations(WithoutBackends().visit(tree))
        names = {"__name__": path.stem, "kt": kt, "cnt": testing.CompileCounter() if hasattr(testing, "CompileCounter") else None}
        out, failure = io.StringIO(), None
        if path.stem not in ALL_NUMBERS_COUNT:  # explain() records too
            _driver.start_recording()
        with contextlib.redirect_stdout(out), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            try:
                exec(compile(tree, str(path), "exec"), names)
            except Exception:
                failure = traceback.format_exc()
        lines = {record["stack"][-1].rsplit(":", 1)[0] for record in _driver.stop_recording() if record["stack"]}
        return {"output": out.getvalue(), "failure": failure, "lines": sorted(lines)}

    return in_child(work)


def expected_of(path):
    text = path.read_text()
    output = TABLE["other_output"].get(path.stem, {}).get("output")
    if output is None:
        output = re.findall(r"^# \| (.*)$", text, re.M)
    lines = re.search(r"at (\d+) source line", text)
    return "".join(line + "\n" for line in output), int(lines.group(1)) if lines else 0


def same(got, wanted, path):
    """Equal, but for figures that stand for themselves in `got`."""
    if path.stem in ALL_NUMBERS_COUNT:
        got, wanted = (re.sub(r"\d+", NUMBER, text) for text in (got, wanted))
    return re.fullmatch(re.escape(got).replace(re.escape(NUMBER), r"(\d+|<n>)"), wanted) is not None


def judge(path, backends):
    """None, or what is wrong."""
    counted = backends and not STRESS
    done = run(path, backends, counted)
    output, lines = expected_of(path)
    if done["failure"]:
        return done["failure"]
    if not (done["output"] == output if counted else same(done["output"], output, path)):
        return f"printed\n{done['output']}instead of\n{output}"
    if counted and path.stem not in ALL_NUMBERS_COUNT:
        lines = TABLE["other_lines"].get(path.stem, {}).get("lines", lines)
        if len(done["lines"]) != lines:
            return f"{lines} source lines should break, not {done['lines']}"
    return None


def check(path, backends):
    if path.stem in TABLE["under_stress"].get(STRESS, []):
        pytest.skip(f"{STRESS} changes what is traced")
    wrong = judge(path, backends)
    if path.stem in TABLE["not_yet"]["with_backends" if backends else "without_backends"]:
        assert wrong or STRESS, f"{path.stem} passes: strike it off examples.toml"
        pytest.skip("not yet")
    if STRESS == "break_everywhere" and path.stem in ALL_NUMBERS_COUNT:
        pytest.skip("what it prints follows from counts, which are others there")
    assert wrong is None, wrong


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_as_written(path):
    check(path, backends=True)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_without_backends(path):
    check(path, backends=False)


def test_the_table_names_programs_that_exist():
    names = {path.stem for path in PROGRAMS}
    listed = [*TABLE["not_yet"]["with_backends"], *TABLE["not_yet"]["without_backends"], *TABLE["other_output"], *TABLE["other_lines"]]
    assert set(listed) <= names


def main():
    """Writes the lists of examples.toml as they would be now; -v says why."""
    table = HERE / "examples.toml"
    text = table.read_text()
    for key, backends in (("with_backends", True), ("without_backends", False)):
        wrong = {path.stem: judge(path, backends) for path in PROGRAMS}
        for name, why in wrong.items():
            if why and "-v" in sys.argv:
                print(f"==== {name}\n{why}")
        names = [f'"{name}"' for name, why in wrong.items() if why]
        rows = "".join("    " + ", ".join(names[at:at + 10]) + ",\n" for at in range(0, len(names), 10))
        text = re.sub(rf"^{key} = \[.*?\]", f"{key} = [\n{rows}]", text, flags=re.M | re.S)
        print(f"{key}: {len(PROGRAMS) - len(names)} of {len(PROGRAMS)} pass")
    table.write_text(text)


if __name__ == "__main__":
    main()
