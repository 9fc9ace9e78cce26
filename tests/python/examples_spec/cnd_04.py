# a Python bool predicate specialises and warns
import warnings

@kt.compile(backend=cnt)
def f(x, flag):
    return kt.cond(flag, lambda x: x + 1, lambda x: x - 1, (x,))

with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    print(f(kt.ones(1), True).tolist(), f(kt.ones(1), False).tolist())
print(any("specializes" in str(i.message) for i in w), cnt.frame_count, cnt.op_count)

# output:
# | [2.0] [0.0]
# | True 2 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
