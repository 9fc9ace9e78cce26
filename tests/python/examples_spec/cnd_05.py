# branches must agree and must not have side effects
bag = []

def mismatch(x):
    return kt.cond(x.sum() > 0, lambda x: (x, x), lambda x: x, (x,))

def side_effect(x):
    def yes(x):
        bag.append(1)
        return x + 1
    return kt.cond(x.sum() > 0, yes, lambda x: x - 1, (x,))

for f in (mismatch, side_effect):
    try:
        kt.compile(f, backend=cnt)(kt.ones(2))
    except Exception as e:
        print(type(e).__name__)
print(bag)

# output:
# | UncapturedHigherOrderOpError
# | UncapturedHigherOrderOpError
# | []
# counts: graphs 0; breaks 0; recompiles 0.
