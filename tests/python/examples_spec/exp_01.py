# explain
def f(x):
    x = x + 1
    x = x * 2
    kt._dynamo.graph_break()
    return x + 3

out = kt._dynamo.explain(f)(kt.ones(2))
print(out.graph_count, out.graph_break_count, out.op_count, len(out.graphs))
print(len(out.break_reasons), [len(o) for o in out.ops_per_graph])
print("graph_break()" in out.break_reasons[0].reason, out.break_reasons[0].user_stack[-1].name)
print(len(out.out_guards) > 0)

# output:
# | 2 1 3 2
# | 1 [2, 1]
# | True f
# | True
# counts: graphs 2 (operations: 2, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
