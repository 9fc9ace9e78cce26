# lists give lists, single callables come back unchanged
def p(x): return x + 1
def q(x): return x + 2
r = kt.compiler.allow_in_graph([p, q])
print(type(r).__name__, r[0] is p, r[1] is q)
print(type(kt.compiler.allow_in_graph((p,))).__name__)
print(kt.compiler.allow_in_graph(p) is p)
try:
    kt.compiler.allow_in_graph("p")
except AssertionError:
    print("AssertionError")

# output:
# | list True True
# | list
# | True
# | AssertionError
# counts: graphs 0; breaks 0; recompiles 0.
