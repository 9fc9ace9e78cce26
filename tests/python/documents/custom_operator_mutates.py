# Declared mutation is seen by what follows; the rule for placeholders is asked for by name where it lacks.
import torch


@torch.library.custom_op("documents::fill", mutates_args={"out"})
def fill(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 10)


@fill.register_fake
def _(x, out):
    return None


@torch.compile(fullgraph=True)
def root(x):
    out = torch.zeros(2)
    fill(x, out)
    return out + 1


print(root(torch.ones(2)).tolist())


@torch.library.custom_op("documents::bare", mutates_args=())
def bare(x: torch.Tensor) -> torch.Tensor:
    return x + 1


print(bare(torch.ones(1)).tolist())
try:
    torch.compile(bare)(torch.ones(1))
except torch._dynamo.exc.TorchRuntimeError as error:
    print("register_fake" in str(error))
try:
    torch.library.custom_op("documents::untyped", lambda x: x, mutates_args=())
except ValueError as error:
    print("needs a type" in str(error))

# | [11.0, 11.0]
# | [2.0]
# | True
# | True
# breaks: 0
