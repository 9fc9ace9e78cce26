# explicit breaks split a function
@kt.compile(backend=cnt)
def fn(x):
    x = x.cos()
    x = x.cos()
    kt._dynamo.graph_break()
    x = x.cos()
    x = x.cos()
    kt._dynamo.graph_break(msg="second one")
    x = x.cos()
    return x.cos()

fn(kt.ones(2, 2))
print(cnt.frame_count, cnt.op_count)
fn(kt.ones(2, 2))
print(cnt.frame_count, cnt.op_count)

# output:
# | 3 6
# | 3 6
# counts: graphs 3 (operations: 2, 2, 2); breaks reported 2 (resumed 2) at 2 source lines; recompiles 0.
