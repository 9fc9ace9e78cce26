# ignored functions never run
hits = []
def record(*a, **k):
    hits.append(a)

kt._dynamo.config.ignore_logging_functions.add(record)

@kt.compile(backend=cnt, fullgraph=True)
def f(x):
    record(x, any="thing")
    return x + 1

f(kt.ones(1)); f(kt.ones(1))
print(hits, cnt.frame_count)
kt._dynamo.config.ignore_logging_functions.clear()

# output:
# | [] 1
# counts: graphs 1 (operations: 1); breaks 0; recompiles 0.
