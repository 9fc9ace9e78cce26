"""Generated pages are current, and the examples beside the demo run."""
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
