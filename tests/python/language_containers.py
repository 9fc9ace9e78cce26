"""Of lists, tuples, dicts, sets and the collections module: see language_programs.py. Single methods are in
test_containers.py."""
from language_programs import followed, x3


@followed(lambda: (x3(), [3, 1, 2], [x3()]))
def list_methods(x, given, tensors):
    made = [x, 1, 2]
    made.insert(1, x * 2)
    made.reverse()
    made.remove(1)
    given.sort(key=lambda item: -item)
    tensors[:0] = [x + 1, x + 2]
    del tensors[1:2], made[0]
    made *= 2
    return made, given.index(2), given.count(1), (1, 2, 1).count(1), [1, [2, 3]] == [1, [2, 3]], given < [4], tensors.copy()


@followed(lambda: (x3(), [1, 2, 3, 4], {"a": 1, "b": x3(), 3: "c"}))
def containers_of_before(x, items, table):
    items[::2] = [x, x]
    first = table.pop("a")
    table.update([("n", x * first)], m=items.pop())
    table.setdefault("k", []).append(x)
    alias = table["k"]
    alias += [1]
    return {**table}, table | {"z": 1}, list(table.items())[0], len(items), table == {}, dict.fromkeys("ab", x)


class Key:
    pass


@followed(lambda: (x3(), Key(), Key()))
def dict_keys_by_identity(x, a, b):
    local = Key()
    table = {a: 1, b: x * 2, local: 2, Key: 3, x: 4}
    table[a] += table[x]
    del table[b]
    return table[a], b in table, table[local], table[Key], [*table.values()], x + 1


@followed(lambda: (x3(), {3, "a", 1}, {"left", "right"}))
def sets(x, given, names):
    made = {1, 2, "b"} | given
    made.discard(2)
    made ^= {7}
    given.add(len(made))
    known = "left" in names and "up" not in names
    kinds = {x, x * 2}
    return x + len(kinds), [*made], made >= {1}, given - {1}, known, {n for n in range(7) if n % 2}, frozenset("ab"), x in kinds
