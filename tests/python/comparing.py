"""One function, run plain and compiled, seen from outside: value, output, exceptions with their whole tracebacks, changed
arguments, and what is left in memory. `compare` does all of it and proves by the counters that the compiled runs were
native. Used by test_breaks, test_raises, test_attacks and test_memory."""
import contextlib
import gc
import importlib
import io
import os
import subprocess
import sys
import textwrap

import kintsugi as kt

native = kt._dynamo.utils.counters["native"]
runtime = importlib.import_module("kintsugi._runtime")
STRESS = os.environ.get("KINTSUGI_STRESS", "")
SANITIZED = os.environ.get("KINTSUGI_SANITIZED") == "1"
RUNS = 4  # the first compiles, the second may learn; from the third on nothing new is expected


# ---- What can be seen ------------------------------------------------------------------------------------------------


def snapshot(value, seen=()):
    """A value as plain data that compares by content, type, dtype and layout; a shared or cyclic part by where it was."""
    if isinstance(value, kt.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), value.stride(), repr(value.tolist())
    if id(value) in seen:
        return "again", len(seen) - seen.index(id(value))
    seen = (*seen, id(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        items = value if isinstance(value, (list, tuple)) else sorted(value, key=repr)
        return type(value).__name__, *[snapshot(item, seen) for item in items]
    if isinstance(value, dict):
        return type(value).__name__, *[(snapshot(key, seen), snapshot(item, seen)) for key, item in value.items()]
    if isinstance(value, BaseException):
        return describe_error(value)
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if hasattr(value, "__dict__"):
        return type(value).__name__, snapshot(vars(value), seen)
    return type(value).__name__, repr(value) if type(value).__repr__ is not object.__repr__ else ""


def describe_error(error):
    if error is None:
        return None
    return (type(error).__name__, str(error), getattr(error, "name", None), describe_error(error.__cause__),
            error.__suppress_context__, describe_error(error.__context__), trail(error))


def trail(error):
    """Every frame of a traceback from the function on: name, line, and the columns within."""
    entries, where = [], error.__traceback__
    while where is not None and where.tb_frame.f_globals.get("__name__") == __name__:
        where = where.tb_next
    while where is not None:
        code = where.tb_frame.f_code
        entries.append((code.co_name, where.tb_lineno, list(code.co_positions())[where.tb_lasti // 2]))
        where = where.tb_next
    return entries


def observe(function, make):
    """One call: what it answers or raises, prints, and leaves in its arguments."""
    arguments = make()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            result = "value", snapshot(function(*arguments))
        except Exception as error:
            result = "raised", describe_error(error)
    return {"result": result, "output": output.getvalue(), "arguments": snapshot(arguments)}


# ---- Comparing ---------------------------------------------------------------------------------------------------------


def counts():
    return dict(native.items())


def changes(before):
    return {name: value - before[name] for name, value in counts().items() if value != before[name]}


def compare(function, *makes, **expected):
    """Runs plain and compiled in turn, with the arguments of each of `makes`; several of them are one history of a single
    compiled function. `expected`: counters of the last round, such as hand_overs=1. Answers the last round's counters."""
    kt._dynamo.reset()
    compiled = kt.compile(function)
    start = counts()
    for run in range(RUNS):
        last = {}
        for make in makes or (tuple,):
            plain = observe(function, make)
            before = counts()
            got = observe(compiled, make)
            for name, more in changes(before).items():
                last[name] = last.get(name, 0) + more
            assert got == plain, f"run {run + 1} of {function.__name__}"
    total = changes(start)
    if STRESS != "tiny_code_memory":  # there, what finds no room runs plain
        assert total.get("segments", 0) > 0, "nothing was compiled"
        assert total.get("fallbacks", 0) == 0, kt._dynamo.utils.counters["fallback"]
    if not STRESS:
        assert total.get("plain_calls", 0) == 0, "the calls were forwarded"
        assert {name: last.get(name, 0) for name in expected} == expected, kt._dynamo.utils.counters["hand_over"]
    return last


def what_is_left(function, *makes, rounds=20):
    """What more there is after a call, in the long run: [allocated blocks, buffers, layouts]."""
    kt._dynamo.reset()
    compiled = kt.compile(function)

    def run():
        for make in makes or (tuple,):
            observe(compiled, make)

    marks = []
    for _ in range(40):  # caches, CPython's own among them, fill up at first
        for _ in range(rounds):
            run()
        gc.collect()
        marks.append((sys.getallocatedblocks(), *runtime._live()))
        left = [(now - then) / rounds for now, then in zip(marks[-1], marks[-2])] if marks[1:] else [1]
        if left[0] < 0.5 and not any(left[1:]):
            break
    return left


class Programs(list):
    """Rows (function, makes, expected), filled by decorators; each make gives fresh arguments for a call."""

    def __call__(self, *makes, together=False, **expected):
        def register(function):
            histories = [makes] if together or not makes else [(make,) for make in makes]
            self.extend((function, history, expected) for history in histories)
            return function

        return register

    def names(self):
        return [f"{function.__name__}-{number}" for number, (function, *_) in enumerate(self)]


# ---- Whole processes ---------------------------------------------------------------------------------------------------


def run_script(text, *arguments, timeout=120, **options):
    """Runs a program of its own, with `kt` and `native` at hand."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p), PYTHONFAULTHANDLER="1")
    head = "import kintsugi as kt\nnative = kt._dynamo.utils.counters['native']\n"
    return subprocess.run([sys.executable, "-c", head + textwrap.dedent(text), *arguments], env=environment, text=True,
                          capture_output=True, timeout=timeout, **options)


def output_of(text, *arguments, **options):
    done = run_script(text, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout
