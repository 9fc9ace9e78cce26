"""Runs random programs plain and compiled and compares everything that can be seen: value, dtype, shape, strides,
sharing of memory, effects on arguments and globals, output, exception with text and lines.

    ./dev test --fuzz 20000
    ./dev python tests/fuzz/run.py --count 20000 --first 0 --jobs 2
    ./dev python tests/fuzz/run.py --show 17         the program of seed 17, whole, and what happens

Programs run in forked children, many in each: a crash or a hang costs one program and is a failure like others. A
failing program is cut down to few statements before it is shown, as a file that runs.
"""
import argparse
import ast
import contextlib
import dataclasses
import functools
import gc
import io
import json
import mmap
import operator
import os
import pathlib
import resource
import select
import signal
import sys
import time
import types

import kintsugi as kt

import programs
import shrink as smaller
from snapshot import Snapshot, places_of, without_addresses

TIME_LIMIT = 4.0      # processor seconds a program, or up to twice that; a plain run that takes longer is left out
CHILD_LIMIT = 90.0    # seconds without a sign of life; more of them on a machine that is busy with other things
PLAIN_RUNS = 12       # of a program that differs, to see whether plain runs differ from each other
MEMORY_LIMIT = 4 << 30  # bytes a child may map
LIBRARY = pathlib.Path(__file__).with_name("library.py")


class TooLong(BaseException):
    pass


# ---- One program -----------------------------------------------------------------------------------------------------


def fresh(code):
    """The same code without anything compiled for it."""
    return code.replace(co_consts=tuple(fresh(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))


class Library:
    """Its definitions by name, each with those that it needs."""

    def __init__(self):
        text = LIBRARY.read_text()
        self.order, self.code, self.texts, self.needs = [], {}, {}, {}
        self.imports, self.imported = set(), {}
        for node in ast.parse(text).body:
            part = self.part(node)
            if not part:
                continue
            self.order.append(part)
            self.code[part] = compile(ast.Module([node], []), "<prelude>", "exec")
            first = min([node.lineno, *[line.lineno for line in getattr(node, "decorator_list", ())]])
            self.texts[part] = "\n".join(text.split("\n")[first - 1:node.end_lineno])
            if self.is_import(part):
                exec(self.code[part], self.imported)
                self.imports.add(part)
            self.needs[part] = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            for line in getattr(node, "decorator_list", ()):  # @named.register: comes with `named`
                line = line.func if isinstance(line, ast.Call) else line
                if isinstance(line, ast.Attribute) and line.value.id in self.needs:
                    self.needs[line.value.id].add(part)

    @staticmethod
    def part(node):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return ", ".join(alias.asname or alias.name for alias in node.names)
        if isinstance(node, ast.Assign):
            return node.targets[0].id
        return getattr(node, "name", None)

    def chosen(self, codes):
        """What code needs, in order: imports always."""
        wanted, names, codes = set(), {"kt", "make", "Box", "total", "NOTES", "TABLE"}, list(codes)
        while codes:
            one = codes.pop()
            names.update(one.co_names)
            codes += [c for c in one.co_consts if isinstance(c, types.CodeType)]
        while names:
            name = names.pop()
            if name in self.needs and name not in wanted:
                wanted.add(name)
                names |= self.needs[name]
        return [part for part in self.order if part in wanted or self.is_import(part)]

    def is_import(self, part):
        return self.texts[part].startswith(("import", "from"))

    def space(self, chosen, again=lambda code: code):
        """A module's dict with these definitions. `again`: fresh, when it is to be compiled."""
        space = {"__name__": "program", **self.imported}
        dataclasses.exec = lambda text, known, made: exec(again(code_of_text(text)), known, made)  # it compiles texts
        try:
            for part in chosen:
                if part not in self.imports:
                    exec(again(self.code[part]), space)
        finally:
            del dataclasses.exec
        return space


@functools.lru_cache(maxsize=1000)
def code_of_text(text):
    return compile(text, "<string>", "exec")


library = Library()


def chosen_for(program, module):
    return library.chosen([module, *[code for arguments in program.calls for code in arguments.codes()]])


class Side:
    """One of the two runs: the module's dict, and its classes as they were."""

    def __init__(self, module, chosen, again=lambda code: code):
        self.space = library.space(chosen, again)
        exec(again(module), self.space)
        self.function, self.first = self.space["f"], None
        self.classes = [(name, value, tuple(vars(value).values()), attributes_of(value))
                        for name, value in self.space.items()
                        if isinstance(value, type) and value.__module__ == "program"]

    def changed(self):
        """What a program may change of the module: variables, attributes of its classes."""
        for name, value, before, shown in self.classes:
            now = vars(value).values()
            if len(now) != len(before) or not all(map(operator.is_, now, before)):
                parts = attributes_of(value)
                if str(parts) != str(shown):
                    yield name, parts
        for name in ("total", "NOTES", "TABLE"):
            yield name, self.space.get(name)
        if "kept" in self.space:
            yield "kept", self.space["kept"].__defaults__


def attributes_of(kind):
    return {key: part for key, part in vars(kind).items() if not key.startswith("_") and isinstance(part, (int, str, list))}


def lines_of(error):
    """Where it passed through the program and the library, and the same of what it came from."""
    context = error.__context__
    return " > ".join(places_of(error)) + (f" while handling {type(context).__name__} {lines_of(context)}" if context else "")


def text_of(error):
    try:
        return str(error)
    except Exception as inner:  # a class of the program's
        return f"without text: {inner!r}"


def call(side, arguments):
    """What one call did, field by field."""
    if arguments.before:
        with contextlib.suppress(NameError, AttributeError):  # this program lacks it
            exec(programs.code_of(arguments.before, "exec"), side.space)
    if not (arguments.again and side.first):
        made = arguments.made(side.space)
        side.first = side.first or made
    arguments = side.first if arguments.again else made
    seen, value = {}, None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            value = side.function(*arguments)
        except (MemoryError, RecursionError):
            raise TooLong from None
        except Exception as error:
            seen["exception"] = f"{type(error).__name__}: {text_of(error)}"
            seen["lines"] = lines_of(error)
        snapshot = Snapshot()
        seen["arguments"] = snapshot.of(list(arguments))
        seen["value"] = snapshot.of(value)
        seen["globals"] = snapshot.of(dict(side.changed()))
        seen["iterators"] = snapshot.drained()
    seen["printed"] = printed.getvalue()
    return {field: without_addresses(text) for field, text in seen.items()}


def apart(plain, compiled):
    """The place where two texts part, shown one above the other."""
    plain, compiled = str(plain), str(compiled)
    start = len(os.path.commonprefix([plain, compiled]))
    begin = max(0, plain.rfind("#", 0, start), start - 60)
    return "".join(f"\n  {name:8} {'...' * (begin > 0)}{text[begin:start + 80]}"
                   for name, text in (("plain", plain), ("compiled", compiled)))


class Clock:
    """Ends a program that takes too long. One timer that goes on: setting one for each program costs more than it runs."""
    running, at_last_tick, process = None, None, None

    @classmethod
    def start(cls, program):
        if cls.process != os.getpid():  # a child begins without
            cls.process = os.getpid()
            signal.signal(signal.SIGPROF, cls.tick)
            signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT, TIME_LIMIT)
        cls.running, cls.at_last_tick = program, None

    @classmethod
    def stop(cls):
        cls.running = None

    @classmethod
    def tick(cls, *_):
        if cls.running is not None and cls.running is cls.at_last_tick:
            raise TooLong
        cls.at_last_tick = cls.running


def check(program):
    """None when plain and compiled agree in each call, else (field, text)."""
    module = programs.compiled(program.source)
    chosen = chosen_for(program, module)
    plain, ours = Side(module, chosen), Side(module, chosen, fresh)
    ours.function = kt.compile(ours.function)
    stage = "plain"

    Clock.start(program)
    if ends_generators(program.source, chosen):
        gc.disable()
    try:
        for number, arguments in enumerate(program.calls):
            stage = "plain"
            expected = call(plain, arguments)
            stage = "compiled"
            found = call(ours, arguments)
            for field in dict.fromkeys([*expected, *found]):
                if expected.get(field) != found.get(field):
                    stage = "plain"
                    if wavers(module, program.calls, chosen, field):
                        return None
                    return field, f"call {number + 1}: {field} differs{apart(expected.get(field), found.get(field))}"
    except TooLong:
        return None if stage == "plain" else ("time", f"compiled ran for more than {TIME_LIMIT} s")
    finally:
        Clock.stop()
        gc.enable()
    return None


def ends_generators(source, chosen):
    """Whether a generator may end with code of its own: one in a cycle does so when the collector comes, any time."""
    text = "".join([source, *[library.texts[part] for part in chosen]])
    return "yield" in text and ("finally" in text or "except" in text)


def wavers(module, calls, chosen, field):
    """Whether plain runs differ from each other: where objects lie decides the order of a set of them."""
    first, kept = None, []
    for turn in range(PLAIN_RUNS):
        side = Side(module, chosen)
        seen = [call(side, arguments).get(field) for arguments in calls]
        if first is not None and seen != first:
            return True
        first = seen
        kept.append((side, [(kt.zeros(()), object()) for _ in range(2 * turn + 1)]))  # the next ones lie elsewhere
    return False


def limit_memory():
    if "KINTSUGI_SANITIZED" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, resource.RLIM_INFINITY))


class Patience:
    """With a child that says nothing: until it has used the processor for long, or has had much time for it."""

    def __init__(self, process):
        self.process = process
        self.renew()

    def renew(self):
        self.since, self.used = time.monotonic(), self.processor_seconds()

    def processor_seconds(self):
        try:
            fields = pathlib.Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def has_ended(self):
        waited = time.monotonic() - self.since
        if waited < CHILD_LIMIT:
            return False
        return waited > 5 * CHILD_LIMIT or self.processor_seconds() - self.used > 4 * TIME_LIMIT


def isolated(program):
    """check() in a forked child; a crash or hang is a difference too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.suppress(BaseException):
            limit_memory()
            os.write(writer, json.dumps(check(program)).encode()[:60_000])
            os._exit(0)
        os._exit(9)
    os.close(writer)
    answer, patience = b"", Patience(child)
    with open(reader, "rb", buffering=0) as pipe:
        while not patience.has_ended():
            if not select.select([pipe], [], [], 1.0)[0]:
                continue
            part = pipe.read(65_536)
            if not part:
                break
            answer += part
        else:
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return "crash" if status < 0 else "end", ended(status)
    found = json.loads(answer)
    return found and tuple(found)


def ended(status):
    if status == -signal.SIGKILL:
        return "hangs: signals are not served"
    return f"crashes with {signal.Signals(-status).name}" if status < 0 else f"ends the process with status {status}"


# ---- Making it small -------------------------------------------------------------------------------------------------


def shrink(program, field, seconds=30):
    """The smallest program found that still differs in the same field."""
    deadline = time.monotonic() + seconds

    def still_fails(candidate):
        try:
            programs.compiled(candidate.source)
        except SyntaxError:
            return False
        found = isolated(candidate)
        return found is not None and found[0] == field

    def candidates():
        for i in range(len(program.calls)):
            if len(program.calls) > 1:
                yield programs.Program(program.seed, program.source, program.calls[:i] + program.calls[i + 1:])
        for source in smaller.variants(program.source):
            if source != program.source:
                yield programs.Program(program.seed, source, program.calls)

    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for candidate in candidates():
            if time.monotonic() > deadline:
                break
            if still_fails(candidate):
                program, progress = candidate, True
                break
    return program


def report(program, text):
    """The program as a file that runs, with what it needs of the prelude."""
    calls = "\n".join(f"print(compiled(*{arguments.text()}))" for arguments in program.calls)
    parts = chosen_for(program, programs.compiled(program.source))
    imports = [library.texts[part] for part in parts if library.is_import(part)]
    title = "# " + f"seed {program.seed}: {text}".replace("\n", "\n# ")
    definitions = [library.texts[part] for part in parts if library.texts[part] not in imports]
    return "\n\n\n".join([title + "\n" + "\n".join(imports), *definitions, program.source.rstrip(),
                          f"compiled = kt.compile(f)\n{calls}\n"])


# ---- Many programs ---------------------------------------------------------------------------------------------------


class Child:
    """A forked process that works through seeds. Which one it is at stands in memory shared with it."""

    def __init__(self, seeds):
        self.seeds, self.page = seeds, mmap.mmap(-1, 8)
        self.rest = b""
        self.note(seeds[0])
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            status = 9
            with contextlib.suppress(BaseException):
                limit_memory()
                gc.freeze()
                for seed in seeds:
                    self.note(seed)
                    failure = check(programs.program(seed))
                    if failure:
                        self.tell(writer, {"failed": seed, "field": failure[0], "text": failure[1]})
                status = 0
            os._exit(status)
        os.close(writer)
        self.pipe, self.patience = open(reader, "rb", buffering=0), Patience(self.process)
        self.seen = self.at

    def note(self, seed):
        self.page[:] = seed.to_bytes(8, "little")

    @property
    def at(self):
        return int.from_bytes(self.page[:], "little")

    def is_stuck(self):
        if self.at != self.seen:
            self.seen = self.at
            self.patience.renew()
        return self.patience.has_ended()

    @staticmethod
    def tell(writer, message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(writer, data):]

    def read(self):
        """(failures, whether it has ended)"""
        part = self.pipe.read(65_536)
        *whole, self.rest = (self.rest + part).split(b"\n")
        failures = [(message["failed"], message["field"], message["text"]) for message in map(json.loads, whole)]
        return failures, not part

    def end(self):
        """After its pipe has closed: the failure it ended with, and the seeds it did not come to."""
        self.pipe.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        if status == 0:
            return [], []
        return [(self.at, "crash" if status < 0 else "end", ended(status))], [seed for seed in self.seeds if seed > self.at]


def run_seeds(first, count, jobs=1, most=20):
    """The failures (seed, field, text) among these programs; gives up after `most`."""
    per_child = max(1, min(500, count // jobs or 1))
    waiting = [range(start, min(start + per_child, first + count)) for start in range(first, first + count, per_child)]
    children, failures = [], []
    while (waiting or children) and len(failures) < most:
        while waiting and len(children) < jobs:
            children.append(Child(list(waiting.pop(0))))
        ready = select.select([child.pipe for child in children], [], [], 1.0)[0]
        for child in list(children):
            if child.pipe in ready:
                found, closed = child.read()
                failures += found
                if closed:
                    children.remove(child)
                    found, left = child.end()
                    failures += found
                    if left:
                        waiting.insert(0, left)
            elif child.is_stuck():
                os.kill(child.process, signal.SIGKILL)
    for child in children:
        os.kill(child.process, signal.SIGKILL)
        child.end()
    return sorted(failures)


def describe(failures, shrunk=5):
    """What to show of failures: the first ones cut down, the others by seed."""
    texts = []
    for seed, field, _ in failures[:shrunk]:
        small = shrink(programs.program(seed), field)
        found = isolated(small)
        texts.append(report(small, found[1] if found else f"{field} differs, but not each time"))
    if failures[shrunk:]:
        texts.append("# also seeds " + ", ".join(f"{seed} ({field})" for seed, field, _ in failures[shrunk:]))
    return "\n".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, metavar="SEED", help="print one program and what comes of it")
    options = parser.parse_args()
    if options.show is not None:
        program = programs.program(options.show)
        print(report(program, (isolated(program) or ("", "plain and compiled agree"))[1]))
        return 0
    start = time.monotonic()
    failures = run_seeds(options.first, options.count, options.jobs)
    print(f"{options.count} programs in {time.monotonic() - start:.1f} s, {len(failures)} differ", flush=True)
    if failures:
        print(describe(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
