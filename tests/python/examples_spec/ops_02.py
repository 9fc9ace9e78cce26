# an operator without a fake rule is an error, not a break
@kt.library.custom_op("demo::mystery", mutates_args=())
def mystery(x: kt.Tensor) -> kt.Tensor:
    return x + 10

print(mystery(kt.ones(1)).tolist())
for full in (False, True):
    try:
        kt.compile(lambda x: mystery(x) + 1, backend=cnt, fullgraph=full)(kt.ones(1))
    except RuntimeError as e:
        print(type(e).__name__, "register_fake" in str(e))

# output:
# | [11.0]
# | TorchRuntimeError True
# | TorchRuntimeError True
# counts: graphs 0; breaks 0; recompiles 0.
