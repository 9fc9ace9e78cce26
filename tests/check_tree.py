"""Checks what the compiler cannot: which room includes which, what stays behind which door, file lengths, absolute
paths, and that the map names every file. Run from the root; one count a rule."""
import pathlib
import re
import subprocess
import sys

ROOMS = ["kernels", "guards", "jit", "runtime"]  # each may include those before it
# What guards and jit may include of the rooms above them.
FLOOR = {f"runtime/{name}" for name in
         ["python.h", "frame.h", "status.h", "options.h", "log.h", "breaks.def", "tensor_layout.h"]}
FLOOR |= {"jit/emit.h", "jit/codemem.h"}
MAX_LINES = 800
# pattern in code or includes -> files that may use it, why
DOORS = [
    (re.compile(r"\bPy_BUILD_CORE|internal/pycore_|\bcframe\b|\bprev_instr\b|\blocalsplus\b|\bma_keys\b|\bdk_\w+"),
     re.compile(r"runtime/frame\.h$"), "CPython internals belong in runtime/frame.h"),
    (re.compile(r"\basmjit\b"), re.compile(r"jit/(emit|codemem)\.\w+$"), "asmjit belongs in jit/emit and jit/codemem"),
    (re.compile(r"<(cuda|nvrtc)\w*\.h>|\bCU(context|module|function|deviceptr)\b"),
     re.compile(r"kernels/(cuda|gpu)\.\w+$"), "CUDA types belong in kernels/cuda and kernels/gpu"),
]
# The two systems' own names for things: perf reads its maps there, the kernel describes itself there.
ABSOLUTE = re.compile(r"""(?<![\w.$}])/(?:usr|home|root|work|opt|tmp|var|etc|mnt)/(?!perf-)""")


def tracked():
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    return [pathlib.Path(name) for name in names if name and pathlib.Path(name).is_file()]


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def room(path):
    return path.parts[0] if path.parts[0] in ROOMS else None


def is_source(path):
    return path.suffix in (".h", ".cpp", ".def")


def include_directions(files):
    for path in filter(is_source, files):
        mine = room(path)
        if mine is None:
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            found = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if not found:
                continue
            name = found.group(1)
            if mine == "kernels" and name in ("Python.h", "structmember.h"):
                yield f"{path}:{number}: no Python in kernels"
            other = name.split("/")[0]
            if '"' not in line or name.startswith("stencils"):
                continue
            if other not in ROOMS:
                yield f"{path}:{number}: \"{name}\" is not written from the root (kernels/ guards/ jit/ runtime/)"
            elif ROOMS.index(other) > ROOMS.index(mine) and (mine == "kernels" or name not in FLOOR):
                yield f"{path}:{number}: {mine} may not include {name}; only the rooms to its right and the floor"


def doors(files):
    for path in filter(is_source, files):
        if room(path) is None:
            continue
        for number, line in enumerate(without_comments(path.read_text()).split("\n"), 1):
            for pattern, allowed, why in DOORS:
                if pattern.search(line) and not allowed.match(str(path)):
                    yield f"{path}:{number}: {why}"


def lengths(files):
    for path in files:
        if is_source(path) or path.suffix in (".py", ".sh", ".md", ".toml", ".build") or path.name == "dev":
            count = path.read_text().count("\n")
            if count > MAX_LINES:
                yield f"{path}: {count} lines; split it, {MAX_LINES} is the most"


def absolute_paths(files):
    for path in files:
        if path.suffix in (".csv", ".png") or path == pathlib.Path("tests/check_tree.py"):
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if ABSOLUTE.search(line) and not line.startswith("#!"):
                yield f"{path}:{number}: an absolute path"


def map_page(files):
    """docs/index.md has a part `## folder/` for each folder, with every file of it in backquotes."""
    named, part = set(), None
    for line in pathlib.Path("docs/index.md").read_text().split("\n"):
        heading = re.match(r"## `([\w/]+)/`", line)
        if line.startswith("## "):
            part = heading.group(1) if heading else None
        elif part:
            for name in re.findall(r"`([\w/.]+\.(?:h|cpp|def|py|sh|md|csv))`", line):
                named.add(f"{part}/{name}")
    for path in files:
        folder = path.parts[0]
        must = folder in ROOMS and path.suffix in (".h", ".cpp", ".def", ".py") or folder == "python" and path.suffix == ".py"
        if must and str(path) not in named:
            yield f"docs/index.md does not name {path}"
    for name in sorted(named):
        if not pathlib.Path(name).is_file():
            yield f"docs/index.md names {name}, which does not exist"


def names_in_pages(files):
    """What docs/walk.md and docs/plan.md call by name is in the code, and what they call a file is one."""
    words = set()
    for path in files:
        if is_source(path) or path.suffix in (".py", ".toml"):
            words.update(re.findall(r"\w+", path.read_text()))
    words |= set(re.findall(r"\w+", pathlib.Path("dev").read_text()))
    known = {str(path) for path in files}
    for page in ("docs/walk.md", "docs/plan.md"):
        for number, line in enumerate(pathlib.Path(page).read_text().split("\n"), 1):
            for name in re.findall(r"`([^`]+)`", line):
                if re.fullmatch(r"[\w/]+/\w+\.\w+", name) and name not in known:
                    yield f"{page}:{number}: there is no {name}"
                if re.fullmatch(r"[A-Za-z_]\w*(::\w+)?(\(\))?", name) and not words.issuperset(re.findall(r"\w+", name)):
                    yield f"{page}:{number}: {name} is nowhere in the code"


def main():
    files = tracked()
    failed = 0
    rules = [include_directions, doors, lengths, absolute_paths, map_page, names_in_pages]
    for rule in rules:
        findings = list(rule(files))
        print(*findings, sep="\n", end="\n" if findings else "")
        failed += bool(findings)
    print(f"check: {len(rules) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
