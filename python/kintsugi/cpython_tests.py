"""python -m kintsugi cpython-tests: CPython's own test suite as judge of the runtime.

    python -m kintsugi cpython-tests [--stress SWITCHES] [--limit SECONDS] [--write FILE] [--quarter N] [MODULE...]

Each module of the interpreter's `test` package runs twice in processes of its own: plain, and with every ordinary function
captured and compiled at its first call. Outcomes are compared test by test; a test in which the process dies or hangs has that
as its outcome, and the rest goes on in a new process. Exit status 1: a test differs for no reason that
cpython_differences.toml gives. Without MODULE: the list below.
"""
import argparse
import concurrent.futures
import contextlib
import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import unittest

MODULES = """
    test_generators test_yield_from test_genexps test_exceptions test_exception_group test_raise test_except_star test_with
    test_contextlib test_scope test_keywordonlyarg test_positional_only_arg test_extcall test_call test_class test_descr
    test_super test_property test_dataclasses test_enum test_abc test_dict test_list test_tuple test_set test_deque
    test_ordered_dict test_defaultdict test_collections test_iter test_itertools test_functools test_operator test_builtin
    test_range test_slice test_unpack test_unpack_ex test_patma test_named_expressions test_fstring test_format test_listcomps
    test_setcomps test_dictcomps test_augassign test_compare test_richcmp test_binop test_bool test_int test_float test_long
    test_complex test_copy test_weakref test_gc test_sys_settrace test_sys_setprofile test_frame test_inspect test_traceback
    test_asyncgen test_coroutines test_threading test_fork1 test_pickle test_decorators test_global test_syntax
    test_isinstance test_metaclass test_sort test_types test_typing test_heapq test_fractions test_statistics test_textwrap
    test_re""".split()

# Run under each stress switch too, and in no more time.
STRESS_MODULES = """test_generators test_exceptions test_contextlib test_descr test_dataclasses test_dict test_functools
    test_patma test_itertools test_traceback""".split()

SHOWN_COUNTERS = ["segments", "segment_runs", "captured_frames", "call_outs", "hand_overs", "fallbacks"]
HANG_SECONDS = 40  # of processor time without an event
STRESSED = 3       # times that under a switch, which may compile at each look-up
PATIENCE = 5       # seconds of the clock for one of processor time: a machine may be busy, and a test may sleep


# ---- The process that runs tests -------------------------------------------------------------------------------------------

class Recorder(unittest.TestResult):
    """Writes one line of JSON an event, so that nothing is lost with the process."""

    def __init__(self, file, keys):
        super().__init__()
        self.file, self.keys, self.failed, self.outcome = file, keys, 0, None

    def write(self, *event):
        self.file.write(json.dumps(event) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.failed, self.detail = None, 0, ""
        self.write("start", self.keys.get(id(test), test.id()))

    def stopTest(self, test):
        super().stopTest(test)
        outcome = self.outcome or "pass"
        self.write("end", self.keys.get(id(test), test.id()), f"{outcome} in {self.failed} parts" if self.failed else outcome, self.detail)

    def put(self, test, outcome, error=None):
        if error is not None:
            self.detail = "".join(traceback.format_exception(*error))[-4000:] if error[0] else ""
        if self.outcome is None or outcome in ("error", "fail"):
            self.outcome = outcome
        if not isinstance(test, unittest.TestCase):  # a fixture of a class or module
            self.write("end", test.id(), outcome, self.detail)

    def addSuccess(self, test):
        self.put(test, "pass")

    def addError(self, test, error):
        self.put(test, "error", error)

    def addFailure(self, test, error):
        self.put(test, "fail", error)

    def addSkip(self, test, reason):
        self.detail = reason
        self.put(test, "skip")

    def addExpectedFailure(self, test, error):
        self.put(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.put(test, "unexpected success")

    def addSubTest(self, test, part, error):
        if error is not None:
            self.failed += 1
            self.put(test, "fail" if issubclass(error[0], test.failureException) else "error", error)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def work(module_name, compiled, events, skipped, only):
    """Runs the module's tests that `skipped` (a file of names) does not name; or only those in `only`."""
    from test import support
    support.use_resources = []
    support.record_original_stdout(sys.stdout)
    import faulthandler
    faulthandler.enable()
    from kintsugi._runtime import _driver
    skipped = set(json.loads(pathlib.Path(skipped).read_text()))
    file = open(events, "a", encoding="utf-8")
    keys, chosen, seen = {}, [], {}
    recorder = Recorder(file, keys)
    os.chdir(tempfile.mkdtemp(dir="."))
    if compiled:
        _driver.capture_everything(True)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{module_name}"))
    except unittest.SkipTest as reason:
        recorder.write("end", module_name, "skip", str(reason))
        suite = []
    for test in flat(suite):
        name = test.id()
        seen[name] = seen.get(name, 0) + 1
        key = keys[id(test)] = name if seen[name] == 1 else f"{name}#{seen[name]}"
        if key in only if only else key not in skipped:
            chosen.append(test)
    suite = None
    unittest.TestSuite(chosen).run(recorder)
    if compiled:
        _driver.capture_everything(False)
    recorder.write("counters", _driver.counts("native"), _driver.counts("fallback"))


# ---- The process that compares ---------------------------------------------------------------------------------------------

class Run:
    """One module in one mode: outcomes by test, in order."""

    def __init__(self):
        self.outcomes, self.details, self.counters, self.fallbacks = {}, {}, {}, {}
        self.seconds, self.log, self.complete = 0.0, "", True


def start(module, compiled, folder, skipped, only, stress):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KINTSUGI_")}
    for name in ("KINTSUGI_LOGS", "KINTSUGI_STRICT"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if compiled:
        environment["KINTSUGI_STRESS"] = stress
        environment.setdefault("KINTSUGI_STRICT", "1")
    environment["PYTHONHASHSEED"] = "0"
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH", "")]))
    (folder / "skipped").write_text(json.dumps(list(skipped)))
    command = [sys.executable, "-X", "faulthandler", "-m", "kintsugi", "cpython-tests", "--work", module, "--events", str(folder / "events"), "--skipped", str(folder / "skipped")]
    if compiled:
        command.append("--compiled")
    for name in only:
        command += ["--test", name]
    log = open(folder / "log", "ab")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)


def stop(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_module(module, compiled, limit, stress="", only=()):
    """Runs a module's tests, in a new process after each one in which the process died or hung."""
    run = Run()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        while True:
            (folder / "events").write_text("")
            process = start(module, compiled, folder, run.outcomes, only, stress)
            end = follow(process, folder / "events", run, began + limit * PATIENCE, limit, HANG_SECONDS * (STRESSED if stress else 1))
            stop(process)  # and whatever its tests left behind
            if end is None:
                break
            test, outcome = end
            if test is None:  # between tests, or at import
                run.outcomes[f"{module} (outside of tests)"] = outcome
                run.complete = False
                break
            if outcome == "time is up":
                run.complete = False
                break
            run.outcomes[test] = outcome
            if only:
                break
        run.log = (folder / "log").read_bytes().decode(errors="replace")[-20000:]
    return run


def processor_time_of(process):
    """Of a process that was not waited for."""
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def follow(process, events, run, deadline, limit, silence):
    """Reads events until the process ends; adds its processor time. None: it came to its end; else the test it was in and what became of it."""
    running, complete, rest = None, False, ""
    since, used, before = time.monotonic(), 0.0, run.seconds
    with open(events, encoding="utf-8") as file:
        while True:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
            spent = processor_time_of(process)
            run.seconds = before + spent
            rest += file.read()
            *lines, rest = rest.split("\n")
            for kind, *event in map(json.loads, lines):
                since, used = time.monotonic(), spent
                if kind == "start":
                    running = event[0]
                elif kind == "end":
                    run.outcomes[event[0]], run.details[event[0]] = event[1], event[2]
                    running = None
                else:
                    complete = True
                    for key, value in event[0].items():
                        run.counters[key] = run.counters.get(key, 0) + value
                    run.fallbacks.update(event[1])
            now = time.monotonic()
            if ended:
                code = process.wait()
                return None if complete and code == 0 else (running, f"crash ({signal.Signals(-code).name})" if code < 0 else f"exit ({code})")
            if now > deadline or run.seconds > limit:
                return running or "?", "time is up"
            if now > since + silence * PATIENCE or spent > used + silence:
                return running, "hang"
            time.sleep(0.03)


def listed_differences():
    path = pathlib.Path(__file__).with_name("cpython_differences.toml")
    return tomllib.loads(path.read_text())


class Row:
    def __init__(self, module, plain, compiled, listed):
        self.module, self.plain, self.compiled = module, plain, compiled
        names = [name for name in plain.outcomes if name in compiled.outcomes or compiled.complete]
        names += [name for name in compiled.outcomes if name not in plain.outcomes and (plain.complete or "outside" in name)]
        self.tests = len(names)
        self.not_run = len(plain.outcomes.keys() | compiled.outcomes.keys()) - len(names)
        self.different = [name for name in names if plain.outcomes.get(name) != compiled.outcomes.get(name)]
        self.listed = [name for name in self.different if name in listed.get(module, {})]
        self.unlisted = [name for name in self.different if name not in self.listed]

    HEADINGS = ["module", "tests", "same", "different", "listed", "plain s", "compiled s", *SHOWN_COUNTERS, "not run"]

    def cells(self):
        counters = [self.compiled.counters.get(name, 0) for name in SHOWN_COUNTERS]
        cells = [self.module, self.tests, self.tests - len(self.different), len(self.unlisted), len(self.listed)]
        cells += [f"{self.plain.seconds:.1f}", f"{self.compiled.seconds:.1f}", *counters, self.not_run]
        return [str(cell) for cell in cells]

    def explain(self, out):
        for name in self.unlisted:
            print(f"  {name}: plain {self.plain.outcomes.get(name)}, compiled {self.compiled.outcomes.get(name)}", file=out)
            detail = self.compiled.details.get(name) or self.plain.details.get(name) or ""
            if str(self.compiled.outcomes.get(name)).startswith(("crash", "exit", "hang")):
                detail = self.compiled.log
            lines = [line for line in detail.strip().split("\n") if "KINTSUGI_LOGS=recompiles" not in line]
            for line in lines[-14:]:
                print(f"      {line}", file=out)
        if self.unlisted and self.compiled.fallbacks:
            for text, number in self.compiled.fallbacks.items():
                if "the limit" not in text and "ecompile" not in text:
                    print(f"  {number} x {text.splitlines()[0]}", file=out)


def print_table(rows, out):
    lines = [Row.HEADINGS, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(Row.HEADINGS))]
    for line in lines:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))), file=out)


def write_document(path, stress, rows):
    """Puts the rows into the page's table under the heading of this mode; rows of other modules stay."""
    path = pathlib.Path(path)
    heading = f"## Under `{stress}`" if stress else "## Plain against compiled"
    text = path.read_text()
    before, _, rest = text.partition(heading + "\n")
    section, mark, after = rest.partition("\n## ")
    kept = {}
    for line in section.split("\n"):
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if re.fullmatch(r"test_\w+", cells[0]):
            kept[cells[0]] = cells
    for cells in rows:
        kept[cells[0]] = cells
    order = MODULES + sorted(kept.keys() - set(MODULES))
    table = ["| " + " | ".join(Row.HEADINGS) + " |", "| --- |" + " ---: |" * (len(Row.HEADINGS) - 1)]
    table += ["| " + " | ".join(kept[name]) + " |" for name in order if name in kept]
    path.write_text(before.rstrip("\n") + "\n\n" + heading + "\n\n" + "\n".join(table) + "\n" + mark + after)


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m kintsugi cpython-tests", description=__doc__.split("\n")[0])
    parser.add_argument("--stress", default="", help="as KINTSUGI_STRESS, in the compiled runs")
    parser.add_argument("--limit", type=float, default=120, help="seconds of processor time a module and mode")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    parser.add_argument("--jobs", type=int, default=1, help="modules at a time")
    parser.add_argument("--quarter", type=int, help="only each fourth module, beginning with this one")
    parser.add_argument("--test", action="append", default=[], help="only this test")
    for hidden in ("--work", "--events", "--skipped"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    options = parser.parse_args(arguments)
    if options.work:
        return work(options.work, options.compiled, options.events, options.skipped, options.test)
    try:
        from test import support  # noqa: F401
    except ImportError:
        print("this interpreter was installed without its test package: nothing to compare")
        return 0
    import test
    modules = options.modules or (STRESS_MODULES if options.stress else MODULES)
    if options.quarter is not None:
        modules = modules[options.quarter % 4::4]
    listed = listed_differences()

    def judge(module):
        if not any((pathlib.Path(folder) / f"{module}{ending}").exists() for folder in test.__path__ for ending in (".py", "")):
            return f"{module}: absent in this version"
        plain = run_module(module, False, options.limit, only=options.test)
        compiled = run_module(module, True, options.limit, options.stress, only=options.test)
        return Row(module, plain, compiled, listed)

    rows, unlisted, tests = [], 0, 0
    for row in concurrent.futures.ThreadPoolExecutor(options.jobs).map(judge, modules):
        if isinstance(row, str):
            print(row, flush=True)
            continue
        rows.append(row.cells())
        print_table([row.cells()], sys.stdout)
        row.explain(sys.stdout)
        sys.stdout.flush()
        unlisted, tests = unlisted + len(row.unlisted), tests + row.tests
        if options.write:
            write_document(options.write, options.stress, rows)
    print_table(rows, sys.stdout)
    print(f"check: {tests - unlisted} passed, {unlisted} failed")
    return 1 if unlisted else 0
