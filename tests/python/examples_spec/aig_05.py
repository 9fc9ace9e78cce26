# forbid_in_graph is a hard error, not a break
@kt._dynamo.forbid_in_graph
def never(x):
    return x + 1

print(never(kt.ones(1)).tolist())

@kt.compile(backend=cnt)
def root(x):
    return never(x * 2)

try:
    root(kt.ones(1))
except AssertionError as e:
    print("AssertionError", "forbidden callable" in str(e))

# output:
# | [2.0]
# | AssertionError True
# counts: graphs 0; breaks 0; recompiles 0.
