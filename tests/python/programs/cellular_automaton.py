"""Conway's life on a torus, with rolls made of slices, and a one-dimensional rule."""
import kintsugi as kt


def roll(grid, shift, dim):
    if shift == 0:
        return grid
    n = grid.shape[dim]
    shift = shift % n
    if dim == 0:
        return kt.cat([grid[n - shift:], grid[:n - shift]], dim=0)
    return kt.cat([grid[:, n - shift:], grid[:, :n - shift]], dim=1)


def neighbours(grid):
    total = kt.zeros_like(grid)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dy == 0 and dx == 0:
                continue
            total += roll(roll(grid, dy, 0), dx, 1)
    return total


def life(grid):
    n = neighbours(grid)
    return ((n == 3) | ((grid == 1) & (n == 2))).to(grid.dtype)


def rule(cells, number):
    left = kt.cat([cells[-1:], cells[:-1]])
    right = kt.cat([cells[1:], cells[:1]])
    pattern = left * 4 + cells * 2 + right
    result = kt.zeros_like(cells)
    for bit in range(8):
        if number >> bit & 1:
            result = kt.where(pattern == bit, 1, result)
    return result


def run(grid, cells, generations, number):
    history = []
    for _ in range(generations):
        grid = life(grid)
        cells = rule(cells, number)
        history.append(grid.sum())
    for row in cells.reshape(1, -1).tolist():
        print("".join("#" if cell else "." for cell in row))
    return grid, cells, kt.stack(history)


def make_arguments(turn):
    grid = kt.zeros(6, 6, dtype=kt.int64)
    grid[1, 2] = grid[2, 3] = grid[3, 1] = grid[3, 2] = grid[3, 3] = 1
    cells = kt.zeros(11, dtype=kt.int64)
    cells[5] = 1
    return grid, cells, 3, (30, 90, 110)[turn]
