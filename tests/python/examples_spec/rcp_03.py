# dynamic=False and dynamic=True
off = kt._dynamo.testing.CompileCounter()
on = kt._dynamo.testing.CompileCounter()
f = kt.compile(lambda x: x + 1, backend=off, dynamic=False)
g = kt.compile(lambda x: x + 2, backend=on, dynamic=True)
for n in (3, 4, 5):
    f(kt.ones(n)); g(kt.ones(n))
print(off.frame_count, on.frame_count)
g(kt.ones(1))
print(on.frame_count)

# output:
# | 3 1
# | 2
# counts: graphs 5 (operations: 1, 1, 1, 1, 1); breaks 0; recompiles 3.
