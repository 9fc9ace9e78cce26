# disallow_in_graph breaks on one operator
@kt.compile(backend=cnt)
def fn(x):
    x = kt.add(x, 1)
    x = kt.add(x, 1)
    x = kt.sub(x, 1)
    x = kt.add(x, 1)
    return kt.add(x, 1)

kt._dynamo.disallow_in_graph(kt.sub)
print(fn(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)
kt.compiler.allow_in_graph(kt.sub)
fn(kt.ones(2))
print(cnt.frame_count)
kt._dynamo.reset()
cnt.clear()
print(fn(kt.ones(2)).tolist(), cnt.frame_count, cnt.op_count)

# output:
# | [4.0, 4.0] 2 4
# | 2
# | [4.0, 4.0] 1 5
# counts: graphs 3 (operations: 2, 2, 5); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
