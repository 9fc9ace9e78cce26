"""Generated pages are current, and the examples beside the demo run."""
import itertools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

import pytest

from comparing import SANITIZED

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_ops_page_is_what_the_table_says():
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_ops.py"), "--check"], check=True)


def test_breaks_page_is_what_the_table_says():
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_breaks.py"), "--check"], check=True)


def indented(text):
    """The first indented block of it, as it would stand in a file."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    "))
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), lines[first:])
    return "".join(line[4:] + "\n" for line in block).rstrip("\n") + "\n"


def test_the_readme_prints_what_it_says(stress, tmp_path):
    """Of explain's lines it has those of counts, and of each break its kind, place and source line, in one."""
    if stress:
        pytest.skip("other breaks")
    program, told = (ROOT / "README.md").read_text().partition("## Ten lines")[2].split("\nprints, ")
    script = tmp_path / "example.py"
    script.write_text(indented(program))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    printed = iter(line.strip() for line in done.stdout.splitlines())
    for line in indented(told).splitlines():
        kind, here, place = line.strip().partition(": example.py:")
        assert kind in printed, line
        if here:
            assert any(f"example.py:{place}" in each for each in printed), line


def test_small_network_runs():
    told = subprocess.run([sys.executable, str(ROOT / "examples" / "mlp.py")], capture_output=True, text=True, check=True)
    assert "equal: True" in told.stdout and told.stderr == ""


def test_cpp_host_runs(tmp_path, stress):
    """The command in its first lines; 10^6 calls from a thread of its own, none of them an error."""
    if stress or SANITIZED or shutil.which("g++") is None:
        pytest.skip("a program of its own, without sanitizers and switches")
    say = sysconfig.get_config_var
    host = tmp_path / "embed"
    subprocess.run(["g++", "-O1", "-std=c++20", str(ROOT / "examples" / "embed.cpp"), f"-I{say('INCLUDEPY')}",
                    f"-L{say('LIBDIR')}", f"-lpython{say('LDVERSION')}", *shlex.split(say("LIBS")), *shlex.split(say("SYSLIBS")),
                    f"-Wl,-rpath,{say('LIBDIR')}", "-lpthread", "-o", str(host)], check=True)
    told = subprocess.run([str(host), "4000000"], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert told.stdout.startswith("tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000])\nmedian"), told
    assert told.stderr == ""
