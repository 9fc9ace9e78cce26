"""A game loop: entity classes with inheritance and isinstance, events in a list, an enum, a world with lookups."""
import enum

import kintsugi as kt


class Kind(enum.Enum):
    PLAYER = 1
    ENEMY = 2
    BULLET = 3


class Entity:
    kind = None
    radius = 0.5

    def __init__(self, position, velocity):
        self.position, self.velocity, self.alive = position, velocity, True

    def update(self, world, dt):
        self.position = self.position + self.velocity * dt

    def hits(self, other):
        gap = self.position - other.position
        return (gap * gap).sum().item() < (self.radius + other.radius) ** 2


class Player(Entity):
    kind = Kind.PLAYER


class Enemy(Entity):
    kind = Kind.ENEMY

    def update(self, world, dt):
        toward = world.player.position - self.position
        self.velocity = 0.9 * self.velocity + 0.1 * toward
        super().update(world, dt)


class Bullet(Entity):
    kind = Kind.BULLET
    radius = 0.1


class World:
    def __init__(self, entities):
        self.entities = entities
        self.events = []

    @property
    def player(self):
        return next(e for e in self.entities if isinstance(e, Player))

    def tick(self, dt):
        for entity in self.entities:
            entity.update(self, dt)
        for bullet in [e for e in self.entities if e.kind is Kind.BULLET]:
            for enemy in filter(lambda e: e.kind == Kind.ENEMY, self.entities):
                if enemy.alive and bullet.hits(enemy):
                    enemy.alive = False
                    self.events.append((bullet.kind.name, enemy.kind.value))
        self.entities = [e for e in self.entities if e.alive]


def run(entities, dt, ticks):
    world = World(entities)
    for _ in range(ticks):
        world.tick(dt)
    counts = {kind.name: sum(1 for e in world.entities if e.kind is kind) for kind in Kind}
    return world.events, counts, [e.position for e in world.entities]


def make_arguments(turn):
    return [Player(kt.zeros(2), kt.ones(2)), Enemy(kt.tensor([3.0, 0.0]), kt.zeros(2)), Enemy(kt.tensor([0.0, 4.0]), kt.zeros(2)),
            Bullet(kt.tensor([1.0, 0.0]), kt.tensor([10.0 + turn, 0.0]))], 0.1, 3
