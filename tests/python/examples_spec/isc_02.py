# keeping untraceable work out of the graph
log = []

@kt.compile(backend=cnt, fullgraph=True)
def root(x):
    x = x + 1
    if not kt.compiler.is_compiling():
        print("saving", x.tolist())
        log.append(1)
    return x * 2

print(root(kt.ones(2)).tolist(), log, cnt.frame_count)
with kt.compiler.set_stance("force_eager"):
    root(kt.ones(1))
print(log)

# output:
# | [4.0, 4.0] [] 1
# | saving [2.0]
# | [1]
# counts: graphs 1 (operations: 2); breaks 0; recompiles 0.
