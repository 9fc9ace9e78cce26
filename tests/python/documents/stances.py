# set_stance: what happens where nothing compiled fits.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compile(backend=counter, dynamic=False)
def f(x):
    return x + 1


f(torch.ones(2))
with torch.compiler.set_stance("fail_on_recompile"):
    print(f(torch.ones(2)).tolist())
    try:
        f(torch.ones(3))
    except RuntimeError as error:
        print("fail_on_recompile" in str(error), "guard failure" in str(error))
with torch.compiler.set_stance("eager_on_recompile"):
    print(f(torch.ones(4)).shape[0], counter.frame_count)
with torch.compiler.set_stance("force_eager"):
    print(torch.compile(lambda x: torch.compiler.is_compiling(), fullgraph=True)(torch.ones(1)))
try:
    torch.compiler.set_stance("whatever")
except RuntimeError as error:
    print("stance" in str(error))

# | [2.0, 2.0]
# | True True
# | 4 1
# | False
# | True
# breaks: 0
