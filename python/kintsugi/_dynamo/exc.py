"""Exceptions of the tracer."""


class Unsupported(RuntimeError):
    """Under fullgraph=True: a place that cannot be compiled. The text names it, says why, and what helps."""
