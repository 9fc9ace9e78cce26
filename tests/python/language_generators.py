"""Generators made and consumed in one function."""
from language_programs import effects, followed, x3


def scaled(n, x):
    for i in range(n):
        yield x * i


def echo(x):
    got = yield x
    while got is not None:
        got = yield got * 2
    return x + 5


def walk(tree):
    if tree is not None:
        left, value, right = tree
        yield from walk(left)
        yield value
        yield from walk(right)


class Steps:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        yield self.x
        yield self.x + 1


@followed(lambda: (x3(),))
def generator_for(x):
    total = x
    for y in scaled(3, x):
        total = total + y
    return total


@followed(lambda: (x3(),))
def generator_expressions(x):
    return sum(x * i for i in range(4)), [*(y + 1 for y in (x, 2) if y is x)], max(i * i for i in (1, 3, 2))


@followed(lambda: (x3(),))
def generator_drained(x):
    first, second, third = scaled(3, x)
    return list(scaled(3, x)), tuple(scaled(2, x)), [*scaled(1, x)], first + second, third, any(i > 1 for i in range(4))


@followed(lambda: (x3(),))
def generator_next(x):
    steps = scaled(2, x)
    return next(steps), next(steps), next(steps, None), next(steps, 5), list(steps)


@followed(lambda: (x3(),))
def generator_send(x):
    steps = echo(x)
    return next(steps), steps.send(x + 1), steps.send(3), steps.__next__ is None


@followed(lambda: (x3(),))
def generator_yield_from(x):
    def all_of():
        got = yield from echo(x)
        yield got
        yield from [1, x]
        yield from range(2)
        return 4
    return [y for y in all_of()]


@followed(lambda: ((None, x3(), ((None, 1, None), 2, None)),))
def generator_recursive(tree):
    return [value * 2 for value in walk(tree)]


@followed(lambda: (x3(),))
def generator_early_exit(x):
    steps = scaled(5, x)
    for y in steps:
        if y is not x:
            break
    return next(steps), next(steps)


@followed(lambda: (x3(),))
def generator_close(x):
    steps, other, third = scaled(5, x), scaled(5, x), scaled(1, x)
    a = next(steps)
    steps.close()
    other.close()
    return a, next(steps, 1), list(other), list(third), third.close()


@followed(lambda: (x3(),))
def generator_side_by_side(x):
    return list(zip(scaled(3, x), scaled(2, x))), [i * y for i, y in enumerate(scaled(3, x))], list(map(lambda a, b: a + b, scaled(2, x), scaled(3, x)))


@followed(lambda: (x3(),))
def generator_interleaved(x):
    a, b = scaled(4, x), scaled(4, x + 1)
    return [next(a), next(b), next(b), next(a), next(b)]


@followed(lambda: (x3(), []))
def generator_effects(x, log):
    def noisy():
        for i in range(3):
            log.append(i)
            effects[i] = x
            yield x + i
        effects["end"] = True
    for y in noisy():
        x = x * y
    return x


@followed(lambda: (x3(),))
def generator_nonlocal(x):
    count = 0

    def steps():
        nonlocal count
        while count < 3:
            count += 1
            yield x * count
    return list(steps()), count


@followed(lambda: (x3(),))
def generator_returned_half_consumed(x):
    steps = scaled(3, x)
    next(steps)
    return next(steps), steps


@followed(lambda: (x3(),))
def generator_in_class(x):
    return [*Steps(x).__iter__()]


@followed(lambda: (x3(),))
def generator_pipeline(x):
    evens = (i for i in range(8) if i % 2 == 0)
    squares = (x * i * i for i in evens)
    return sum(squares)
