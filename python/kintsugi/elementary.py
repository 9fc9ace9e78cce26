"""Angles, lengths and elementary functions made of others: followed in compiled code as what they are made of.

Errors in units in the last place: atan as atan2; log1p, expm1 and hypot below 4; tan, asin and acos below 5, of tan and acos
less than 2 roundings of pi beside their zeros."""
import math

from . import _runtime as _rt


def hypot(input, other):
    """sqrt(input^2 + other^2), also where the squares overflow or vanish."""
    input, other = abs(input), abs(other)
    long, short = _rt.maximum(input, other), _rt.minimum(input, other)
    ratio = short / _rt.where(long > 0, long, 1)
    length = long * (1 + ratio * ratio).sqrt()
    return _rt.where((input == math.inf) | (other == math.inf), math.inf, length)


def log1p(input):
    """log(1 + x), without the rounding of the sum."""
    sum = 1 + input
    near = sum.log() * (input / _rt.where(sum == 1, 1, sum - 1))
    return _rt.where((sum != 1) & (sum < math.inf), near, input)


def expm1(input):
    """exp(x) - 1, without the rounding of the power."""
    power = input.exp()
    less = power - 1
    near = less * (input / _rt.where(power == 1, 1, power.log()))
    return _rt.where(power == 1, input, _rt.where((less > -1) & (power < math.inf), near, less))


def tan(input):
    """The sine divided by the cosine."""
    return input.sin() / input.cos()


def asin(input):
    """The angle of this sine, in [-pi/2, pi/2]; NaN beyond 1."""
    return _rt.atan2(input, _other_side(input))


def acos(input):
    """The angle of this cosine, in [0, pi]; NaN beyond 1."""
    return _rt.atan2(_other_side(input), input)


def _other_side(input):
    return ((1 - input) * (1 + input)).sqrt()


def atan(input):
    """The angle of this tangent, in (-pi/2, pi/2)."""
    return _rt.atan2(input, 1)


def deg2rad(input):
    """Degrees as radians."""
    return input * (math.pi / 180)


def rad2deg(input):
    """Radians as degrees."""
    return input * (180 / math.pi)


def lerp(input, end, weight):
    """input + weight * (end - input), from the nearer end: exact at both."""
    distance = end - input
    below, above = input + weight * distance, end - distance * (1 - weight)
    if type(weight) is _rt.Tensor:
        return _rt.where(abs(weight) < 0.5, below, above)
    return below if abs(weight) < 0.5 else above


for _function in (acos, asin, atan, deg2rad, expm1, hypot, lerp, log1p, rad2deg, tan):
    _rt._add_method(_function.__name__, _function)
