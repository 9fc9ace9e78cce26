# Trees: flattened, built again, mapped, plain and compiled.
import collections
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

Pair = collections.namedtuple("Pair", "left right")
tree = {"a": [1, (2, 3)], "b": Pair(4, None)}
leaves, spec = tree_flatten(tree)
print(leaves, spec.num_leaves, spec.num_nodes)
print(spec)
print(tree_unflatten([n and n * 10 for n in leaves], spec))
print(tree_map_only(int, lambda n: -n, tree))


@torch.compile(fullgraph=True)
def doubled(tree):
    return tree_map(lambda x: x * 2, tree), len(tree_leaves(tree))


out, count = doubled({"x": torch.ones(1), "rest": [torch.zeros(1), (torch.ones(2),)]})
print(out, count)

# | [1, 2, 3, 4, None] 5 9
# | TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,
# |     TreeSpec(tuple, None, [*,
# |       *])]),
# |   TreeSpec(namedtuple, <class '__main__.Pair'>, [*,
# |     *])])
# | {'a': [10, (20, 30)], 'b': Pair(left=40, right=None)}
# | {'a': [-1, (-2, -3)], 'b': Pair(left=-4, right=None)}
# | {'x': tensor([2.]), 'rest': [tensor([0.]), (tensor([2., 2.]),)]} 3
# breaks: 0
