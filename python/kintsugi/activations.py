"""Functions of tensors that kt and kt.nn.functional both have. Made of others; errors: kt.nn.functional."""
from . import _runtime
from ._runtime import minimum, where


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + (-input).exp())


def softmax(input, dim=None, *, dtype=None):
    """exp(x) / sum(exp(x)) along a dimension."""
    input = input if dtype is None else input.to(dtype)
    grown = (input - input.amax(_softmax_dim(dim, input), keepdim=True)).exp()
    return grown / grown.sum(_softmax_dim(dim, input), keepdim=True)


def log_softmax(input, dim=None, *, dtype=None):
    """The logarithm of softmax, without its rounding."""
    input = input if dtype is None else input.to(dtype)
    lowered = input - input.amax(_softmax_dim(dim, input), keepdim=True)
    return lowered - lowered.exp().sum(_softmax_dim(dim, input), keepdim=True).log()


def _softmax_dim(dim, input):
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


# erf: x P(x^2) up to 1; beyond, 1 - exp(-x^2) Q((x - 2.5) / (x + 2.5)). Chebyshev fits; four coefficients a row, the highest first.
_ERF_NEAR_32 = (
    (0.005189087241888046, -0.000801686430349946, 7.875874871388078e-05, 0.0),
    (1.1283791065216064, -0.3761262595653534, 0.11283594369888306, -0.02685421146452427),
)
_ERF_FAR_32 = (
    (0.0399259477853775, -0.0039716800674796104, -0.002667191671207547, 0.0006357461679726839),
    (0.21080636978149414, -0.3717367351055145, 0.2517130970954895, -0.1250336915254593),
)
_ERF_NEAR_64 = (
    (8.709045129053106e-11, -4.230945824295338e-12, 0.0, 0.0),
    (1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09),
    (0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05),
    (1.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984),
)
_ERF_FAR_64 = (
    (3.852788842266889e-07, 6.023739069612537e-08, -5.268754358611536e-08, 0.0),
    (7.554944060575972e-06, -2.300044945205947e-06, -1.8153747236957426e-06, 8.437733695417705e-08),
    (0.00022838039345391708, -0.00012887719743195293, -3.4182479158407944e-05, 1.8614755740620222e-05),
    (0.03992253907559317, -0.003993701165892015, -0.0026423659647912615, 0.0008759154514255455),
    (0.2108063640611436, -0.37173673394897333, 0.2517131932174492, -0.12503305237882892),
)


def _polynomial(x, rows):
    square = x * x
    total = 0.0
    for a, b, c, d in rows:
        total = total * (square * square) + (a + b * x + (c + d * x) * square)
    return total


def erf(input):
    """The error function."""
    double = input.dtype == _runtime.float64
    size, square = minimum(input.abs(), 6.5 if double else 4.0), input * input
    near = input * _polynomial(square, _ERF_NEAR_64 if double else _ERF_NEAR_32)
    far = 1 - (-square).exp() * _polynomial((size - 2.5) / (size + 2.5), _ERF_FAR_64 if double else _ERF_FAR_32)
    return where(size < 1, near, where(input < 0, -far, far))
