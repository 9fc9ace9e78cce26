# a break inside a user-defined context manager cannot resume
events = []

class Ctx:
    def __enter__(self):
        events.append("enter")
    def __exit__(self, *exc):
        events.append("exit")

@kt.compile(backend=cnt)
def root(x):
    x = x + 1
    with Ctx():
        x = x + 2
        kt._dynamo.graph_break()
        x = x + 4
    return x + 8

print(root(kt.zeros(2)).tolist(), events, cnt.frame_count)

@kt.compile(backend=cnt, fullgraph=True)
def fine(x):
    with Ctx():
        x = x + 2
    return x
print(fine(kt.zeros(1)).tolist(), events, cnt.frame_count)

# output:
# | [15.0, 15.0] ['enter', 'exit'] 0
# | [2.0] ['enter', 'exit', 'enter', 'exit'] 1
# counts: graphs 1 (operations: 1); breaks reported 1 (skipped 1) at 1 source line; recompiles 0.
