"""A scene tree walked recursively: transforms pushed down, visitors by method name, depth, optional children."""
import kintsugi as kt


class Node:
    def __init__(self, name, offset, scale=1.0, children=()):
        self.name, self.offset, self.scale = name, offset, scale
        self.children = list(children)
        self.parent = None
        for child in self.children:
            child.parent = self

    def visit(self, visitor, depth=0):
        method = getattr(visitor, "visit_" + self.name.split(".")[0], visitor.visit_any)
        method(self, depth)
        for child in self.children:
            child.visit(visitor, depth + 1)

    @property
    def world(self):
        return self.offset if self.parent is None else self.parent.world + self.parent.scale * self.offset


class Collector:
    def __init__(self):
        self.found = {}
        self.deepest = 0

    def visit_any(self, node, depth):
        self.found[node.name] = node.world
        self.deepest = max(self.deepest, depth)

    def visit_light(self, node, depth):
        self.found[f"light at {depth}"] = node.world * 2


def total(node):
    return node.offset + sum((total(child) for child in node.children), kt.zeros(2))


def flatten(nested):
    return [leaf for part in nested for leaf in (flatten(part) if isinstance(part, list) else [part])]


def run(root, nested):
    collector = Collector()
    root.visit(collector)
    leaves = flatten(nested)
    return collector.found, collector.deepest, total(root), kt.stack(leaves).sum(dim=0), len(leaves)


def make_arguments(turn):
    leaf = Node("light.one", kt.tensor([1.0, 0.0]))
    arm = Node("arm", kt.tensor([0.0, 1.0 + turn]), 2.0, [leaf, Node("hand", kt.tensor([0.5, 0.5]))])
    return Node("body", kt.tensor([3.0, 3.0]), 0.5, [arm]), [kt.ones(2), [kt.zeros(2), [kt.ones(2) * turn]], []]
