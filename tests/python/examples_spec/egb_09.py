# eager use, and the required argument
with kt._dynamo.error_on_graph_break(True):
    kt._dynamo.graph_break()
    print("still here")
try:
    kt._dynamo.error_on_graph_break()
except TypeError:
    print("TypeError")

@kt._dynamo.error_on_graph_break(True)
@kt.compile(backend=cnt)
def empty():
    return 1
print(empty(), cnt.frame_count)

# output:
# | still here
# | TypeError
# | 1 0
# counts: graphs 0; breaks 0; recompiles 0.
