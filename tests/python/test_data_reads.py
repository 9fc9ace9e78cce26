"""Numbers that a call reads out of tensors (an index, a size, a dimension) are those of this call, not of the one that was traced."""
import pytest

import kintsugi as kt

CALLS = """x[t]; x[t:]; x[:t]; x[::t]; x[None, t]; x[t.sum()]; y[t, t]; y[:, t]; x[1:t + 1]; x.reshape(t, -1); x.view(t, 5); x.sum(t)
x.sum((t,)); x.amax(t); x.cumsum(t); x.transpose(t, 0); x.permute(t); x.unsqueeze(t); x.squeeze(t); x.flatten(t); x.expand(t, 5)
x.repeat(t); x.roll(t); x.split(t); x.chunk(t); x.softmax(t); x.gather(t, kt.tensor([0])); x.size(t); x.stride(t); x.clamp(t); x ** t
x.masked_fill(x > t, t); x.fill_(t); x.add_(t); kt.zeros(t); kt.full((2,), t); kt.full((t,), 1); kt.eye(t); kt.arange(t)
kt.linspace(0, 1, t); kt.cat([x, x], t); kt.stack([x, x], t); kt.tensor([t, 1]); [1, 2, 3][t]; [1, 2, 3][:t]; range(t); 'a' * t; [1] * t
divmod(7, t + 1); round(t); float(t); bytes(t); hex(t); chr(t + 70); '%d' % t; complex(t); (x[t] == 3 and 1); y[t][0]; y.sum(0)[t]"""
CALLS = [call for line in CALLS.splitlines() for call in line.split("; ")]


def told(value):
    if isinstance(value, kt.Tensor):
        return value.tolist(), value.dtype
    return [told(each) for each in value] if isinstance(value, (list, tuple)) else value


def seen(function, n):
    x = kt.arange(5)
    try:
        return told(function(x, kt.arange(12).reshape(3, 4), kt.tensor(n))), x.tolist()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_numbers_of_this_call(call, handled):
    space = {"kt": kt}
    tried = f"try:\n        return {call}\n    except RuntimeError as e:\n        return str(e)"
    exec(f"def f(x, y, t):\n    {tried if handled else 'return ' + call}", space)
    fast = kt.compile(space["f"])
    for n in (1, 0, 2, -1, 1, 9):
        assert seen(fast, n) == seen(space["f"], n)


@pytest.mark.parametrize("call", [call for call in CALLS[:9] + ["y[t][0]"]])
def test_captured_indices(call, stress):
    """Under fullgraph scalars are captured: an index is no break."""
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    space = {"kt": kt}
    exec(f"def f(x, y, t):\n    return {call}", space)
    fast = kt.compile(space["f"], fullgraph=True)
    # What an operation refuses while it is traced is an error of its own there.
    for n in (1, 2, 0, 1) if stress == "miss_every_guard" else (1, 2, 0, 1, 9, -1):
        assert seen(fast, n) == seen(space["f"], n)
