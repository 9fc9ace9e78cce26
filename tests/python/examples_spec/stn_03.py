# fail_on_recompile
@kt.compile(backend=cnt, dynamic=False)
def f(x):
    return x + 1

f(kt.ones(4)); f(kt.ones(5))
with kt.compiler.set_stance("fail_on_recompile"):
    print(f(kt.ones(4)).tolist())
    try:
        f(kt.ones(7))
    except RuntimeError as e:
        t = str(e)
        print(type(e).__name__, "fail_on_recompile" in t, "function name: 'f'" in t, t.count("actual 7"))
    @kt.compile(backend=cnt)
    def never_seen(x):
        return x * 2
    try:
        never_seen(kt.ones(1))
    except RuntimeError:
        print("a first compile counts too")
print(cnt.frame_count)

# output:
# | [2.0, 2.0, 2.0, 2.0]
# | RuntimeError True True 2
# | a first compile counts too
# | 2
# counts: graphs 2 (operations: 1, 1); breaks 0; recompiles 1.
