"""python -m kintsugi: run a script with records, measure, or run CPython's own tests.

    python -m kintsugi run [--logs KINDS] script.py [arguments]
    python -m kintsugi bench [--json FILE]
    python -m kintsugi cpython-tests [MODULE...]
"""
import argparse
import runpy
import sys


def _run(arguments):
    parser = argparse.ArgumentParser(prog="python -m kintsugi run", description="Runs a script; its kt.compile functions are compiled.")
    parser.add_argument("--logs", default="", help="records to write: graph_breaks,recompiles,guards,graph,plan,asm")
    parser.add_argument("--counters", action="store_true", help="print the counters at the end")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    from kintsugi._runtime import _driver
    if options.logs:
        _driver.set_logs(options.logs)
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = __import__("os").path.dirname(__import__("os").path.abspath(options.script))
    try:
        runpy.run_path(options.script, run_name="__main__")
    finally:
        if options.counters:
            for heading in _driver.count_headings():
                for name, number in _driver.counts(heading).items():
                    print(f"{heading:12} {number:8}  {name.splitlines()[0]}", file=sys.stderr)


def main():
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command == "run":
        return _run(arguments)
    if command == "bench":
        from kintsugi import bench
        return bench.main(arguments)
    if command == "cpython-tests":
        from kintsugi import cpython_tests
        return cpython_tests.main(arguments)
    print(__doc__.strip(), file=sys.stderr)
    return 0 if command in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main())
