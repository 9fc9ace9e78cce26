# a reordered log shows a later in-place change
def note(x):
    print("note", x.tolist())

kt._dynamo.config.reorderable_logging_functions.add(note)

@kt.compile(backend=cnt)
def f(x):
    y = x + 1
    note(y)
    y.add_(10)
    return y

f(kt.zeros(1))
print(cnt.frame_count)
kt._dynamo.config.reorderable_logging_functions.clear()

# output:
# | note [11.0]
# | 1
# counts: graphs 1 (operations: 2); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
