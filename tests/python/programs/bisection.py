"""Root finding: bisection and Newton with item(), while loops with break and else."""
import kintsugi as kt


def polynomial(coefficients, x):
    result = kt.zeros_like(x)
    for c in coefficients:
        result = result * x + c
    return result


def bisect(f, low, high, tolerance=1e-3):
    steps = 0
    if f(low).item() * f(high).item() > 0:
        raise ValueError("no change of sign")
    while (high - low).item() > tolerance:
        middle = (low + high) / 2
        if f(middle).item() * f(low).item() <= 0:
            high = middle
        else:
            low = middle
        steps += 1
    return (low + high) / 2, steps


def newton(f, df, x, limit=20):
    for i in range(limit):
        step = f(x) / df(x)
        x = x - step
        if abs(step.item()) < 1e-6:
            break
    else:
        print("no convergence")
        return x, None
    return x, i


def run(coefficients, low, high, start):
    f = lambda x: polynomial(coefficients, x)
    slopes = [c * n for c, n in zip(coefficients, range(len(coefficients) - 1, 0, -1))]
    root, steps = bisect(f, kt.tensor(low), kt.tensor(high))
    refined, count = newton(f, lambda x: polynomial(slopes, x), root)
    try:
        bisect(f, kt.tensor(high), kt.tensor(high + 1))
    except ValueError as error:
        message = str(error)
    return root, refined, steps, count, message


def make_arguments(turn):
    return [1.0, 0.0, -2.0 - turn], 0.0, 3.0, 1.0
