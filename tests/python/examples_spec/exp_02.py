# reset forgets compiled code, and counters tell what happened
from kintsugi._dynamo.utils import counters

@kt.compile(backend=cnt)
def f(x):
    x = x + 1
    kt._dynamo.graph_break()
    return x + 1

counters.clear()
f(kt.ones(1)); f(kt.ones(1)); print(cnt.frame_count)
print(counters["frames"]["total"], counters["frames"]["ok"], counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
kt.compiler.reset()
f(kt.ones(1)); print(cnt.frame_count)

# output:
# | 2
# | 2 2 2 1
# | 4
# counts: graphs 4 (operations: 1, 1, 1, 1); breaks reported 2 (resumed 2) at 1 source line; recompiles 0.
