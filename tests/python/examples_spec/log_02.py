# reorderable print: one graph, output after the graph ran
kt._dynamo.config.reorderable_logging_functions.add(print)

@kt.compile(backend=cnt)
def f(x):
    x = x + 1
    print("first", x.shape[0])
    x = x * 2
    print(f"second {x.shape[0]}")
    return x

r = f(kt.ones(1))
print(r.tolist(), cnt.frame_count)
kt._dynamo.config.reorderable_logging_functions.clear()

# output:
# | first 1
# | second 1
# | [4.0] 1
# counts: graphs 1 (operations: 2); breaks 0; recompiles 0.
