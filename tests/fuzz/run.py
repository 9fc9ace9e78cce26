"""Runs random programs plain and compiled and compares everything that can be seen: value, dtype, shape, strides,
sharing of memory, effects on arguments and globals, output, exception with text and lines.

    ./dev test --fuzz 20000
    ./dev python tests/fuzz/run.py --count 20000 --first 0 --jobs 2
    ./dev python tests/fuzz/run.py --show 17         the program of seed 17, whole, and what happens

Programs run in forked children, many in each: a crash or a hang costs one program and is a failure like others. A
failing program is cut down to few statements before it is shown, as a file that runs.
"""
import argparse
import contextlib
import io
import json
import os
import select
import signal
import sys
import time
import traceback
import types

import kintsugi as kt

import programs

TIME_LIMIT = 5.0      # seconds a program, plain and compiled; a plain run that takes longer is left out
CHILD_LIMIT = 30.0    # seconds without a sign of life
PRELUDE = compile(programs.PRELUDE, "<prelude>", "exec")


class TooLong(BaseException):
    pass


# ---- One program -----------------------------------------------------------------------------------------------------


def fresh(code):
    """The same code without anything compiled for it."""
    return code.replace(co_consts=tuple(fresh(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))


def load(source):
    space = {"__name__": "program"}
    exec(fresh(PRELUDE), space)
    exec(compile(source, "<program>", "exec"), space)
    return space


class Snapshot:
    """Plain text of a value, with identities: the same object, or overlapping memory, shows as such."""

    def __init__(self):
        self.seen = {}      # id -> number
        self.alive = []     # what the ids belong to
        self.tensors = []   # (number, first byte, one past the last byte)

    def of(self, value):
        if isinstance(value, float):
            return repr(value)
        if value is None or isinstance(value, (int, str)):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self.seen:
            return f"#{self.seen[id(value)]}"
        number = self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, kt.Tensor):
            return f"#{number} {self.of_tensor(value, number)}"
        if isinstance(value, (list, tuple)):
            return f"#{number} {type(value).__name__} [{', '.join(map(self.of, value))}]"
        if isinstance(value, dict):
            return f"#{number} {{{', '.join(f'{self.of(k)}: {self.of(v)}' for k, v in value.items())}}}"
        if type(value).__name__ == "Box":
            return f"#{number} Box {self.of(vars(value))}"
        return f"#{number} {type(value).__name__}"

    def of_tensor(self, tensor, number):
        size, strides = tensor.element_size(), tensor.stride()
        first = tensor.data_ptr()
        spans = [(count - 1) * stride * size for count, stride in zip(tensor.shape, strides)] if tensor.numel() else []
        low = first + sum(min(span, 0) for span in spans)
        high = first + sum(max(span, 0) for span in spans) + size * bool(tensor.numel())
        shares = [f" at {first - origin:+} of #{other}" for other, origin, other_low, other_high in self.tensors
                  if low < other_high and other_low < high]
        self.tensors.append((number, first, low, high))
        return f"{tensor.dtype} {tuple(tensor.shape)} {strides}{''.join(shares[:1])} {tensor.tolist()!r}"


def lines_of(error):
    """Where it passed through the program and the prelude, and what it came from."""
    frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename in ("<program>", "<prelude>")]
    context = f" while handling {type(error.__context__).__name__}" if error.__context__ else ""
    return " > ".join(frames) + context


def call(function, space, arguments):
    """What one call did, field by field."""
    arguments = eval(arguments, space)
    seen = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            value = function(*arguments)
        except Exception as error:
            seen["exception"] = f"{type(error).__name__}: {error}"
            seen["lines"] = lines_of(error)
            value = None
    snapshot = Snapshot()
    seen["arguments"] = snapshot.of(list(arguments))
    seen["value"] = snapshot.of(value)
    seen["printed"] = printed.getvalue()
    seen["globals"] = str(space["total"])
    return seen


def apart(plain, compiled):
    """The place where two texts part, shown one above the other."""
    plain, compiled = str(plain), str(compiled)
    start = len(os.path.commonprefix([plain, compiled]))
    begin = max(0, plain.rfind("#", 0, start))
    return "".join(f"\n  {name:8} {'...' * (begin > 0)}{text[begin:start + 80]}"
                   for name, text in (("plain", plain), ("compiled", compiled)))


def check(program, limit=TIME_LIMIT):
    """None when plain and compiled agree in each call, else (field, text)."""
    source = program.source()
    plain, ours = load(source), load(source)
    compiled = kt.compile(ours["f"])
    stage = "plain"

    def too_long(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        for number, arguments in enumerate(program.calls):
            stage = "plain"
            expected = call(plain["f"], plain, arguments)
            stage = "compiled"
            found = call(compiled, ours, arguments)
            for field in dict.fromkeys([*expected, *found]):
                if expected.get(field) != found.get(field):
                    return field, f"call {number + 1}: {field} differs{apart(expected.get(field), found.get(field))}"
    except TooLong:
        return None if stage == "plain" else ("time", f"compiled ran for more than {limit} s")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def isolated(program):
    """check() in a forked child; a crash or hang is a difference too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.suppress(BaseException):
            os.write(writer, json.dumps(check(program)).encode()[:60_000])
            os._exit(0)
        os._exit(9)
    os.close(writer)
    answer, deadline = b"", time.monotonic() + CHILD_LIMIT
    with open(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
            part = pipe.read(65_536)
            if not part:
                break
            answer += part
        else:
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return "crash", ended(status)
    found = json.loads(answer)
    return found and tuple(found)


def ended(status):
    if status == -signal.SIGKILL:
        return "hangs: signals are not served"
    return f"crashes with {signal.Signals(-status).name}" if status < 0 else f"ends the process with status {status}"


# ---- Making it small -------------------------------------------------------------------------------------------------


def variants(body):
    """Each way to make a block a little smaller: without a statement, or with a statement's block in its place."""
    for i, statement in enumerate(body):
        yield body[:i] + body[i + 1:]
        for _, inner in statement.clauses:
            if inner is not None and len(statement.clauses) + len(inner) > 1:
                yield body[:i] + inner + body[i + 1:]
        for j, (head, inner) in enumerate(statement.clauses):
            for smaller in variants(inner or []):
                copy = programs.Statement("")
                copy.clauses = [*statement.clauses[:j], (head, smaller), *statement.clauses[j + 1:]]
                yield body[:i] + [copy] + body[i + 1:]


def shrink(program, field, seconds=30):
    """The smallest program found that still differs in the same field."""
    deadline = time.monotonic() + seconds

    def still_fails(candidate):
        try:
            compile(candidate.source(), "<program>", "exec")
        except SyntaxError:
            return False
        found = isolated(candidate)
        return found is not None and found[0] == field

    def smaller():
        for body in variants(program.body):
            yield programs.Program(program.seed, body, program.calls)
        for i in range(len(program.calls)):
            if len(program.calls) > 1:
                yield programs.Program(program.seed, program.body, program.calls[:i] + program.calls[i + 1:])

    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for candidate in smaller():
            if time.monotonic() > deadline:
                break
            if still_fails(candidate):
                program, progress = candidate, True
                break
    return program


def report(program, text):
    """The program as a file that runs, with what it needs of the prelude."""
    calls = "\n".join(f"print(compiled(*{arguments}))" for arguments in program.calls)
    needed = program.source() + calls
    first, *definitions = programs.PRELUDE.split("\n\n\n")
    definitions = [d for d in definitions if d.split("(")[0].split(":")[0].split()[1] in needed]
    title = "# " + f"seed {program.seed}: {text}".replace("\n", "\n# ")
    return "\n\n\n".join([f"{title}\n{first}", *map(str.rstrip, definitions), program.source().rstrip(),
                          f"compiled = kt.compile(f)\n{calls}\n"])


# ---- Many programs ---------------------------------------------------------------------------------------------------


class Child:
    """A forked process that works through seeds, telling before each where it is."""

    def __init__(self, seeds):
        self.seeds, self.at = seeds, seeds[0]
        self.heard, self.rest = time.monotonic(), b""
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            status = 9
            with contextlib.suppress(BaseException):
                for seed in seeds:
                    self.tell(writer, {"at": seed})
                    failure = check(programs.program(seed))
                    if failure:
                        self.tell(writer, {"failed": seed, "field": failure[0], "text": failure[1]})
                status = 0
            os._exit(status)
        os.close(writer)
        self.pipe = open(reader, "rb", buffering=0)

    @staticmethod
    def tell(writer, message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(writer, data):]

    def read(self):
        """(failures, whether it has ended)"""
        part = self.pipe.read(65_536)
        self.heard = time.monotonic()
        *whole, self.rest = (self.rest + part).split(b"\n")
        failures = []
        for message in map(json.loads, whole):
            self.at = message.get("at", self.at)
            if "failed" in message:
                failures.append((message["failed"], message["field"], message["text"]))
        return failures, not part

    def end(self):
        """After its pipe has closed: the failure it ended with, and the seeds it did not come to."""
        self.pipe.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        if status == 0:
            return [], []
        return [(self.at, "crash", ended(status))], [seed for seed in self.seeds if seed > self.at]


def run_seeds(first, count, jobs=1, most=20):
    """The failures (seed, field, text) among these programs; gives up after `most`."""
    per_child = max(1, min(200, count // jobs or 1))
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
            elif time.monotonic() - child.heard > CHILD_LIMIT:
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
