"""Effects in the program's order: two of each pair of kinds, with something between them that sees what has happened so far (a
call in the same segment, an error, a value that one leaves and the other stores), compiled against plain. And pairs of different
kinds that change one place."""
import contextlib
import io
import textwrap

import pytest

import kintsugi as kt
from comparing import STRESS, snapshot

# How each kind changes something, and the number (or tensor) that it left there.
KINDS = {
    "attribute": ("thing.a = {}", "thing.a"),
    "append": ("items.append({})", "items[-1]"),
    "dict": ("table['k'] = {}", "table['k']"),
    "global": ("shared = {}", "shared"),
    "cell": ("cell = {}", "cell"),
    "tensor": ("target.mul_(2).add_({})", "target[0] * 1"),
    "call": ("change(thing, {})", "thing.changed"),
    "print": ("print({})", "1"),
    "disabled": ("changed_plainly(thing, {})", "thing.plainly"),
}
FOLLOWED = [kind for kind in KINDS if kind not in ("print", "disabled")]

SEEN = """
def program(x, thing, items, table, target):
    global shared
    nonlocal cell
    {first2}
    x = see(x)
    {second3}
    {first_of_second}
    x = see(x)
    {second_of_first}
    {first9}
    return see(x) + 1
"""
RAISES = """
def program(x, thing, items, table, target, ints, divisor):
    global shared
    nonlocal cell
    {first2}
    try:
        {second3}
        ints = ints // divisor
        {first_of_second}
        {second_of_first}
    except ZeroDivisionError:
        {second_of_first}
        x = see(x)
    {first9}
    return x + 1, ints // divisor
"""


class Thing:
    a = changed = plainly = 0


class State:
    """What the present run changes, for see()."""
    thing = items = table = target = cell = output = None
    seen = []


def change(thing, value):
    thing.changed = thing.changed * 3 + value


@kt.compiler.disable
def changed_plainly(thing, value):
    thing.plainly = thing.plainly * 3 + value


@kt.compiler.allow_in_graph
def see(x):
    if not kt.compiler.is_compiling():  # not a placeholder
        State.seen.append(state_now())
    return x + 1


def state_now():
    return snapshot([vars(State.thing), State.items, State.table, State.target, State.cell(), shared]), State.output.getvalue()


def made(text, first, second):
    """The program in a function of its own, and what reads its cell."""
    rows = {}
    for name, kind, other in (("first", first, second), ("second", second, first)):
        store, _ = KINDS[kind]
        rows |= {f"{name}{n}": store.format(n) for n in (2, 3, 9)}
        rows[f"{name}_of_{'second' if name == 'first' else 'first'}"] = store.format(f"{KINDS[other][1]} + 1")
    body = textwrap.indent(text.format(**rows), "    ")
    namespace = globals()
    exec(f"def make():\n    cell = 0\n{body}\n    return program, lambda: cell", namespace)
    return namespace.pop("make")


def run(make, compiled, arguments=lambda turn: ()):
    """Everything that can be seen of one run after another, in one history."""
    global shared
    kt._dynamo.reset()
    program, State.cell = make()
    program = compiled(program)
    seen = []
    for turn in (0, 1, 0, 1):
        shared, State.seen = 0, []
        State.thing, State.items, State.table, State.target = Thing(), [], {}, kt.tensor([1.0, 2.0])
        State.output = io.StringIO()
        with contextlib.redirect_stdout(State.output):
            try:
                answer = snapshot(program(kt.ones(2), State.thing, State.items, State.table, State.target, *arguments(turn)))
            except ZeroDivisionError as error:
                answer = repr(error)
        seen.append((answer, State.seen, state_now()))
    return seen


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_seen_between(first, second):
    make = made(SEEN, first, second)
    whole = not STRESS and first in FOLLOWED and second in FOLLOWED
    assert run(make, lambda f: kt.compile(f, fullgraph=whole)) == run(make, lambda f: f)


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_error_between(first, second):
    make = made(RAISES, first, second)

    def arguments(turn):
        return kt.tensor([4, 6]), kt.tensor([2, 1 - turn])
    assert run(make, kt.compile, arguments) == run(make, lambda f: f, arguments)


# ---- Two kinds, one place --------------------------------------------------------------------------------------------------

PLACES = {
    "attribute, its dict": "thing.a = 1; vars(thing)['a'] = 2; x = see(x); vars(thing)['a'] = 3; thing.a = 4",
    "attribute, setattr, deleted": "thing.a = 1; setattr(thing, 'a', 2); x = see(x); del thing.a; x = see(x); thing.a = 4",
    "global, globals()": "shared = 1; globals()['shared'] = 2; x = see(x); globals()['shared'] = 3; shared = 4",
    "cell, a function that stores it": "inner = storing(); cell = 1; inner(2); x = see(x); inner(3); cell = 4",
    "append, item, insert, del": "items.append(1); items[0] = 2; x = see(x); items.insert(0, 3); del items[1]; x = see(x); items.append(4)",
    "append, extend, pop, clear": "items.append(1); items.extend([2, 3]); items.pop(0); x = see(x); items.clear(); items.append(4)",
    "dict, setdefault, update, pop": "table['k'] = 1; table.setdefault('k', 2); x = see(x); table.update(k=3); table.pop('k'); table['k'] = 4",
    "tensor, a view of it": "part = target[1:]; target *= 2; part += 1; x = see(x); target[0] = part[0]; part *= 3; target.add_(x)",
    "tensor, what was computed before": "y = target * 2; target += 1; z = target * 2; x = see(x) + y; target *= z; target.add_(x)",
    "one list by two names": "same = [items][0]; items.append(1); same.append(2); x = see(x); same[0] = 3; items[0] = items[0] + 4",
}


@pytest.mark.parametrize("name", PLACES)
def test_one_place(name):
    lines = "\n    ".join(PLACES[name].split("; "))
    make = made(f"""
def program(x, thing, items, table, target):
    global shared
    nonlocal cell
    def storing():
        def inner(value):
            nonlocal cell
            cell = cell * 10 + value
        return inner
    {lines}
    return see(x) + 1
""".replace("{", "{{").replace("}", "}}"), "append", "append")
    assert run(make, kt.compile) == run(make, lambda f: f)
