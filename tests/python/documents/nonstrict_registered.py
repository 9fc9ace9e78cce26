# Objects of registered classes go into nonstrict functions and come out; others are refused with the three ways to register.
import dataclasses
import torch
from torch._dynamo.testing import CompileCounter
from torch.utils._pytree import register_constant, register_dataclass, register_pytree_node


class Pose:
    def __init__(self, place, speed):
        self.place, self.speed = place, speed


@dataclasses.dataclass
class Reading:
    value: torch.Tensor
    weight: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Mode:
    gain: int


class Unknown:
    pass


register_pytree_node(Pose, lambda pose: ([pose.place, pose.speed], None), lambda parts, context: Pose(*parts))
register_dataclass(Reading)
register_constant(Mode)
counter = CompileCounter()


@torch._dynamo.nonstrict_trace
def advance(pose, reading, mode):
    torch._dynamo.graph_break()
    return Pose(pose.place + pose.speed * mode.gain, pose.speed + reading.value * reading.weight)


@torch.compile(fullgraph=True, backend=counter)
def root(pose, value, mode):
    moved = advance(pose, Reading(value, value + 1), mode)
    return moved.place * 2, moved.speed


mode = Mode(3)
for _ in range(2):
    place, speed = root(Pose(torch.ones(1), torch.ones(1)), torch.ones(1), mode)
    print(place.tolist(), speed.tolist(), counter.frame_count)
try:
    torch.compile(lambda x: advance(Unknown(), x, mode), fullgraph=True)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    text = str(error)
    print([name in text for name in ("register_pytree_node", "register_dataclass", "register_constant")])
try:
    torch.compile(lambda x: advance(x, x, Mode(2)), fullgraph=True)(torch.ones(1))
except torch._dynamo.exc.Unsupported as error:
    print("register_constant" in str(error).splitlines()[0], "outside" in str(error))

# | [8.0] [3.0] 1
# | [8.0] [3.0] 1
# | [True, True, True]
# | True True
# breaks: 0
