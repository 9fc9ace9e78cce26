"""Small programs, one for each thing that the tracer follows without a break, in the language_*.py files beside this one.
test_language.py compares them plain and compiled; test_expected_native.py compares what was compiled of them with the part
of expected_native.toml that is named as the file.

`@followed(arguments)` gives a program the function that makes its arguments, anew for each call. A program's effects show
in its arguments or in `effects`, a dict that is emptied before each call.
"""
import importlib
import pathlib

import kintsugi as kt

PROGRAMS = {}
PARTS = {}  # of which file: names in order
effects = {}


def followed(arguments):
    def keep(function):
        assert function.__name__ not in PROGRAMS, function.__name__
        PROGRAMS[function.__name__] = (function, arguments)
        PARTS.setdefault(function.__module__.removeprefix("language_"), []).append(function.__name__)
        return function
    return keep


def x3():
    return kt.tensor([1.0, 2.0, 3.0])


def x23():
    return kt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


for path in sorted(pathlib.Path(__file__).parent.glob("language_*.py")):
    if path.stem != __name__:
        importlib.import_module(path.stem)
