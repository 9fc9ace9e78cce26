# code that is wrong with or without the compiler
@kt.compile(backend=cnt)
def fn(x):
    return kt.sin(x, x)

for stance in ("default", "force_eager"):
    with kt.compiler.set_stance(stance):
        try:
            fn(kt.ones(3))
        except TypeError as e:
            print("TypeError")
print(cnt.frame_count)

# output:
# | TypeError
# | TypeError
# | 0
# counts: graphs 0; breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
