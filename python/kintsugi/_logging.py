"""kt._logging: which records the runtime writes. They go to loggers named kintsugi.__<artifact>, at DEBUG, and from there to
stderr; the environment variable KINTSUGI_LOGS (or TORCH_LOGS) has them written to stderr directly."""
import logging
import os
import warnings

from ._runtime import _driver

# Artifacts with records of their own, and those that are said in another's.
_KINDS = ("graph_breaks", "recompiles", "recompiles_verbose", "guards", "graph", "plan", "asm")
_SAID_BY = {"graph_code": "graph", "bytecode": "plan"}
_NO_RECORDS = ("side_effects", "trace_source", "trace_bytecode")
_COMPONENTS = ("dynamo", "all")
_artifacts = {name: logging.getLogger(f"kintsugi.__{name}") for name in (*_KINDS, *_SAID_BY, *_NO_RECORDS)}


class _Format(logging.Formatter):
    def format(self, record):
        compile_id = getattr(record, "compile_id", "")
        about = f"[{compile_id}] " if compile_id else ""
        head = (f"{record.levelname[0]}{self.formatTime(record, '%m%d %H:%M:%S')}.{int(record.msecs):03d} {record.thread} "
                f"{record.filename}:{record.lineno}] {about}[{record.name.rpartition('.')[2]}] ")
        return "\n".join(head + line for line in record.getMessage().split("\n"))


class _Stderr(logging.StreamHandler):
    """The stderr of now, whatever it was at import."""

    @property
    def stream(self):
        import sys
        return sys.stderr

    @stream.setter
    def stream(self, value):
        pass


_handler = _Stderr()
_handler.setFormatter(_Format())
_wanted = {}


def set_logs(**settings):
    """set_logs(graph_breaks=True, dynamo=logging.DEBUG): exactly these records from now on; without arguments, none.

    Artifacts: graph_breaks, recompiles, recompiles_verbose, guards, graph, graph_code, bytecode, plan, asm, side_effects,
    trace_source, trace_bytecode; True or False. Components: dynamo, all; a level of logging.
    """
    for name, value in settings.items():
        if name in _artifacts:
            if not isinstance(value, bool):
                raise ValueError(f"{name} is an artifact: True or False, not {value!r}")
        elif name in _COMPONENTS:
            if isinstance(value, bool) or not isinstance(value, int) or logging.getLevelName(value).startswith("Level"):
                raise ValueError(f"{name} is a component: a level of logging, not {value!r}")
        else:
            raise TypeError(f"set_logs has no setting {name!r}; there are {', '.join((*_artifacts, *_COMPONENTS))}")
    if os.environ.get("KINTSUGI_LOGS") or os.environ.get("TORCH_LOGS"):
        warnings.warn("set_logs does nothing: the environment says which records are written", stacklevel=2)
        return
    _wanted.clear()
    kinds = set()
    for name, logger in _artifacts.items():
        on = settings.get(name, False)
        logger.setLevel(logging.DEBUG if on else logging.NOTSET)
        logger.propagate = not on
        (logger.addHandler if on else logger.removeHandler)(_handler)
        if on and name not in _NO_RECORDS:
            kinds.add(_SAID_BY.get(name, name))
            _wanted.setdefault(_SAID_BY.get(name, name), []).append(logger)
    for name in _COMPONENTS:
        logging.getLogger("kintsugi").setLevel(settings.get(name, logging.WARNING))
    _driver.set_log_sink(_emit if kinds else None)
    _driver.set_logs(",".join(sorted(kinds)))


def _emit(kind, text, compile_id):
    for logger in _wanted.get(kind, ()):
        logger.debug("%s", text, extra={"compile_id": compile_id})


def _read_environment(text):
    """TORCH_LOGS=graph_breaks,+dynamo,...: records are written to stderr directly. Components have none of their own."""
    kinds = set()
    for name in filter(None, (each.strip().lstrip("+-") for each in text.split(","))):
        if name in _artifacts:
            kinds.add(_SAID_BY.get(name, name))
        elif name not in _COMPONENTS:
            warnings.warn(f"TORCH_LOGS: no record is called {name!r}; there are {', '.join((*_artifacts, *_COMPONENTS))}")
    _driver.set_logs(",".join(sorted(kinds.difference(_NO_RECORDS))))


if os.environ.get("TORCH_LOGS") and not os.environ.get("KINTSUGI_LOGS"):
    _read_environment(os.environ["TORCH_LOGS"])
