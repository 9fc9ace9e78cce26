# register_backend and list_backends
from kintsugi._dynamo import register_backend, list_backends

@register_backend
def tally(gm, inputs):
    tally.n += 1
    return gm.forward
tally.n = 0

register_backend(compiler_fn=lambda gm, i: gm.forward, name="quiet", tags=("debug",))
print("tally" in list_backends(), "quiet" in list_backends(), "quiet" in list_backends(None))
print(kt.compile(lambda x: x - 1, backend="tally")(kt.ones(2)).tolist(), tally.n)
try:
    register_backend(compiler_fn=lambda gm, i: gm.forward, name="tally")
except AssertionError as e:
    print("AssertionError", "duplicate" in str(e))

# output:
# | True False True
# | [0.0, 0.0] 1
# | AssertionError True
# counts: graphs 1 (operations: 1); breaks 0; recompiles 0.
