# Methods of loggers: a break, or nothing where they are to be ignored.
import logging
import sys
import torch
from torch._dynamo.testing import CompileCounter

logger = logging.getLogger("documents")
logger.addHandler(logging.StreamHandler(sys.stdout))
logger.setLevel(logging.INFO)
counter = CompileCounter()


@torch.compile(backend=counter)
def observed(x):
    x = x + 1
    logger.info("sees %s", tuple(x.shape))
    return x * 2


print(observed(torch.ones(2)).tolist(), counter.frame_count)
torch._dynamo.reset()
torch._dynamo.config.ignore_logging_functions.add(logging.Logger.info)
print(observed(torch.ones(2)).tolist(), counter.frame_count)
torch._dynamo.config.ignore_logging_functions.clear()

# | sees (2,)
# | [4.0, 4.0] 2
# | [4.0, 4.0] 3
# breaks: 1
