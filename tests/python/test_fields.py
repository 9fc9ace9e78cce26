"""Stores to attributes in place: instances with and without a dict, slots, classes that change under the loop, old values that end;
dicts that change between calls; what the package loads when it is named first."""
import subprocess
import sys

import pytest

import kintsugi as kt
from comparing import STRESS, snapshot

pytestmark = pytest.mark.usefixtures("fresh")
native = kt._dynamo.utils.counters["native"]


class Plain:
    def __init__(self, count=0):
        self.count = count
        self.other = None


class Slots:
    __slots__ = ("count", "other")

    def __init__(self, count=0):
        self.count = count
        self.other = None


class Both(Slots):
    __slots__ = ("__dict__",)


class Hidden(Plain):  # a value in the instance that the class does not show
    pass


def hidden():
    made = Hidden()
    vars(made)["shown"] = 1
    Hidden.shown = property(lambda self: 5)
    return made


def with_dict(cls):
    made = cls()
    made.__dict__["more"] = 1
    return made


def add(x, o, turns):
    for i in range(turns):
        o.count = o.count + i
        o.other = (i, o.count)
    return x + o.count


def write_only(x, o, turns):
    for i in range(turns):
        o.count = float(i)
        o.other = o
    return x


def delete(x, o, turns):
    for i in range(turns):
        o.count = i
        del o.count
        o.count = i + 1
        del o.other
        o.other = i
    return x + o.count


def new_name(x, o, turns):
    for i in range(turns):
        o.fresh = i
        o.fresh = o.fresh + 1
    return x


MAKERS = {"plain": Plain, "slots": Slots, "both": Both, "dict": lambda: with_dict(Plain), "dict and slots": lambda: with_dict(Both),
          "hidden": hidden}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("function", [add, write_only, delete, new_name], ids=lambda each: each.__name__)
def test_stores(function, make):
    def seen(run):
        objects = [make() for _ in range(2)]
        answers = []
        for o in (objects[0], objects[1], objects[0]):
            try:
                answers.append(snapshot(run(kt.ones(2), o, 30)))
            except AttributeError as error:
                answers.append(str(error))
        fields = [{name: repr(getattr(o, name)).split(" object")[0] for name in ("count", "other", "fresh", "more") if hasattr(o, name)}
                  for o in objects]
        return answers, fields, [list(getattr(o, "__dict__", ())) for o in objects]
    assert seen(kt.compile(function)) == seen(function)


def test_references_of_stored_values():
    value, old = object(), object()
    o, s = Plain(old), Slots(old)

    def store(x, o, s, value):
        o.count = value
        s.count = value
        return x + 1
    fast = kt.compile(store)
    before = sys.getrefcount(value), sys.getrefcount(old)
    for _ in range(50):
        fast(kt.ones(2), o, s, value)
    assert (sys.getrefcount(value), sys.getrefcount(old)) == (before[0] + 2, before[1] - 2)
    assert o.count is s.count is value


class Ends:
    """Its end changes the class of what held it, or the instance."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def test_an_old_value_that_ends_changes_what_follows():
    def run(compiled):
        class Changing:
            def __init__(self):
                self.a = self.b = None
        log, acts = [], {"class": lambda o: setattr(Changing, "b", property(lambda self: 7, lambda self, value: log.append(value))),
                         "dict": lambda o: vars(o).update(b=1, c=2), "delete": lambda o: delattr(o, "b")}

        def store(x, o, n):
            o.a = n
            o.b = n + 1
            return x + n
        fast = kt.compile(store) if compiled else store
        for name, act in acts.items():
            o = Changing()
            for n in range(4):
                fast(kt.ones(2), o, n)
            o.a = Ends(lambda: act(o))
            fast(kt.ones(2), o, 10)
            log.append((name, o.a, o.b, sorted(vars(o))))
            if "b" in vars(Changing):
                del Changing.b
        return log
    assert run(True) == run(False)


def test_a_dict_that_changes_is_read_anew():
    space = {"gain": 2.0, "kt": kt}
    exec("def f(x, d):\n return x * gain + d['k']", space)
    fast, d = kt.compile(space["f"]), {"k": 1.0}
    for change in (lambda: None, lambda: d.update(other=1), lambda: d.update(k=1.0), lambda: space.update(more=3), lambda: d.pop("other"),
                   lambda: space.update(gain=3.0), lambda: d.update(k=kt.ones(2)), d.clear, lambda: d.update(k=2.0),
                   lambda: [d.update({f"n{i}": i}) for i in range(50)], lambda: space.update(gain=2.0)):
        change()
        for _ in range(2):
            try:
                expected = space["f"](kt.ones(2), d).tolist()
            except KeyError:
                with pytest.raises(KeyError, match="'k'"):
                    fast(kt.ones(2), d)
            else:
                assert fast(kt.ones(2), d).tolist() == expected
    # What a dict held is not kept by code that read it.
    held = kt.ones(3)
    d["k"] = held
    fast(kt.ones(3), d)
    before = sys.getrefcount(held)
    d["k"] = 1.0
    assert sys.getrefcount(held) == before - 1
    assert fast(kt.ones(3), d).tolist() == [3.0] * 3


@pytest.mark.skipif(STRESS != "", reason="what is loaded does not depend on it")
def test_what_is_loaded_when_it_is_named_first():
    program = """
import sys, kintsugi as kt
late = {"numpy", "re", "kintsugi.nn", "kintsugi.library", "kintsugi._opaque"} & set(sys.modules)
assert not late, late
def names(x):
    from kintsugi import nn
    import kintsugi.utils
    return kt.cond(x.shape[0] > 2, lambda x: x + 1, lambda x: x, (x,)) + kt.square(kt.nn.functional.relu(x)) + nn.functional.relu(x)
assert names.__code__ and "nn" not in vars(kt)
fast = kt.compile(names, fullgraph=True)
assert fast(kt.ones(3)).tolist() == names(kt.ones(3)).tolist() == [4.0] * 3
assert kt.nn is sys.modules["kintsugi.nn"] and not set(kt.__all__) - set(dir(kt))
assert {"nn", "export", "clamp"} <= set(dir(kt))
space = {}
exec("from kintsugi import *", space)
assert space["softmax"] is kt.softmax and space["ops"] is kt.library.ops
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="module 'kintsugi' has no attribute 'nothing'"):
        kt.nothing  # noqa: B018
