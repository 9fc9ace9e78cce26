"""kt._dynamo.explain: one run of a function, and what was compiled in it."""
import dataclasses
import traceback
import warnings

from .._runtime import _driver
from .._compile import compile


@dataclasses.dataclass
class Graph:
    """The tensor operations of one segment, in order, as text."""
    function: str
    ops: list

    def __str__(self):
        return "\n".join([self.function, *("  " + op for op in self.ops)])


@dataclasses.dataclass
class BreakReason:
    """Why a graph ended before the function did."""
    reason: str
    user_stack: list  # of traceback.FrameSummary, innermost last
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    graphs: list
    graph_count: int
    graph_break_count: int
    break_reasons: list
    op_count: int
    ops_per_graph: list
    out_guards: list
    compile_times: str
    phases: dict          # microseconds: trace, fuse, emit

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
                 f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, reason in enumerate(self.break_reasons, 1):
            lines.append(f"  Break Reason {number}:")
            lines += ["    " + line for line in reason.reason.rstrip().splitlines()]
            lines.append("    User Stack:")
            lines += [f"      {frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
                      for frame in reason.user_stack]
        lines.append("Ops per Graph:")
        for number, graph in enumerate(self.graphs, 1):
            lines.append(f"  Graph {number} ({graph.function}):")
            lines += ["    " + op for op in graph.ops]
        lines.append("Out Guards:")
        lines += ["  " + guard for guard in self.out_guards]
        lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines)


def explain(f, *args, **kwargs):
    if args or kwargs:
        warnings.warn("explain(f, *args) is deprecated: use explain(f)(*args)", FutureWarning, stacklevel=3)
        return _run(f, args, kwargs)
    return lambda *args, **kwargs: _run(f, args, kwargs)


def _run(f, args, kwargs):
    _driver.reset()
    _driver.start_recording()
    try:
        compile(f)(*args, **kwargs)
    finally:
        records = _driver.stop_recording()
        _driver.reset()
    return _summary(records)


def _summary(records):
    with_ops = [record for record in records if record["tensor_ops"]]
    graphs = [Graph(record["function"], record["graph"]) for record in with_ops]
    reasons = [BreakReason(record["break"], [_frame(line) for line in record["stack"]])
               for record in records if record["break"]]
    phases = {phase: sum(record[phase + "_us"] for record in records) for phase in ("trace", "fuse", "emit")}
    times = ", ".join(f"{phase} {us:.1f} us" for phase, us in phases.items())
    guards = list(dict.fromkeys(guard for record in records for guard in record["guards"]))
    return ExplainOutput(
        graphs=graphs, graph_count=len(graphs), graph_break_count=len(reasons), break_reasons=reasons,
        op_count=sum(record["tensor_ops"] for record in records), ops_per_graph=[graph.ops for graph in graphs],
        out_guards=guards, compile_times=f"{times}; {len(records)} segments", phases=phases)


def _frame(text):
    file, line, name = text.rsplit(":", 2)
    return traceback.FrameSummary(file, int(line), name)
