"""python -m kintsugi run: a script as `python script.py` runs it, with records, and with torch standing for this package."""
import argparse
import builtins
import importlib
import importlib.machinery
import os
import runpy
import sys
import types

# Modules of ours that no program of torch means.
_OWN = {"_compile", "_opaque", "_runtime", "_stance", "__main__", "bench", "cpython_tests", "plain_programs", "run"}
_kept = []


class StandIn:
    """While installed, `import torch` (or whatever `name` says) and its submodules get this package and its modules. A real torch
    is out of sight meanwhile. What this package lacks is a ModuleNotFoundError that says so."""

    def __init__(self, name="torch"):
        self.name = name
        self._before = {}
        self._specs = {}  # of modules on their way, by name

    def install(self):
        self._before = self._take_modules()
        sys.meta_path.insert(0, self)
        try:
            importlib.import_module(self.name)
        except BaseException:
            self.remove()
            raise

    def remove(self):
        sys.meta_path.remove(self)
        self._take_modules()
        sys.modules.update(self._before)

    def __enter__(self):
        self.install()

    def __exit__(self, *error):
        self.remove()

    def _take_modules(self):
        names = [name for name in sys.modules if name == self.name or name.startswith(self.name + ".")]
        return {name: sys.modules.pop(name) for name in names}

    # The protocol of importlib's finders and loaders.

    def find_spec(self, name, path=None, target=None):
        top, _, rest = name.partition(".")
        if top != self.name:
            return None
        ours = f"kintsugi.{rest}" if rest else "kintsugi"
        try:
            if rest.partition(".")[0] in _OWN:
                raise ModuleNotFoundError(name=ours)
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not (ours + ".").startswith(error.name + "."):
                raise  # it is there, and lacks something itself
            raise ModuleNotFoundError(f"No module named {name!r}: kintsugi stands for {self.name} here, and has no {ours}",
                                      name=name) from None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=hasattr(module, "__path__"))
        spec.loader_state = module
        return spec

    def create_module(self, spec):
        self._specs[spec.loader_state.__name__] = spec.loader_state.__spec__
        return spec.loader_state

    def exec_module(self, module):
        own = self._specs.pop(module.__name__)
        if module.__spec__ is not own:
            module.__spec__ = own  # the import system put the other one there


def run_script(script, arguments=()):
    """Runs a file as __main__. Its exception leaves with a traceback that begins in the script."""
    sys.argv = [script, *arguments]
    if os.path.isdir(script) or script.endswith((".pyc", ".pyz", ".zip")):
        runpy.run_path(script, run_name="__main__")
        return
    path = os.path.join(os.getcwd(), script)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    main = types.ModuleType("__main__")
    vars(main).update(__annotations__={}, __builtins__=builtins, __cached__=None, __file__=path,
                      __loader__=importlib.machinery.SourceFileLoader("__main__", path))
    main.__spec__ = None
    _kept.append(sys.modules["__main__"])  # code of it is running
    sys.modules["__main__"] = main
    code = None
    try:
        code = compile(source, path, "exec", dont_inherit=True)
        exec(code, vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        entry = error.__traceback__
        while entry is not None and entry.tb_frame.f_code is not code:
            entry = entry.tb_next
        _show_from(entry, error)
        raise


def _show_from(entry, error):
    """What the interpreter shows of it at the end begins at this entry of the traceback."""
    show = sys.excepthook

    def shown(kind, value, traceback):
        show(kind, value.with_traceback(entry) if value is error else value, entry if value is error else traceback)

    sys.excepthook = shown


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m kintsugi run",
                                     description="Runs a script as `python script.py` does; what it compiles is compiled by kintsugi.")
    parser.add_argument("--as", dest="stands_for", metavar="NAME", choices=("torch",),
                        help="torch: `import torch` gets kintsugi, in this process only")
    parser.add_argument("--logs", default="", help="records to write: graph_breaks,recompiles,guards,graph,plan,asm")
    parser.add_argument("--counters", action="store_true", help="print the counters at the end")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    from ._runtime import _driver
    if options.logs:
        _driver.set_logs(options.logs)
    if options.stands_for:
        StandIn(options.stands_for).install()
    try:
        run_script(options.script, options.arguments)
    finally:
        if options.counters:
            for heading in _driver.count_headings():
                for name, number in _driver.counts(heading).items():
                    print(f"{heading:12} {number:8}  {name.splitlines()[0]}", file=sys.stderr)
