"""A tiny Q-learner on a corridor: random draws after a seed, epsilon, tables as tensors, early stop."""
import kintsugi as kt


class Corridor:
    def __init__(self, length):
        self.length = length
        self.place = 0

    def reset(self):
        self.place = 0
        return self.place

    def step(self, action):
        self.place = max(0, min(self.length - 1, self.place + (1 if action else -1)))
        done = self.place == self.length - 1
        return self.place, (1.0 if done else -0.1), done


def choose(table, place, epsilon):
    if kt.rand(1).item() < epsilon:
        return int(kt.rand(()).item() * 2)
    return table[place].argmax().item()


def run(length, episodes, rate=0.5, discount=0.9):
    world = Corridor(length)
    table = kt.zeros(length, 2)
    lengths = []
    for episode in range(episodes):
        place, done, steps = world.reset(), False, 0
        while not done and steps < 30:
            action = choose(table, place, epsilon=0.5 / (episode + 1))
            after, reward, done = world.step(action)
            goal = reward + (0.0 if done else discount * table[after].max())
            table[place, action] += rate * (goal - table[place, action])
            place = after
            steps += 1
        lengths.append(steps)
    return table, lengths


def make_arguments(turn):
    kt.manual_seed(turn)
    return 4, 3 + turn
