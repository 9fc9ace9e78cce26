# Numbers and sizes are constants at first and inputs once they have changed; the limit; marks of sizes.
import torch
from torch._dynamo.testing import CompileCounter

counter = CompileCounter()


@torch.compile(backend=counter)
def scaled(x, n):
    return x * n


for n in (2, 3, 4, 5):
    scaled(torch.ones(2), n)
print(counter.frame_count)
counter.clear()
torch._dynamo.reset()
x = torch.ones(3)
torch._dynamo.mark_dynamic(x, 0)
scaled(x, 2)
y = torch.ones(5)
torch._dynamo.mark_dynamic(y, 0)
scaled(y, 2)
print(counter.frame_count)
with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
    fixed = torch.compile(lambda x, text: x + len(text), backend=counter, dynamic=False)
    fixed(torch.ones(1), "a")
    try:
        fixed(torch.ones(1), "bc")
    except torch._dynamo.exc.FailOnRecompileLimitHit as error:
        print("limit" in str(error))

# | 2
# | 1
# | True
# breaks: 0
