"""A registry filled by decorators, dispatch on type and name, **options, abstract base class, class methods."""
from abc import ABC, abstractmethod

import kintsugi as kt

REGISTRY = {}


def register(name, **defaults):
    def decorate(cls):
        REGISTRY[name] = (cls, defaults)
        return cls
    return decorate


class Filter(ABC):
    order = 0

    @abstractmethod
    def apply(self, x):
        ...

    @classmethod
    def build(cls, **options):
        self = cls()
        for key, value in options.items():
            setattr(self, key, value)
        return self


@register("gain", factor=2.0)
class Gain(Filter):
    def apply(self, x):
        return x * self.factor


@register("clip", low=-1.0, high=1.0)
class Clip(Filter):
    order = 1

    def apply(self, x):
        return kt.maximum(kt.minimum(x, self.high), self.low)


@register("delay")
class Delay(Filter):
    order = 2

    def apply(self, x, by=1):
        return kt.cat([kt.zeros(by), x[:-by]])


def make(name, **options):
    try:
        cls, defaults = REGISTRY[name]
    except KeyError:
        raise ValueError(f"unknown filter {name!r}") from None
    return cls.build(**{**defaults, **options})


def run(x, wanted):
    filters = [make(name, **options) for name, options in wanted]
    filters.sort(key=lambda f: f.order)
    for each in filters:
        x = each.apply(x)
    try:
        make("none")
    except ValueError as error:
        message = error.args[0]
    return x, [type(f).__name__ for f in filters], message, issubclass(Gain, Filter)


def make_arguments(turn):
    return kt.tensor([0.2, -0.9, 1.5, 0.4]), [("delay", {}), ("gain", {"factor": 1.5 + turn}), ("clip", {"high": 0.8})]
