# the three queries in eager, traced and disabled code
def ask():
    return (kt.compiler.is_compiling(), kt.compiler.is_dynamo_compiling(), kt.compiler.is_exporting())

@kt.compiler.disable
def ask_off():
    return ask()

@kt.compile(backend=cnt)
def root(x):
    a = ask()
    y = x + 1
    b = ask_off()
    return a, b, y

print(ask())
a, b, _ = root(kt.ones(1))
print(a, b)

# output:
# | (False, False, False)
# | (True, True, False) (False, False, False)
# counts: graphs 1 (operations: 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
