# eager cond
print(kt.cond(True, lambda x: x + 1, lambda x: x - 1, (kt.ones(1),)).tolist())
print(kt.cond(kt.tensor(False), lambda x: x + 1, lambda x: x - 1, (kt.ones(1),)).tolist())
try:
    kt.cond("yes", lambda x: x, lambda x: x, (kt.ones(1),))
except RuntimeError:
    print("RuntimeError")

# output:
# | [2.0]
# | [0.0]
# | RuntimeError
# counts: graphs 1 (operations: 2); breaks 0; recompiles 0.
