# list appends and attribute stores around a break
class Box: pass
box = Box(); items = []

@kt.compile(backend=cnt)
def f(x):
    items.append("a")
    box.v = x + 1
    kt._dynamo.graph_break()
    items.append("b")
    box.v = box.v * 2
    return box.v

print(f(kt.ones(1)).tolist(), items, box.v.tolist(), cnt.frame_count)
print(f(kt.ones(1)).tolist(), items, cnt.frame_count)

# output:
# | [4.0] ['a', 'b'] [4.0] 2
# | [4.0] ['a', 'b', 'a', 'b'] 4
# counts: graphs 4 (operations: 1, 1, 1, 1); breaks reported 2 (resumed 2) at 1 source line; recompiles 2.
