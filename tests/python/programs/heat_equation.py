"""Explicit heat equation, with a stopping rule on the change, boundary kinds by string, and a log of residuals."""
import kintsugi as kt


def apply_boundary(u, kind, value=0.0):
    if kind == "fixed":
        u[0] = value
        u[-1] = value
    elif kind == "insulated":
        u[0] = u[1]
        u[-1] = u[-2]
    elif kind == "periodic":
        u[0], u[-1] = u[-2].clone(), u[1].clone()
    else:
        raise ValueError(f"no boundary is called {kind!r}")


def run(u, ratio, kind, limit=6, tolerance=1e-2):
    assert 0 < ratio <= 0.5, "unstable"
    residuals = []
    for step in range(limit):
        new = u.clone()
        new[1:-1] = u[1:-1] + ratio * (u[2:] - 2 * u[1:-1] + u[:-2])
        apply_boundary(new, kind)
        residual = (new - u).abs().max().item()
        residuals.append(round(residual, 5))
        u = new
        if residual < tolerance:
            break
    try:
        apply_boundary(u, "open")
    except ValueError as error:
        print(error)
    return u, residuals, step


def make_arguments(turn):
    u = kt.zeros(12)
    u[4:8] = 1.0
    return u, 0.25, ("fixed", "insulated", "periodic")[turn]
