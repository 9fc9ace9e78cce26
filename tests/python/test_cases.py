"""The cases of ../shared/cases: each is a script that asserts plain and compiled values and ends silently. A process each, so
under whatever switch, instruction set or sanitizer this run has."""
import pathlib
import subprocess
import sys

import pytest

CASES = pathlib.Path(__file__).parents[2].parent / "shared" / "cases"
SCRIPTS = sorted(CASES.glob("case*.py"))
NO_CASES = [pytest.param(CASES, marks=pytest.mark.skip(reason=f"there is no folder {CASES}"))]


@pytest.mark.parametrize("script", SCRIPTS or NO_CASES, ids=lambda path: path.stem)
def test_case(script):
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
