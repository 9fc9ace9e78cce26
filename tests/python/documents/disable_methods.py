# disable on methods and classes.
import torch


class Sensor:
    def __init__(self, offset):
        self.offset = offset

    @torch.compiler.disable
    def read(self):
        return 10 + self.offset

    def scaled(self, x):
        return x * self.read()


@torch.compiler.disable
class Plain:
    def __call__(self, x):
        return x + torch.compiler.is_compiling()


plain = Plain()
print(torch.compile(lambda s, x: s.scaled(x + 1))(Sensor(2), torch.ones(1)).tolist())
print(torch.compile(lambda x: plain(x * 2))(torch.ones(1)).tolist())

# | [24.0]
# | [2.0]
# breaks: 2
