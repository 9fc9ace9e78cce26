"""Generators made in compiled functions, plain against compiled: values, effects in order, tracebacks, and of generators that
leave the function all that can be seen of them, before and while they go on outside. What is followed without a break is
in language_generators.py."""
import gc
import inspect
import sys
import tracemalloc

import pytest

import kintsugi as kt
from comparing import STRESS, observe, snapshot
from language_generators import echo, scaled
from language_programs import x3

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]
log = []


def seen(value):
    """A value with its generators taken apart, then run to their ends."""
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    if not inspect.isgenerator(value):
        return snapshot(value)
    frame, delegate = value.gi_frame, value.gi_yieldfrom
    facts = [value.__name__, value.__qualname__, inspect.getgeneratorstate(value), value.gi_running, value.gi_code.co_name,
             gc.is_tracked(value), delegate is None or type(delegate).__name__]
    if frame is not None:
        facts += [frame.f_lineno, frame.f_lasti, sorted((name, snapshot(item)) for name, item in frame.f_locals.items()
                                                        if not inspect.isgenerator(item))]
        assert frame.f_back is None and frame.f_code is value.gi_code
    rest = []
    try:
        for item in value:
            rest.append(snapshot(item))
    except Exception as error:
        rest.append((type(error).__name__, str(error)))
    return [facts, rest, inspect.getgeneratorstate(value)]


def check(function, *, after=seen, make=lambda: (x3(),), rounds=3):
    compiled = kt.compile(function)

    def run(called):
        log.clear()
        outcome = observe(lambda *arguments: after(called(*arguments)), make)
        return outcome, snapshot(list(log))

    for _ in range(rounds):
        assert run(compiled) == run(function)
    assert native["fallbacks"] == 0


# ---- Generator functions -------------------------------------------------------------------------------------------


def delegating(x):
    answer = yield from echo(x)
    yield answer
    yield from [1, 2]


def told(x, name="g"):
    log.append(name + " starts")
    try:
        yield x
        yield x + 1
        yield x + 2
    finally:
        log.append(name + " ends")


def printing(x):
    for i in range(3):
        print("step", i)
        yield x + i


def raising(x):
    yield x
    yield x[0] + 1
    [][1]
    yield 2


def named(a, /, b=2, *rest, c, d=4, **more):
    total = a * b
    yield total
    yield rest, c, d, more
    yield total


class Holder:
    def __init__(self, x):
        self.x, self.count = x, 0

    def steps(self):
        while self.count < 12:
            self.count += 1
            yield self.x * self.count

    def __iter__(self):
        return self.steps()


# ---- Leaving -------------------------------------------------------------------------------------------------------


def leaves_new(x):
    return scaled(3, x), named(x, 3, 5, c=1, e=x), named(x, c=2), Holder(x).steps(), (y * 2 for y in [x, x])


def leaves_half_consumed(x):
    g, h = scaled(3, x), delegating(x)
    next(g)
    next(h)
    h.send(3)
    return g, h


def leaves_at_end(x):
    g = scaled(1, x)
    return list(g), g, next(g, "none")


def leaves_by_break(x):
    g = scaled(6, x)
    for i, y in enumerate(g):
        if i == 2:
            break
    h = scaled(12, x)
    for y in h:
        x = x + y
    return g, h, x


def leaves_twice(x):
    g = scaled(5, x)
    a, b = next(g), next(g)
    return [g, g], a, b, [g] == [g], g is g


def leaves_in_a_cell(x):
    def steps():
        yield x
        yield me is None, count
        yield 3
    count = 1
    me = steps()
    next(me)
    count += 1
    return me


def leaves_in_delegation(x):
    def outer():
        yield from inner
        yield "outer"
    inner = scaled(3, x)
    g = outer()
    next(g)
    return g, inner


def leaves_through_list(x, kept):
    g = scaled(4, x)
    next(g)
    kept.append(g)
    next(g)
    return len(kept)


# ---- Order and ends ------------------------------------------------------------------------------------------------


def finally_at_exhaustion(x):
    for y in told(x):
        log.append(y)
    log.append("after")


def finally_at_break(x):
    for y in told(x):
        break
    log.append("after")
    return y


def finally_at_rebinding(x):
    g = told(x, "first")
    next(g)
    g = told(x, "second")
    next(g)
    log.append("bound")
    g = None
    log.append("dropped")
    return x * 2


def finally_at_return(x):
    g = told(x)
    return next(g)


def finally_kept(x):
    g = told(x)
    next(g)
    return g


def finally_unstarted(x):
    told(x)
    g = told(x)
    del g
    log.append("after")
    return x + 1


def finally_at_close(x):
    g = told(x)
    next(g)
    g.close()
    log.append("closed")
    return list(g)


def finally_in_delegation(x):
    def outer():
        yield from told(x, "inner")
    for y in outer():
        break
    log.append("after")


def finally_drained(x):
    return list(told(x)), [*zip(told(x, "a"), told(x, "b"))]


def zip_order(x):
    def note(name, n):
        for i in range(n):
            log.append((name, i))
            yield i * x
        log.append(name)
    a, b = note("a", 3), note("b", 2)
    pairs = list(zip(a, b))
    return pairs, list(a), list(b), list(zip(note("c", 1), note("d", 3)))


def any_order(x):
    def note(n):
        for i in range(n):
            log.append(i)
            yield i > 1
    g = note(5)
    return any(g), list(g), all(note(3)), 3 in (i for i in (1, 3, 5)), x


# ---- Protocol ------------------------------------------------------------------------------------------------------


def sends(x):
    g = echo(x)
    first = next(g)
    second = g.send(first + 1)
    try:
        g.send(None)
    except StopIteration as stop:
        return first, second, stop.value


def sends_to_the_end(x):
    def steps():
        got = None
        try:
            while True:
                got = yield got
                log.append(got)
                if got == 3:
                    return "three"
                if got == 2:
                    print("two")
        finally:
            log.append("ends")
    g, h = steps(), steps()
    next(g), next(h)
    for i in (1, 2, 3):
        try:
            log.append((g.send(i), h.send(i - 1)))
        except StopIteration as stop:
            log.append(stop.value)
    return x, h.close()


def sends_too_early(x):
    return echo(x).send(1)


def next_of_ended(x):
    g = scaled(1, x)
    next(g)
    return next(g)


def result_of_yield_from(x):
    def outer():
        answer = yield from echo(x)
        yield answer
        answer = yield from (i for i in range(2))
        yield answer
        yield from "ab"
        yield from {"k": x}
        yield from (x, 1)
        yield from map(str, range(2))
    return [*outer()]


def throws(x):
    def catches():
        try:
            yield x
        except ValueError as error:
            yield str(error)
    g = catches()
    return next(g), g.throw(ValueError("in")), next(g, "end")


def closes(x):
    g, h = scaled(3, x), delegating(x)
    next(g), next(h)
    return g.close(), h.close(), list(g), list(h), g


def already_running(x):
    def steps():
        yield next(g)
    g = steps()
    return next(g)


def stop_inside(x):
    def steps():
        yield x
        raise StopIteration("inside")
    return list(steps())


def raises_inside(x):
    for y in raising(x):
        x = x + y
    return x


def raises_in_drain(x):
    return sum(y.sum() for y in [x, x, None])


def raises_in_delegation(x):
    def outer():
        yield from raising(x)
    return [y for y in outer()]


def catches_inside(x):
    def steps():
        for item in [1, 0, "a"]:
            try:
                yield 1 / item
            except (ZeroDivisionError, TypeError) as error:
                yield str(error)
    return list(steps())


def unpacks(x):
    a, *b = scaled(4, x)
    (c, d), e = (i for i in (1, 2)), max(*scaled_ints(3))
    return a, b, c, d, e


def scaled_ints(n):
    return (i * i for i in range(n))


def unpacks_too_few(x):
    a, b, c = scaled(2, x)
    return a


def unpacks_too_many(x):
    g = scaled(5, x)
    try:
        a, b = g
    except ValueError as error:
        return str(error), g


# ---- Breaks, exits and length --------------------------------------------------------------------------------------


def breaks_in_body(x):
    total = x
    for y in printing(x):
        total = total * y
    return total, sum(y.sum() for y in printing(x))


def breaks_in_delegation(x):
    def outer():
        yield from printing(x)
        print("outer")
        yield x * 9
    return [y + 1 for y in outer()], list(outer())


def breaks_between(x):
    g = scaled(4, x)
    a = next(g)
    print("between", a)
    b = next(g)
    kt._dynamo.graph_break()
    return a, b, g


def breaks_in_callee_of_body(x):
    def noisy(y):
        y = y * 2
        print("callee", y)
        return y + 1

    def steps():
        for i in range(3):
            z = noisy(x + i)
            yield z * 2
    return [y for y in steps()], list(steps())


def branches_on_data(x):
    def steps():
        for i in range(3):
            if (x * i).sum() > 5:
                yield "much"
            else:
                yield x * i
    return [y for y in steps()]


def long_ones(x):
    total = x
    for y in scaled(20, x):
        total = total + y
    for y in (i for i in range(30) if i % 3 == 0):
        total = total + y
    return total, len(list(scaled(50, x))), sum(i for i in range(100))


def endless(x):
    def count():
        n = 0
        while True:
            yield n
            n += 1
    out = []
    for i in count():
        if i > 20:
            return out
        out.append(x * i)


def recursive(x):
    def walk(tree):
        if isinstance(tree, list):
            for branch in tree:
                yield from walk(branch)
        else:
            yield tree

    def permutations(items):
        if len(items) <= 1:
            yield items
        else:
            for i in range(len(items)):
                for rest in permutations(items[:i] + items[i + 1:]):
                    yield [items[i]] + rest
    return list(walk([x, [1, [2, [3, [4, [5]]]]], []])), [p for p in permutations([1, 2, 3])]


def changes_holder(x):
    holder = Holder(x)
    a = [y for y, _ in zip(holder, range(3))]
    return a, holder.count, [y for y in holder.steps()], holder.count


def changes_in_drain(x):
    count = 0
    names = []

    def steps():
        nonlocal count
        for i in range(3):
            count += 1
            names.append(i)
            yield count
    return sum(steps()), count, names, [*enumerate(steps())], list(map(lambda a: a + count, steps())), names


PROGRAMS = [value for value in list(globals().values())
            if inspect.isfunction(value) and value.__module__ == __name__ and not inspect.isgeneratorfunction(value)
            and list(inspect.signature(value).parameters) == ["x"]]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_program(function):
    check(function)


def test_a_generator_put_into_a_list_is_the_one_that_goes_on():
    kept = []
    check(leaves_through_list, make=lambda: (x3(), kept), after=lambda n: [n, seen(kept.pop())])


@pytest.mark.parametrize("way", ["send", "throw", "close"])
def test_a_half_consumed_generator_outside(way):
    def act(g):
        if way == "send":
            return g.send(None), g.send(None), next(g, "end")
        if way == "close":
            return g.close(), list(g)
        try:
            g.throw(KeyError("from outside"))
        except KeyError as error:
            lines = []
            where = error.__traceback__
            while where is not None:
                lines.append((where.tb_frame.f_code.co_name, where.tb_lineno))
                where = where.tb_next
            return lines, list(g)

    def half(x):
        g = told(x)
        next(g)
        return g

    def plain(x):
        g = scaled(3, x)
        next(g)
        return g
    check(half, after=lambda g: act(g))
    check(plain, after=lambda g: act(g))


def test_references_of_a_generator_that_left():
    class Item:
        pass

    def leave(x, item):
        def steps(held):
            yield x
            yield held
        g = steps(item)
        next(g)
        return g
    compiled = kt.compile(leave)
    for _ in range(3):
        item = Item()
        before = sys.getrefcount(item)
        g = compiled(x3(), item)
        assert sys.getrefcount(g) == 2 and sys.getrefcount(item) == before + 1
        assert any(held is item for held in gc.get_referents(g))
        assert next(g) is item
        del g
        assert sys.getrefcount(item) == before


def test_a_tracer_sees_a_generator_that_left():
    def leave(x):
        g = scaled(2, x)
        next(g)
        return g

    def events(g):
        seen = []

        def tracer(frame, event, argument):
            if frame.f_code is scaled.__code__:
                seen.append((event, frame.f_lineno))
            return tracer
        sys.settrace(tracer)
        try:
            list(g)
        finally:
            sys.settrace(None)
        return seen
    check(leave, after=events)


def test_other_arguments_take_side_exits():
    def f(x, n, flag):
        def steps():
            for i in range(n):
                if flag and i == 1:
                    yield "flag"
                log.append(i)
                yield x * i
        return [y for y in steps()], sum(i for i in range(n) if i != flag)
    compiled = kt.compile(f)
    for n, flag in [(2, False), (3, False), (4, True), (2, True), (12, False), (0, True), (3, 2)]:
        results = []
        for called in (compiled, f):
            log.clear()
            results.append((snapshot(called(x3(), n, flag)), list(log)))
        assert results[0] == results[1]


@pytest.mark.skipif(STRESS == "miss_every_guard", reason="each call compiles")
def test_nothing_is_left():
    compiled = [kt.compile(function) for function in (leaves_half_consumed, breaks_in_delegation, leaves_in_a_cell, finally_at_break)]

    def run():
        for function in compiled:
            observe(function, lambda: (x3(),))
        log.clear()
    for _ in range(10):
        run()
    gc.collect()
    tracemalloc.start()
    try:
        run()
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            run()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - first < 5000
    finally:
        tracemalloc.stop()
