# Python ints, floats, bools, strings, None
@kt.compile(backend=cnt)
def f(x, v):
    return x if v is None else x * len(v) if isinstance(v, str) else x * v

def count(*vals):
    kt._dynamo.reset(); cnt.clear()
    for v in vals:
        f(kt.ones(2), v)
    return cnt.frame_count

print(count(2, 3, 4, 5), count(2, 3, 1, 0), count(2.0, 3.0, 4.0, 5.0))
print(count(True, False, True), count("a", "bb", "a"), count(None, 2, None))

# output:
# | 2 2 2
# | 2 2 0
# counts: graphs 10 (operations: 1, 1, 1, 1, 1, 2, 1, 1, 1, 1); breaks 0; recompiles 5.
