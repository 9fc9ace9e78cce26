"""kt.nn.functional: what layers compute, from the operators of ops.md.

Errors in units in the last place, both dtypes: erf and softplus below 4, sigmoid and silu below 3, elu below 2."""
import math

from .. import _runtime
from .._runtime import arange, cat, rand, where
from ..activations import _softmax_dim, erf, log_softmax, sigmoid, softmax  # noqa: F401

Tensor = _runtime.Tensor


def linear(input, weight, bias=None):
    """input @ weight.T + bias."""
    out = input @ weight.t()
    return out if bias is None else out + bias


# ---- Activations

def relu(input, inplace=False):
    return input.relu_() if inplace else input.relu()


def tanh(input):
    return input.tanh()


def gelu(input, approximate="none"):
    """x times the normal distribution's share below x; approximate="tanh": by tanh."""
    if approximate == "none":
        return input * 0.5 * (1 + erf(input * math.sqrt(0.5)))
    if approximate == "tanh":
        return input * 0.5 * (1 + (math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))).tanh())
    raise RuntimeError("approximate argument must be either none or tanh.")


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _result(input / (1 + (-input).exp()), input, inplace)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return _result(where(input > 0, input, input * negative_slope), input, inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""
    half = (input * 0.5).tanh()  # exp(x) - 1 = 2 t / (1 - t): exact near zero too
    return _result(where(input > 0, input, alpha * (2 * half / (1 - half))), input, inplace)


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    scaled = input * beta
    grown = scaled.exp()
    sum = 1 + grown
    # log(1 + e) without the rounding of the sum
    soft = where(sum == 1, grown, sum.log() * (grown / (sum - 1)))
    return where(scaled > threshold, input, soft / beta)


def _result(value, input, inplace):
    return input.copy_(value) if inplace else value


# ---- Normalisation, dropout

def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Mean 0 and variance 1 over the last dimensions, then weight and bias."""
    count = len(normalized_shape)
    if count == 0 or tuple(input.shape[-count:]) != tuple(normalized_shape):
        shape = list(normalized_shape)
        raise RuntimeError(f"Given normalized_shape={shape}, expected input with shape [*, {', '.join(map(str, shape))}], but got "
                           f"input of size{list(input.shape)}")
    dims = tuple(range(-count, 0))
    centred = input - input.mean(dims, keepdim=True)
    out = centred / ((centred * centred).mean(dims, keepdim=True) + eps).sqrt()
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def dropout(input, p=0.5, training=True, inplace=False):
    """Each element is zero with probability p, and the others grow by 1 / (1 - p); nothing happens unless training."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return _result(input * 0, input, inplace)
    kept = rand(input.shape, dtype=input.dtype) >= p
    return _result(input * kept * (1 / (1 - p)), input, inplace)


# ---- Look-ups

def embedding(input, weight, padding_idx=None):
    """Rows of weight by number. IndexError beyond it."""
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    width = weight.size(1)
    rows = input.reshape(-1)
    found = weight.gather(0, rows.unsqueeze(1).expand(rows.numel(), width))
    return found.reshape(*input.shape, width)


def one_hot(tensor, num_classes=-1):
    """int64: 1 at the number's place in a new last dimension, 0 elsewhere."""
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    return (tensor.unsqueeze(-1) == arange(num_classes)).long()


def pad(input, pad, mode="constant", value=None):
    """Elements before and after the last dimensions, the last one first: pad=(left, right, top, bottom)."""
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not there yet, only 'constant'")
    if len(pad) % 2 != 0:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got padding length "
                           f"{len(pad)} and input of dimension {input.dim()}")
    for i in range(len(pad) // 2):
        dim = input.dim() - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        if before > 0 or after > 0:
            parts = [input]
            if before > 0:
                parts.insert(0, _filled(input, dim, before, value))
            if after > 0:
                parts.append(_filled(input, dim, after, value))
            input = cat(parts, dim)
        if before < 0 or after < 0:
            key = [slice(None)] * input.dim()
            key[dim] = slice(max(-before, 0), input.size(dim) - max(-after, 0))
            input = input[tuple(key)]
    return input


def _filled(input, dim, count, value):
    sizes = list(input.shape)
    sizes[dim] = count
    return _runtime.full(sizes, 0 if value is None else value, dtype=input.dtype)


# ---- Convolution: windows are a view; their products with the weights one matrix product a group

def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Of [batch, channels, length] or [channels, length]; weight [out, channels / groups, kernel]."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Of [batch, channels, height, width] or without the batch; weight [out, channels / groups, height, width]."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


def _each_dim(value, dims):
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) * dims if len(value) == 1 else tuple(value)


def _convolve(dims, input, weight, bias, stride, padding, dilation, groups):
    stride, dilation = _each_dim(stride, dims), _each_dim(dilation, dims)
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to conv{dims}d, but got input of size: "
                           f"{list(input.shape)}")
    batched = input.dim() == dims + 2
    if not batched:
        input = input.unsqueeze(0)
    sizes = tuple(weight.shape)
    kernel = sizes[2:]
    if input.size(1) != sizes[1] * groups:
        raise RuntimeError(f"Given groups={groups}, weight of size {list(sizes)}, expected input{list(input.shape)} to have "
                           f"{sizes[1] * groups} channels, but got {input.size(1)} channels instead")
    if padding == "valid":
        padding = 0
    if padding == "same":
        if any(step != 1 for step in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        total = [dilation[d] * (kernel[d] - 1) for d in range(dims)]
        around = [(each // 2, each - each // 2) for each in total]
    else:
        around = [(each, each) for each in _each_dim(padding, dims)]
    flat = []
    for before, after in reversed(around):
        flat += (before, after)
    if any(flat):
        input = pad(input, flat)
    for d in range(dims):
        span = dilation[d] * (kernel[d] - 1) + 1
        if input.size(2 + d) < span:
            raise RuntimeError(f"Calculated padded input size per channel: ({' x '.join(map(str, input.shape[2:]))}). Kernel size: "
                               f"({' x '.join(map(str, kernel))}). Kernel size can't be greater than actual input size")
    windows = input  # [batch, channels, *out, *kernel]
    for d in range(dims):
        windows = windows.unfold(2 + d, dilation[d] * (kernel[d] - 1) + 1, stride[d])
    if any(each != 1 for each in dilation):
        windows = windows[(...,) + tuple(slice(None, None, each) for each in dilation)]
    batch, out = windows.size(0), tuple(windows.shape[2:2 + dims])
    inner = sizes[1] * math.prod(kernel)
    order = (0, 1) + tuple(range(2 + dims, 2 + 2 * dims)) + tuple(range(2, 2 + dims))
    columns = windows.permute(order).reshape(batch, groups, inner, math.prod(out))
    result = weight.reshape(groups, sizes[0] // groups, inner) @ columns
    result = result.reshape(batch, sizes[0], *out)
    if bias is not None:
        result = result + bias.reshape(sizes[0], *(1,) * dims)
    return result if batched else result.squeeze(0)


# ---- Losses

def _reduced(losses, reduction):
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"{reduction} is not a valid value for reduction")


def mse_loss(input, target, reduction="mean"):
    """The mean of squared differences."""
    apart = input - target
    return _reduced(apart * apart, reduction)


def l1_loss(input, target, reduction="mean"):
    """The mean of differences."""
    return _reduced((input - target).abs(), reduction)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """Minus the element of class `target`, along dimension 1 (0 without a batch)."""
    dim = 0 if input.dim() == 1 else 1
    ignored = target == ignore_index
    number = where(ignored, 0, target)
    losses = -input.gather(dim, number.unsqueeze(dim)).squeeze(dim)
    if weight is None:
        scale = (~ignored).to(input.dtype)
    else:
        scale = where(ignored, 0, weight.gather(0, number.reshape(-1)).reshape(number.shape))
    losses = losses * scale
    if reduction == "mean":
        return losses.sum() / scale.sum()
    return _reduced(losses, reduction)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """nll_loss of log_softmax; target: classes as integers, or a share of each class."""
    dim = 0 if input.dim() == 1 else 1
    logs = log_softmax(input, dim)
    if target.is_floating_point():
        if label_smoothing > 0:
            target = target * (1 - label_smoothing) + label_smoothing / input.size(dim)
        shares = target if weight is None else target * _by_class(weight, input.dim(), dim)
        losses = -(logs * shares).sum(dim)
        if reduction == "mean":
            return losses.sum() / (losses.numel() or 1)
        return _reduced(losses, reduction)
    if label_smoothing == 0:
        return nll_loss(logs, target, weight, ignore_index, reduction)
    hard = nll_loss(logs, target, weight, ignore_index, "none")
    counted = (target != ignore_index).to(input.dtype)
    smooth = -(logs if weight is None else logs * _by_class(weight, input.dim(), dim)).sum(dim) * counted
    losses = hard * (1 - label_smoothing) + smooth * (label_smoothing / input.size(dim))
    if reduction != "mean":
        return _reduced(losses, reduction)
    if weight is not None:
        number = where(target == ignore_index, 0, target)
        counted = counted * weight.gather(0, number.reshape(-1)).reshape(number.shape)
    return losses.sum() / counted.sum()


def _by_class(weight, rank, dim):
    return weight.reshape(*(1,) * dim, -1, *(1,) * (rank - dim - 1))
