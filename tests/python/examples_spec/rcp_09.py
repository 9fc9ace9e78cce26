# mark_dynamic, maybe_mark_dynamic, mark_static
@kt.compile(backend=cnt)
def f(x):
    return x + 1

t = kt.ones(3); kt._dynamo.mark_dynamic(t, 0)
f(t); f(kt.ones(5)); f(kt.ones(8)); print(cnt.frame_count)

@kt.compile(backend=cnt)
def g(x):
    return x + 1 if x.shape[0] == 3 else x - 1

t = kt.ones(3); kt._dynamo.mark_dynamic(t, 0)
try:
    g(t)
except Exception as e:
    print(type(e).__name__)
kt._dynamo.reset(); cnt.clear()
t = kt.ones(3); kt._dynamo.maybe_mark_dynamic(t, 0)
g(t); print(cnt.frame_count)
kt._dynamo.reset(); cnt.clear()
h = kt.compile(lambda x: x + 1, backend=cnt, dynamic=True)
for n in (3, 4):
    t = kt.ones(n); kt._dynamo.mark_static(t, 0); h(t)
print(cnt.frame_count)

# output:
# | 1
# | ConstraintViolationError
# | 1
# | 2
# counts: graphs 5 (operations: 1, 1, 1, 1, 1); breaks 0; recompiles 1.
