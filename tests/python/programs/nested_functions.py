"""Closures: counters with nonlocal, a function factory, composition, a decorator, default arguments, lambdas."""
import functools

import kintsugi as kt


def compose(*functions):
    def composed(x):
        for function in functions:
            x = function(x)
        return x
    return composed


def counted(function):
    calls = 0

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        nonlocal calls
        calls += 1
        return function(*args, **kwargs)
    wrapper.calls = lambda: calls
    return wrapper


def make_scaler(factor, offset=0.0):
    return lambda x: x * factor + offset


def run(x, factors):
    @counted
    def squash(v, strength=1.0):
        return kt.tanh(v * strength)

    scalers = [make_scaler(factor, offset=i * 0.1) for i, factor in enumerate(factors)]
    pipeline = compose(*scalers, squash, lambda v: v - v.mean())
    y = pipeline(x)
    z = pipeline(y) + squash(x, strength=2.0)

    def norm():
        return kt.sqrt((z * z).sum())
    return y, z, norm(), squash.calls(), squash.__name__


def make_arguments(turn):
    return kt.tensor([0.1, -0.4, 0.9, 1.5]), [1.5, -0.5, 2.0 + turn]
