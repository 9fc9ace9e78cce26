"""The programs in documents/, after the subjects of PyTorch's pages on its programming model: scripts that say `import torch`, run as
`python -m kintsugi run --as torch` runs them. Each prints what its comments say, and breaks at as many source lines. Then the
command itself: arguments, exit codes, tracebacks."""
import contextlib
import gc
import io
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

import kintsugi as kt
from kintsugi._runtime import _driver
from kintsugi.run import StandIn
from kintsugi.utils import _pytree

PROGRAMS = sorted((pathlib.Path(__file__).parent / "documents").glob("*.py"))
COUNTS_DIFFER = ("break_everywhere", "miss_every_guard", "tiny_code_memory")


@pytest.fixture
def torch(monkeypatch):
    """`import torch` gets kintsugi; what a program registers and sets is undone."""
    monkeypatch.setattr(_pytree, "SUPPORTED_NODES", dict(_pytree.SUPPORTED_NODES))
    main = sys.modules["__main__"]
    stance, logs = _driver.set_stance(0, None), kt._dynamo.config
    kt._dynamo.reset()
    with StandIn("torch"):
        yield
    sys.modules["__main__"] = main
    kt._dynamo.reset()
    kt._logging.set_logs()
    _driver.set_stance(*stance)
    _driver.set_error_on_graph_break(False)
    for names in (logs.reorderable_logging_functions, logs.ignore_logging_functions):
        names.clear()
    gc.collect()


def run(path):
    """(what it prints, the source lines of it that broke)."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    out = io.StringIO()
    _driver.start_recording()
    with contextlib.redirect_stdout(out):
        exec(compile(path.read_text(), str(path), "exec"), vars(main))
    lines = {record["stack"][-1].rsplit(":", 1)[0] for record in _driver.stop_recording() if record["stack"]}
    return out.getvalue(), {line for line in lines if line.startswith(str(path))}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path, torch, stress):
    if stress in COUNTS_DIFFER:
        pytest.skip("counts of graphs are others there")
    text = path.read_text()
    printed, lines = run(path)
    assert printed == "".join(line + "\n" for line in re.findall(r"^# \| ?(.*)$", text, re.M))
    if "explain(" not in text:  # which records too
        assert len(lines) == int(re.search(r"^# breaks: (\d+)$", text, re.M)[1]), lines


# ---- The command ---------------------------------------------------------------------------------------------------


def command(*arguments, module=True, **more):
    environment = {**os.environ, "KINTSUGI_STRESS": "", "PYTHONDONTWRITEBYTECODE": "1"}
    start = ["-m", "kintsugi", "run"] if module else []
    return subprocess.run([sys.executable, *start, *map(str, arguments)], capture_output=True, text=True, env=environment, **more)


SCRIPT = """
import sys, torch, torch._dynamo
import __main__
def fails(x):
    return x + missing

@torch.compile
def f(x):
    return fails(x * 2)

print(__name__, __main__.f is f, sys.argv, __spec__, __package__, torch.compile(lambda x: x + 1)(torch.ones(1)).tolist())
if "fail" in sys.argv:
    f(torch.ones(1))
sys.exit(3)
"""


def test_command(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = command("--as", "torch", "--counters", "script.py", "--as", "other", "-x", cwd=tmp_path)
    assert done.stdout == "__main__ True ['script.py', '--as', 'other', '-x'] None None [2.0]\n", done.stderr
    assert done.returncode == 3 and "native" in done.stderr
    failed = command("--as", "torch", script, "fail")
    (tmp_path / "torch.py").write_text("from kintsugi import *; import kintsugi as kt; compile = kt.compile")
    (tmp_path / "plain.py").write_text(SCRIPT.replace(", torch._dynamo", ""))
    plain = command("plain.py", "fail", module=False, cwd=tmp_path)
    assert failed.returncode == plain.returncode == 1
    assert failed.stderr == plain.stderr.replace(str(tmp_path / "plain.py"), str(script))
    assert failed.stderr.startswith("Traceback (most recent call last):\n  File \"" + str(script)) and "NameError" in failed.stderr


def test_command_refuses(tmp_path):
    missing = command("--as", "torch", "nowhere.py", cwd=tmp_path)
    plain = command("nowhere.py", module=False, cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (plain.returncode, plain.stderr)
    (tmp_path / "broken.py").write_text("x = (\n")
    broken, plain = command("broken.py", cwd=tmp_path), command("broken.py", module=False, cwd=tmp_path)
    assert (broken.returncode, broken.stderr) == (plain.returncode, plain.stderr)
    assert command("--as", "jax", "broken.py", cwd=tmp_path).returncode == 2


# ---- The stand-in --------------------------------------------------------------------------------------------------


def test_stand_in_hides_what_was_there():
    real, part = types.ModuleType("torch"), types.ModuleType("torch.part")
    sys.modules.update({"torch": real, "torch.part": part})
    spec = kt._dynamo.__spec__
    with StandIn("torch"):
        import torch
        import torch._dynamo.config
        assert torch is kt and sys.modules["torch._dynamo"] is kt._dynamo and "torch.part" not in sys.modules
        assert torch._dynamo.config is kt._dynamo.config and kt._dynamo.__spec__ is spec
        with pytest.raises(ModuleNotFoundError, match="stands for torch"):
            import torch.part  # noqa: F401
    assert sys.modules.pop("torch") is real and sys.modules.pop("torch.part") is part
    assert not any(name.startswith("torch") for name in sys.modules)
    with pytest.raises(ModuleNotFoundError):
        import torch  # noqa: F811


def test_imports_inside_compiled_code(torch):
    def f(x):
        import torch
        import torch._dynamo.exc as errors
        from torch._dynamo import exc
        return torch.sin(x), errors is exc, exc.Unsupported is kt._dynamo.exc.Unsupported

    f(kt.ones(1))
    assert kt.compile(f, fullgraph=True)(kt.ones(1))[1:] == (True, True)
