"""Generated pages are current."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_ops_page_is_what_the_table_says():
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_ops.py"), "--check"], check=True)


def test_breaks_page_is_what_the_table_says():
    subprocess.run([sys.executable, str(ROOT / "docs" / "make_breaks.py"), "--check"], check=True)
