# global stores are replayed and visible at the break
counter = 0

@kt.compiler.disable
def show():
    print("counter is", counter)

@kt.compile(backend=cnt)
def f(x):
    global counter
    counter = counter + 1
    x = x + 1
    show()
    counter = counter + 10
    return x

f(kt.ones(1))
print(counter, cnt.frame_count)

# output:
# | counter is 1
# | 11 1
# counts: graphs 1 (operations: 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
