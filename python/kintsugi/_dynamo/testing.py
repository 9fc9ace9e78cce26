"""For tests: a function the tracer cannot know, and a backend that counts."""
from .._runtime import _driver

opaque = _driver.opaque


class CompileCounter:
    """A backend that answers the graph's own code: `frame_count` graphs came by, with `op_count` calls in them."""

    def __init__(self):
        self.clear()

    def __call__(self, graph_module, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in graph_module.graph.nodes)
        return graph_module.forward

    def clear(self):
        self.frame_count = self.op_count = 0
