# step_unsupported keeps the prefix and gives up on the rest
@kt.compile(backend=cnt)
def root(x):
    x = x + 1 + 2
    kt._dynamo.step_unsupported()
    return x + 4

print(root(kt.zeros(2)).tolist(), cnt.frame_count, cnt.op_count)

@kt.compile(backend=cnt)
def nothing_before(x):
    kt._dynamo.step_unsupported()
    return x + 1

print(nothing_before(kt.zeros(2)).tolist(), cnt.frame_count)

# output:
# | [7.0, 7.0] 1 2
# | [1.0, 1.0] 1
# counts: graphs 1 (operations: 2); breaks reported 2 (partial 1, skipped 1) at 2 source lines; recompiles 0.
