"""Parameters and layers made in compiled code: the same values, draws and flags as plain, without a break."""
import pytest

import kintsugi as kt

nn = kt.nn


class Net(nn.Module):
    scale = 2.0

    def __init__(self, size):
        super().__init__()
        self.first = nn.Linear(size, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.act = nn.ReLU()
        self.rest = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.register_buffer("kept", kt.ones(2))
        self.fixed = nn.Parameter(kt.ones(2), requires_grad=False)

    def forward(self, x):
        return self.rest(self.act(self.second(self.act(self.first(x))))) * self.scale + self.kept * self.fixed


def stacked(x):
    layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
    for layer in layers:
        x = layer(x).relu()
    return x


def changed_in_place(x):
    weight = nn.Parameter(x)
    with kt.no_grad():
        weight.mul_(3)
    return weight, x


def refused(x):
    try:
        return nn.Parameter(x.long())
    except RuntimeError as error:
        return str(error)


def forgets(x):
    net = nn.Linear(3, 1)
    net.note = 1
    net.note = nn.Linear(1, 1)
    try:
        del net.weight, net.absent
    except AttributeError as error:
        return str(error), [name for name, _ in net.named_parameters()]


PROGRAMS = {
    "linear": lambda x: nn.Linear(3, 4)(x),
    "a network": lambda x: Net(3)(x),
    "a network that leaves": lambda x: Net(3),
    "a parameter": lambda x: (nn.Parameter(x) * 2).requires_grad,
    "a parameter without gradients": lambda x: nn.Parameter(x, False),
    "a parameter of nothing": lambda x: nn.Parameter().shape,
    "isinstance": lambda x: (isinstance(nn.Parameter(x), nn.Parameter), isinstance(x, nn.Parameter), type(nn.Parameter(x)) is kt.Tensor),
    "memory is shared": changed_in_place,
    "refused": refused,
    "names that go": forgets,
    "stacked": stacked,
    "layer norm": lambda x: nn.LayerNorm(3)(x),
    "embedding": lambda x: nn.Embedding(5, 3)(x.long()),
    "conv1d": lambda x: nn.Conv1d(1, 2, 2)(x.reshape(1, 1, -1)),
    "conv2d": lambda x: nn.Conv2d(1, 2, 2)(kt.ones(1, 1, 3, 3)),
    "dropout": lambda x: nn.Dropout(0.5)(x),
    "parameters": lambda x: sum([p.sum() for p in Net(3).parameters()]),
    "named": lambda x: [(name, p.requires_grad) for name, p in Net(3).named_parameters()],
    "state": lambda x: list(nn.Linear(3, 4).state_dict()),
    "modes": lambda x: [module.training for module in Net(3).eval().modules()],
    "dtypes": lambda x: nn.Linear(3, 4).to(kt.float64)(x.double()),
    "text": lambda x: repr(nn.Linear(1, 2)),
    "init": lambda x: (nn.init.xavier_uniform_(kt.empty(3, 3)), nn.init.kaiming_normal_(kt.empty(2, 3)), nn.init.zeros_(nn.Parameter(x))),
    "parameter list": lambda x: nn.ParameterList([kt.ones(2)]),
}


def told(value):
    if isinstance(value, kt.Tensor):
        return value.tolist(), value.dtype, value.requires_grad, value.is_leaf, isinstance(value, nn.Parameter)
    if isinstance(value, nn.Module):
        parts = [*value.named_parameters(), *value.named_buffers()]
        return type(value), [(name, told(part)) for name, part in parts], repr(value)
    return [told(each) for each in value] if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_made_in_compiled_code(name, stress):
    function = PROGRAMS[name]
    strict = kt.compile(function, fullgraph=stress != "break_everywhere")
    results = []
    for call in (function, strict, strict):
        kt.manual_seed(3)
        results.append((told(call(kt.ones(3))), kt.rand(1).tolist()))
    assert results[0] == results[1] == results[2]


def test_each_call_makes_its_own():
    fast = kt.compile(lambda x: nn.Linear(3, 2), fullgraph=True)
    first, second = fast(kt.ones(3)), fast(kt.ones(3))
    assert first is not second and first.weight is not second.weight
    assert not kt.equal(first.weight, second.weight)
    second.weight.requires_grad_(False)
    assert first.weight.requires_grad
