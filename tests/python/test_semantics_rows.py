"""Each row of the tables of behaviour has a test: see semantics_rows.py."""
import importlib
import pathlib

import pytest

import semantics_rows

for _path in sorted(pathlib.Path(__file__).parent.glob("test_semantics_*.py")):
    if _path.stem != "test_semantics_rows":
        importlib.import_module(_path.stem)


@pytest.mark.parametrize("section", semantics_rows.ROWS)
def test_every_row_has_a_test(section):
    missing = [name for name in semantics_rows.ROWS[section] if name not in semantics_rows.covered.get(section, ())]
    assert not missing, f"section {section}: no test covers {missing}"
