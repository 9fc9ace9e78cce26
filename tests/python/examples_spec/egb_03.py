# wrapping a bound method you do not own
class Foreign:
    def forward(self, x):
        x = x + 1
        kt._dynamo.graph_break()
        return x + 2

obj = Foreign()
obj.forward = kt._dynamo.error_on_graph_break(False)(obj.forward)

@kt._dynamo.error_on_graph_break(True)
@kt.compile(backend=cnt)
def root(x):
    return obj.forward(x)

print(root(kt.zeros(2)).tolist())

# output:
# | [3.0, 3.0]
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
