"""kt._dynamo.explain: one run of a function, and what was compiled in it."""
import dataclasses
import traceback
import warnings

from .._runtime import _driver
from .._compile import compile, require_callable
from ..fx import name_of


@dataclasses.dataclass
class BreakReason:
    """Why a compiled part ended before the function did."""
    reason: str
    user_stack: list  # of traceback.FrameSummary, innermost last
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    """What explain(f)(*args) answers; str() is made for reading."""
    graphs: list          # of kt.fx.GraphModule, in order
    graph_count: int
    graph_break_count: int
    break_reasons: list   # of BreakReason
    op_count: int
    ops_per_graph: list   # of lists of what is called
    out_guards: list      # of text
    compile_times: str
    phases: dict          # microseconds: trace, fuse, emit

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
                 f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, reason in enumerate(self.break_reasons, 1):
            lines.append(f"  Break Reason {number}:")
            lines += ["    " + line for line in reason.reason.rstrip().splitlines()]
            lines.append("    User Stack:")
            lines += [f"      {frame.filename}:{frame.lineno} in {frame.name}" + (f": {frame.line}" if frame.line else "")
                      for frame in reason.user_stack]
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Graph {number}:")
            lines += ["    " + name_of(op) for op in ops]
        lines.append("Out Guards:")
        lines += ["  " + guard for guard in self.out_guards]
        lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines)


def explain(f, *args, **kwargs):
    require_callable(f, "explain")
    if args or kwargs:
        warnings.warn("explain(f, *args) is deprecated: use explain(f)(*args)", FutureWarning, stacklevel=3)
        return _run(f, args, kwargs)
    return lambda *args, **kwargs: _run(f, args, kwargs)


def _run(f, args, kwargs):
    graphs = []

    def listen(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    _driver.reset()
    _driver.start_recording()
    try:
        compile(f, backend=listen)(*args, **kwargs)
    finally:
        records = _driver.stop_recording()
        _driver.reset()
    return _summary(graphs, records)


def _summary(graphs, records):
    reasons = [BreakReason(record["break"], [_frame(line) for line in record["stack"]])
               for record in records if record["break"]]
    phases = {phase: sum(record[phase + "_us"] for record in records) for phase in ("trace", "fuse", "emit")}
    times = ", ".join(f"{phase} {us:.1f} us" for phase, us in phases.items())
    ops = [[node.target for node in graph.graph.nodes if node.op.startswith("call")] for graph in graphs]
    guards = list(dict.fromkeys(guard for record in records for guard in record["guards"]))
    return ExplainOutput(
        graphs=graphs, graph_count=len(graphs), graph_break_count=max(len(graphs) - 1, 0), break_reasons=reasons,
        op_count=sum(map(len, ops)), ops_per_graph=ops, out_guards=guards, compile_times=f"{times}; {len(records)} segments",
        phases=phases)


def _frame(text):
    file, line, name = text.rsplit(":", 2)
    return traceback.FrameSummary(file, int(line), name)
