"""`python -m kintsugi bench [--json FILE] [--rounds N] [--only TEXT]`: how fast this build is on this machine.

Measures run side by side: each round takes one sample of everything, and a key is the median over the rounds, so that a
busy moment of the machine hits all alike. docs/bench.md defines each key; BUDGETS below are what the project promises.
"""
import argparse
import array
import ctypes
import gc
import itertools
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

import kintsugi as kt
from kintsugi import _runtime, plain_programs

clock = time.thread_time_ns  # processor time: what other processes take does not count
SAMPLE_NS = 1_500_000  # length of one sample of repeated calls
SETTLING_CALLS = 30  # of a program without tensors: by then the runtime knows what is not worth compiling

# Text, and the condition over the values. A key that could not be measured fails its budget.
BUDGETS = [
    ("warm_call_ns <= 2 * plain_call_ns", lambda v: v["warm_call_ns"] <= 2 * v["plain_call_ns"]),
    ("numpy_call_ns >= 6 * warm_call_ns", lambda v: v["numpy_call_ns"] >= 6 * v["warm_call_ns"]),
    ("eager_call_ns <= numpy_call_ns", lambda v: v["eager_call_ns"] <= v["numpy_call_ns"]),
    ("cold_us_20 <= 200", lambda v: v["cold_us_20"] <= 200),
    ("recompile_us <= 200", lambda v: v["recompile_us"] <= 200),
    ("each guard_ns <= 5", lambda v: max(v["guard_ns"].values()) <= 5),
    ("break_ns <= 300", lambda v: v["break_ns"] <= 300),
    ("branch_ns <= 300", lambda v: v["branch_ns"] <= 300),
    ("loop_cold_us_* within 1.5 of each other", lambda v: spread(v, "loop_cold_us_") <= 1.5),
    ("loop_iter_ns <= 300", lambda v: v["loop_iter_ns"] <= 300),
    *[(f"{key} <= numpy_{key}", lambda v, key=key: v[key] <= v["numpy_" + key])
      for key in ("mul_add_ns_1k", "mul_add_ns_100k", "exp_ns", "sin_ns", "tanh_ns", "sum_ns")],
    ("caught_ns <= 1.5", lambda v: v["caught_ns"] <= 1.5),
    ("tick_p999_over_median <= 3", lambda v: v["tick_p999_over_median"] <= 3),
    ("copy_fraction >= 0.85", lambda v: v["copy_fraction"] >= 0.85),
    ("each program_ratio >= 0.95", lambda v: min(v["program_ratio"].values()) >= 0.95),
    ("import_ms <= 30", lambda v: v["import_ms"] <= 30),
]


def spread(values, prefix):
    group = [value for key, value in values.items() if key.startswith(prefix)]
    return max(group) / min(group)


# ---- Samples ---------------------------------------------------------------------------------------------------------


def make(source, **names):
    """The function f that `source` defines: each time a fresh code object, with nothing compiled."""
    space = {"kt": kt, **names}
    exec(source, space)
    return space["f"]


def call_loop(arguments, body="f({})"):
    names = ", ".join(f"a{i}" for i in range(arguments))
    body = body.format(names)
    space = {"clock": clock}
    exec(f"def loop(ticks, f, {names}):\n start = clock()\n for _ in ticks: {body}\n return clock() - start", space)
    return space["loop"]


class Calls:
    """Nanoseconds a call of function(*arguments), without the loop around it."""

    def __init__(self, function, *arguments):
        self.loop, self.empty = call_loop(len(arguments)), call_loop(len(arguments), body="pass")
        self.given = (function, *arguments)
        self.number = 1
        while (took := min(self.run() for _ in range(3))) < SAMPLE_NS and self.number < 10**7:
            self.number = max(self.number + 1, min(10 * self.number, self.number * SAMPLE_NS // max(took, 1) + 1))

    def run(self):
        return self.loop(itertools.repeat(None, self.number), *self.given)

    def __call__(self):
        return (self.run() - self.empty(itertools.repeat(None, self.number), *self.given)) / self.number


class CallsUnder(Calls):
    """The same with a switch set: `scope` makes what the loop runs in."""

    def __init__(self, scope, function, *arguments):
        self.scope = scope
        function(*arguments)  # not every stance compiles
        super().__init__(function, *arguments)

    def run(self):
        with self.scope():
            return super().run()


class FirstCalls:
    """Microseconds of a first call: prepare() answers a function that was not yet compiled, and its arguments."""

    number = 1

    def __init__(self, prepare):
        self.prepare = prepare

    def __call__(self):
        times = []
        for _ in range(3):
            function, arguments = self.prepare()
            start = clock()
            function(*arguments)
            times.append(clock() - start)
        return statistics.median(times) / 1e3

    def run(self):
        function, arguments = self.prepare()
        function(*arguments)


class CompileTimes:
    """Microseconds that the compiler spent during a first call, without running anything. `before` is called first: what ran
    until then left the caches in a state that depends on how long it ran."""

    number = 1

    def __init__(self, prepare, before):
        self.prepare, self.before = prepare, before

    def __call__(self):
        def once():
            function, arguments = self.before()
            function(*arguments)
            function, arguments = self.prepare()
            return sum(record["trace_us"] + record["fuse_us"] + record["emit_us"] for record in recorded(function, *arguments))
        return min(once() for _ in range(3))

    run = __call__


def recorded(function, *arguments):
    _runtime._driver.start_recording()
    try:
        function(*arguments)
    finally:
        records = _runtime._driver.stop_recording()
    return records


# ---- What is measured ------------------------------------------------------------------------------------------------

GUARDED = 8  # guards between the two ends of a slope


def floats(count, low=0.5):
    return kt.rand(count) + low


def chain(operations, draw):
    """A function of a and b with so many element-wise operations in an order never seen before."""
    menu = ["x + {}", "x - {}", "x * {}", "kt.maximum(x, {})", "kt.minimum(x, {})"]
    lines = [f" x = {draw.choice(menu).format(draw.choice('ab'))}" for _ in range(operations)]
    return make("def f(a, b):\n x = a\n" + "\n".join(lines) + "\n return x")


def guard_slopes():
    """By kind: two functions with one guard of the kind, and with GUARDED more; otherwise alike."""
    class Holder:
        pass
    x, many = floats(8), GUARDED + 1
    holder = Holder()
    for i in range(many):
        setattr(holder, f"a{i}", i)
    tensors = [floats(8) for _ in range(many)]
    parameters = ", ".join(f"p{i}" for i in range(many))
    kinds = {  # parameters, what is read, arguments
        "tensor": (parameters, "p{}.shape[0]", tensors),
        "int": (parameters, "p{}", list(range(many))),
        "global": ("", "G{}", []),
        "attribute": ("o", "o.a{}", [holder]),
        "list_item": ("o", "o[{}]", [list(range(many))]),
        "dict_key": ("o", "o['k{}']", [{f"k{i}": i for i in range(many)}]),
        "cell": ("", "c{}", []),
    }
    names = {f"G{i}": i for i in range(many)}
    for kind, (taken, read, arguments) in kinds.items():
        for count in (1, many):
            total = " + ".join(read.format(i) for i in range(count))
            source = f"def f(x, {taken}):\n return x + ({total})"
            if kind == "cell":
                cells = "".join(f" c{i} = {i}\n" for i in range(many))
                source = f"def build():\n{cells} def inner(x):\n  return x + ({total})\n return inner\nf = build()"
            yield kind, count, Calls(kt.compile(make(source, **names)), x, *arguments)


def repeated(statement, count, before="", result="x"):
    return f"def f(x, {before}):\n n = 0\n" + (f" {statement}\n" * count) + f" return {result}"


def warm_samples():
    """Name and sample of everything that is called again and again."""
    import numpy
    a, b, c = floats(8), floats(8), floats(8)
    numpy_a, numpy_b = numpy.array(a.tolist(), dtype="f"), numpy.array(b.tolist(), dtype="f")
    mul_add = "def f(a, b):\n return a * b + a"
    yield "plain_call_ns", Calls(make("def f(a, b):\n return a"), a, b)
    yield "warm_call_ns", Calls(kt.compile(make(mul_add)), a, b)
    yield "eager_call_ns", Calls(make(mul_add), a, b)
    yield "numpy_call_ns", Calls(make(mul_add), numpy_a, numpy_b)

    def warm(function):
        compiled = kt.compile(function)
        compiled(a, b)
        return compiled
    for name in kt._stance._NAMES:
        yield f"stance_{name}_ns", CallsUnder(lambda name=name: kt.compiler.set_stance(name), warm(make(mul_add)), a, b)
    flag, off = kt._dynamo.error_on_graph_break, kt.compiler.disable
    for value in (True, False):
        word = str(value).lower()
        inside = make(f"def f(a, b):\n with flag({value}):\n  return a * b + a", flag=flag)
        yield f"strict_{word}_around_ns", CallsUnder(lambda value=value: flag(value), warm(make(mul_add)), a, b)
        yield f"strict_{word}_inside_ns", Calls(warm(inside), a, b)
    inside = Calls(warm(make(mul_add)), a, b)
    inside.loop, inside.empty = off(inside.loop), off(inside.empty)
    yield "compiled_in_disabled_ns", inside
    yield "disabled_call_ns", Calls(off(make(mul_add)), a, b)

    yield from ((f"guard {kind} {count}", sample) for kind, count, sample in guard_slopes())

    modes = [f"mode{i}" for i in range(8)]
    choose = "def f(x, mode):\n" + "".join(f" if mode == 'mode{i}': return x + {i}\n" for i in range(8))
    compiled = kt.compile(make(choose))
    for mode in modes:
        compiled(a, mode)
    yield from ((f"poly {mode}", Calls(compiled, a, mode)) for mode in modes)

    opaque, quiet = kt._dynamo.testing.opaque, kt.compiler.disable(lambda x: None)
    for name, callee in (("break", opaque), ("break_py", quiet)):
        for count in (0, 20):
            function = make(repeated("callee(x)", count, result="x + 1"), callee=callee)
            yield f"{name} plain {count}", Calls(function, a)
            yield f"{name} compiled {count}", Calls(kt.compile(function), a)
    for count in (0, 20):
        branches = repeated("if flag.item(): n += 1", count, before="flag", result="x + n")
        yield f"branch {count}", Calls(kt.compile(make(branches)), a, kt.tensor(True))

    caught = make("def f(x):\n for i in range(100):\n  try:\n   x = x + 1\n   raise ValueError\n"
                  "  except ValueError:\n   x = x * 0.5\n return x")
    yield "caught plain", Calls(caught, a)
    yield "caught compiled", Calls(kt.compile(caught), a)

    loop = kt.compile(make(LOOP))
    yield "loop 1000", Calls(loop, a, b, c, 1000)
    yield "loop 3000", Calls(loop, a, b, c, 3000)

    for name in LOOPED:
        for count in (0, STATEMENTS):
            for kind, wrap in (("plain", lambda function: function), ("compiled", kt.compile)):
                yield f"looped {kind} {name} {count}", Calls(wrap(looped(name, count)), a, Holder(), {"k": 1}, TURNS)

    for name, (function, size) in plain_programs.PROGRAMS.items():
        yield f"program plain {name}", Calls(function, size)
        compiled = kt.compile(function)
        for _ in range(SETTLING_CALLS):
            compiled(size)
        yield f"program compiled {name}", Calls(compiled, size)

    for parameters in MODULE_PARAMETERS:
        module = module_of(parameters)
        yield f"module_call_ns_{parameters}", Calls(kt.compile(module), a)
        yield f"plain_module_call_ns_{parameters}", Calls(module, a)

    product = "def f(a, b):\n return a @ b"
    square = floats(16).reshape(4, 4)
    numpy_square = numpy.array(square.tolist(), dtype="f")
    yield "mm4_ns", Calls(kt.compile(make(product)), square, square)
    yield "numpy_mm4_ns", Calls(make(product), numpy_square, numpy_square)

    for name, count in (("1k", 1000), ("100k", 100_000)):
        ours = [floats(count) for _ in range(3)]
        theirs = [numpy.array(tensor.tolist(), dtype="f") for tensor in ours]
        source = "def f(a, b, c):\n return a * b + c"
        yield f"mul_add_ns_{name}", Calls(kt.compile(make(source)), *ours)
        yield f"numpy_mul_add_ns_{name}", Calls(make(source), *theirs)
    ours = floats(10_000, low=-0.5)
    theirs = numpy.array(ours.tolist(), dtype="f")
    for op in ("exp", "sin", "tanh", "sum"):
        yield f"elements {op}_ns", Calls(kt.compile(make(f"def f(a):\n return kt.{op}(a)")), ours)
        yield f"elements numpy_{op}_ns", Calls(getattr(numpy, op), theirs)


MODULE_PARAMETERS = (1, 10, 100, 1000)


def module_of(parameters):
    """A module that looks at so many parameters, each of a module of its own, and makes one tensor."""
    class Layer(kt.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = kt.nn.Parameter(kt.ones(2))

        def forward(self, count):
            return count + self.weight.shape[0]

    class Layers(kt.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = kt.nn.ModuleList(Layer() for _ in range(parameters))

        def forward(self, x):
            count = 0
            for layer in self.layers:
                count = layer(count)
            return x + count

    return Layers()


STATEMENTS, TURNS = 8, 100  # of one kind in a loop's body; turns of the loop
LOOPED = {"inline_call": "total = add(total, i)", "object_field": "o.count = o.count + i", "dict_lookup": "total += d['k']"}


class Holder:
    def __init__(self):
        self.count = 0


def looped(name, count):
    """A loop with so many statements of the kind in its body, beside a tensor operation after it."""
    return make("def add(v, k):\n return v + k\ndef f(x, o, d, turns):\n total = 0\n for i in range(turns):\n  total += i\n"
                + f"  {LOOPED[name]}\n" * count + " return x + total")


LOOP = "def f(x, a, b, n):\n for _ in range(n):\n  x = x * a + b\n return x"


def cold_samples():
    draw = random.Random(12)
    a, b, c = floats(8), floats(8), floats(8)
    for operations in (5, 20, 100):
        yield f"cold_us_{operations}", FirstCalls(lambda n=operations: (kt.compile(chain(n, draw)), (a, b)))
    wide_a, wide_b = a.double(), b.double()

    def seen_in_float32():
        compiled = kt.compile(chain(20, draw))
        compiled(a, b)
        return compiled, (wide_a, wide_b)
    yield "recompile_us", FirstCalls(seen_in_float32)
    def loop(trips):
        return lambda: (kt.compile(make(LOOP)), (a, b, c, trips))
    for name, trips in (("10", 10), ("1k", 1000), ("100k", 100_000)):
        yield f"loop_cold_us_{name}", CompileTimes(loop(trips), before=loop(10))


def derive(raw):
    """The keys that follow from several samples."""
    def slope(low, high, steps):
        return (raw[high] - raw[low]) / steps

    values = {key: value for key, value in raw.items() if " " not in key}
    derived = {
        "guard_ns": lambda: {kind: slope(f"guard {kind} 1", f"guard {kind} {GUARDED + 1}", GUARDED)
                             for kind in dict.fromkeys(key.split()[1] for key in raw if key.startswith("guard"))},
        "poly8_ns": lambda: (max(v for k, v in raw.items() if k.startswith("poly"))
                             - min(v for k, v in raw.items() if k.startswith("poly"))),
        "break_ns": lambda: (slope("break compiled 0", "break compiled 20", 20)
                             - slope("break plain 0", "break plain 20", 20)),
        "break_py_ns": lambda: (slope("break_py compiled 0", "break_py compiled 20", 20)
                                - slope("break_py plain 0", "break_py plain 20", 20)),
        "branch_ns": lambda: slope("branch 0", "branch 20", 20),
        "module_parameter_ns": lambda: slope("module_call_ns_100", "module_call_ns_1000", 900),
        "plain_module_parameter_ns": lambda: slope("plain_module_call_ns_100", "plain_module_call_ns_1000", 900),
        "caught_ns": lambda: raw["caught compiled"] / raw["caught plain"],
        **{prefix + f"{name}_ns": lambda name=name, kind=kind: slope(
            f"looped {kind} {name} 0", f"looped {kind} {name} {STATEMENTS}", STATEMENTS * TURNS)
           for name in LOOPED for prefix, kind in (("", "compiled"), ("plain_", "plain"))},
        "program_ratio": lambda: {name: raw[f"program plain {name}"] / raw[f"program compiled {name}"]
                                  for name in plain_programs.PROGRAMS},
        "loop_iter_ns": lambda: slope("loop 1000", "loop 3000", 2000),
        **{key.split()[1]: lambda key=key: raw[key] / 10_000 for key in raw if key.startswith("elements")},
    }
    for key, rule in derived.items():
        try:
            values[key] = rule()
        except (KeyError, ValueError):
            continue  # one of its samples was left out or could not be taken; the notes say why
    return values


# ---- Measured once, outside the rounds -------------------------------------------------------------------------------


def ticks():
    """One call after the other, as a control loop would; the collector runs. In ten stretches, of which the median counts: the
    system's own work comes in bursts."""
    a, b = floats(8), floats(8)
    compiled = kt.compile(make("def f(a, b):\n return a * b + a"))
    times = array.array("q", bytes(8 * 100_000))
    now = time.perf_counter_ns

    def stretch():
        for i in range(-1000, 100_000):
            start = now()
            compiled(a, b)
            took = now() - start
            if i >= 0:
                times[i] = took
        ordered = sorted(times)
        return ordered[99_900] / ordered[50_000]
    return statistics.median(stretch() for _ in range(10))


def kept_blocks():
    """Blocks of Python's allocator that one more kept result costs."""
    a, b = floats(8), floats(8)
    compiled = kt.compile(make("def f(a, b):\n return a * b + a"))
    kept = [None] * 20_000
    compiled(a, b)
    before = sys.getallocatedblocks()
    for i in range(len(kept)):
        kept[i] = compiled(a, b)
    return round((sys.getallocatedblocks() - before) / len(kept), 2)


def import_time():
    """Median milliseconds that `import kintsugi` adds to a bare interpreter."""
    programs = {"bare": "pass", "ours": "import sys, kintsugi; sys.exit('numpy' in sys.modules)"}
    times = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as cache:  # of bytecode, which an installed package has
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(16):
            for name, program in programs.items():
                start = time.perf_counter_ns()
                if subprocess.run([sys.executable, "-c", program], env=environment).returncode:
                    raise RuntimeError("importing kintsugi failed, or imported NumPy")
                if turn > 0:
                    times[name].append((time.perf_counter_ns() - start) / 1e6)
    return statistics.median(times["ours"]) - statistics.median(times["bare"])


def copy_fraction():
    """Memory traffic of a*b+c over 16 M float32, as a fraction of what NumPy's add(out=) reaches side by side. Both
    store through the cache, so a written line is counted twice: it is read first."""
    import numpy
    count = 1 << 24
    ours = [kt.full((count,), value) for value in (1.0, 2.0, 3.0)]
    theirs = [numpy.ones(count, dtype="f") for _ in range(3)]
    compiled = kt.compile(make("def f(a, b, c):\n return a * b + c"))
    compiled(*ours)
    times = [], []
    for _ in range(11):
        start = clock()
        compiled(*ours)
        middle = clock()
        numpy.add(theirs[0], theirs[1], out=theirs[2])
        times[0].append(middle - start)
        times[1].append(clock() - middle)
    return (5 / statistics.median(times[0])) / (4 / statistics.median(times[1]))


def code_bytes():
    record, = recorded(kt.compile(chain(20, random.Random(20))), floats(8), floats(8))
    return record["code_bytes"]


def kernel_time():
    """From the Google Benchmark binary of this build."""
    binary = pathlib.Path(_runtime.__file__).parents[2] / "bench" / "kernel_bench"
    arguments = ["--benchmark_filter=^mul_add/8$", "--benchmark_format=json"]
    output = subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout
    return json.loads(output)["benchmarks"][0]["cpu_time"]


ONCE = {"tick_p999_over_median": ticks, "allocs_per_call": kept_blocks, "import_ms": import_time,
        "copy_fraction": copy_fraction, "code_bytes_20": code_bytes, "kernel_ns": kernel_time}


class Instructions:
    """Counts instructions that this thread executes in user mode, through perf_event_open; None where the system or the
    machine does not let us."""

    ENABLE, DISABLE, RESET = 0x2400, 0x2401, 0x2403

    @classmethod
    def open(cls):
        # struct perf_event_attr: type hardware, size, config instructions; disabled, without kernel and hypervisor.
        attributes = bytearray(128)
        attributes[4] = len(attributes)
        attributes[8] = 1
        attributes[40] = 1 | 1 << 5 | 1 << 6
        libc = ctypes.CDLL(None, use_errno=True)
        raw = (ctypes.c_char * len(attributes)).from_buffer(attributes)
        descriptor = libc.syscall(298, raw, 0, -1, -1, 0) if platform.machine() == "x86_64" else -1
        if descriptor < 0:
            return None
        counter = cls()
        counter.descriptor, counter.libc = descriptor, libc
        return counter

    def count(self, sample):
        """Instructions of one call of the sample's function, its loop included."""
        self.libc.ioctl(self.descriptor, self.RESET, 0)
        self.libc.ioctl(self.descriptor, self.ENABLE, 0)
        sample.run()
        self.libc.ioctl(self.descriptor, self.DISABLE, 0)
        return int.from_bytes(os.read(self.descriptor, 8), "little") / sample.number


# ---- The run ---------------------------------------------------------------------------------------------------------


def take_rounds(samples, rounds, notes):
    """Median of each sample over interleaved rounds."""
    taken = {name: [] for name in samples}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, sample in samples.items():
                if name not in notes:
                    try:
                        taken[name].append(sample())
                    except Exception as error:
                        notes[name] = f"{type(error).__name__}: {error}"
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in taken.items() if name not in notes}


def collect(generator, notes, only):
    """The samples of a generator; one that fails ends it, and its place is noted."""
    samples = {}
    try:
        for name, sample in generator:
            samples[name] = sample
    except Exception as error:
        notes[f"{generator.__name__} after {list(samples)[-1:]}"] = f"{type(error).__name__}: {error}"
    return {name: sample for name, sample in samples.items() if only in name}


def measure(rounds, only=""):
    notes = {}
    samples = {**collect(warm_samples(), notes, only), **collect(cold_samples(), notes, only)}
    values = derive(take_rounds(samples, rounds, notes))
    counter = Instructions.open()
    if counter is None:
        notes["instructions"] = "this system does not let us count them (perf_event_open failed)"
    instructions = {name: round(counter.count(sample)) for name, sample in samples.items()
                    if counter and name not in notes}
    for name, function in ONCE.items():
        if only not in name:
            continue
        try:
            values[name] = function()
        except Exception as error:
            notes[name] = f"{type(error).__name__}: {error}"
    return values, instructions, notes


def holds(condition, values):
    try:
        return bool(condition(values))
    except (KeyError, ValueError, ZeroDivisionError):
        return False


def shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(part)}" for key, part in value.items())
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m kintsugi bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the values there")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", metavar="TEXT", default="", help="only samples with this in their name")
    options = parser.parse_args(arguments)

    values, instructions, notes = measure(options.rounds, options.only)
    budgets = [{"budget": text, "holds": holds(condition, values)} for text, condition in BUDGETS]
    for key, value in values.items():
        count = f"   {instructions[key]:,} instructions" if key in instructions else ""
        print(f"{key:28} {shown(value)}{count}")
    for name, note in notes.items():
        print(f"note: {name}: {note}")
    if not options.only:
        for budget in budgets:
            print(f"{'holds' if budget['holds'] else 'FAILS'}   {budget['budget']}")
    if options.json:
        report = {**values, "instructions": instructions, "budgets": budgets, "notes": notes, "machine": machine(),
                  "rounds": options.rounds}
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 0
