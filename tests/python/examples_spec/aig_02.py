# disallow_in_graph refuses ordinary functions
def plain(x):
    return x + 1

try:
    kt._dynamo.disallow_in_graph(plain)
except RuntimeError as e:
    print("RuntimeError", "allowed callable" in str(e))
try:
    kt._dynamo.disallow_in_graph(3)
except AssertionError:
    print("AssertionError")

# output:
# | RuntimeError True
# | AssertionError
# counts: graphs 0; breaks 0; recompiles 0.
