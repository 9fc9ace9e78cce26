"""Of functools and sorting by keys that compare in Python: see language_programs.py."""
import functools
import operator

from language_programs import followed, x3


@functools.total_ordering
class Version:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    def __lt__(self, other):
        return self.number < other.number


class Shape:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def twice(self):
        return self.x * 2

    def add(self, a, b, c=0):
        return self.x + a * b + c

    add_two = functools.partialmethod(add, 2, c=1)


@functools.singledispatch
def measured(value):
    return 0


@measured.register
def _(value: int):
    return value + 1


@measured.register(list)
def _(value):
    return len(value)


@followed(lambda: (x3(), Version(3)))
def total_orders(x, given):
    return Version(1) <= Version(2), Version(1) >= given, given > Version(0), x + 1


@followed(lambda: (x3(), Shape(x3())))
def cached_properties(x, given):
    made = Shape(x)
    return given.twice + given.twice, made.twice, made.twice is made.twice, given


@followed(lambda: (x3(), Shape(x3())))
def partial_methods(x, given):
    return given.add_two(3), Shape(x).add_two(b=4)


@followed(lambda: (x3(), [1, 2]))
def dispatched(x, given):
    return x + measured(3) + measured(given) + measured("a") + measured(True)


@followed(lambda: (x3(), Version(3)))
def sorts_by_comparing(x, given):
    order = sorted([given, Version(1), Version(2)])
    backwards = sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))
    pairs = [(1, Version(2)), (1, Version(1)), (0, given)]
    pairs.sort(reverse=True)
    return [v.number for v in order], backwards, [v.number for _, v in pairs], min(order).number, x + functools.reduce(operator.add, [1, 2])
