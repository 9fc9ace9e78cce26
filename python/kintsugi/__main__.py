"""python -m kintsugi: run a script with records or as a program of torch, measure, or run CPython's own tests.

    python -m kintsugi run [--as torch] [--logs KINDS] [--counters] script.py [arguments]
    python -m kintsugi bench [--json FILE]
    python -m kintsugi cpython-tests [MODULE...]
"""
import sys


def main():
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command == "run":
        from kintsugi import run
        return run.main(arguments)
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
