"""A* over a cost grid with a heap; the grid is a tensor, the frontier plain Python."""
import heapq

import kintsugi as kt

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


def search(cost, start, goal):
    rows, columns = cost.shape
    frontier = [(0.0, start)]
    came_from = {start: None}
    best = {start: 0.0}
    while frontier:
        _, here = heapq.heappop(frontier)
        if here == goal:
            break
        r, c = here
        for dr, dc in MOVES:
            there = (r + dr, c + dc)
            if not (0 <= there[0] < rows and 0 <= there[1] < columns):
                continue
            price = best[here] + cost[there].item()
            if there not in best or price < best[there]:
                best[there] = price
                came_from[there] = here
                guess = abs(goal[0] - there[0]) + abs(goal[1] - there[1])
                heapq.heappush(frontier, (price + guess, there))
    return came_from, best


def path_to(came_from, goal):
    path = [goal]
    while (previous := came_from[path[-1]]) is not None:
        path.append(previous)
    return path[::-1]


def run(height, start, goal):
    cost = 1 + kt.abs(height) * 2
    came_from, best = search(cost, start, goal)
    path = path_to(came_from, goal)
    marked = kt.zeros_like(height)
    for step, (r, c) in enumerate(path):
        marked[r, c] = step
    return path, best[goal], marked


def make_arguments(turn):
    height = kt.zeros(4, 4)
    height[1, 0:3] = 5.0
    height[3, turn] = 2.0
    return height, (0, 0), (3, 3)
