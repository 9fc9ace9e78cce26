"""Guards that lean on earlier ones of the same program: what changes behind any of them is seen."""
import collections
import gc

import pytest

import kintsugi as kt
from kintsugi.bench import module_of


def modules(count=4):
    made = module_of(count)
    type(made.layers[0]).forward = lambda self, count: count + self.weight.shape[0] + self.weight.requires_grad
    return made


def own_forward(layer, number):
    layer.forward = lambda count: count + number


def another_then_this(model, call):
    own_forward(modules().layers[0], 9)
    another = type(model.layers[0])()
    own_forward(another, 9)  # the keys that instances share have the name now
    call()
    own_forward(model.layers[3], 1000)


def real_dict(model, call):
    model.layers[1].__dict__  # its inline values are gone
    call()
    own_forward(model.layers[1], 5)


def swap(model, call):
    first, last = model.layers[0], model.layers[3]
    last.weight = kt.nn.Parameter(kt.ones(9))
    model.layers[0], model.layers[3] = last, first


def other_class(model, call):
    kind = type(model.layers[1])
    model.layers[1].__class__ = type("Other", (kind,), {"forward": lambda self, count: count + 77})


def other_code(model, call):
    type(model.layers[1]).forward.__code__ = (lambda self, count: count + 12).__code__


CHANGES = {
    "parameter": lambda m, call: setattr(m.layers[2], "weight", kt.nn.Parameter(kt.ones(5))),
    "in its dict": lambda m, call: m.layers[3]._parameters.__setitem__("weight", kt.ones(7)),
    "dtype": lambda m, call: m.layers[3]._parameters.__setitem__("weight", kt.ones(3, dtype=kt.float64)),
    "requires_grad": lambda m, call: m.layers[1].weight.requires_grad_(False),
    "no tensor": lambda m, call: object.__setattr__(m.layers[1], "weight", m.layers[1].weight[:1]),
    "forward of the first": lambda m, call: own_forward(m.layers[0], 100),
    "forward of the last": lambda m, call: own_forward(m.layers[3], 100),
    "another, then this": another_then_this,
    "real dict": real_dict,
    "hook": lambda m, call: m.layers[2].register_forward_hook(lambda module, args, output: output + 50),
    "swap": swap,
    "shorter": lambda m, call: m.layers.__delitem__(3),
    "class": other_class,
    "method": lambda m, call: setattr(type(m.layers[1]), "forward", lambda self, count: count + 11),
    "code": other_code,
    "attribute of the class shows": lambda m, call: object.__delattr__(m.layers[2], "_plain"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_modules(change):
    model, x = modules(), kt.ones(3)
    compiled = kt.compile(model)

    def call():
        assert compiled(x).tolist() == model(x).tolist()
    call()
    call()
    CHANGES[change](model, call)
    call()
    call()
    own_forward(model.layers[0], 3)
    call()
    for layer in model.layers:
        layer.__dict__
    call()
    own_forward(model.layers[1], 4)
    call()


def test_globals_and_what_they_must_be():
    def build(source):
        space = {"kt": kt, "one": len, "other": 0}
        exec(source, space)
        return space, kt.compile(space["f"]), space["f"]

    space, compiled, plain = build("def f(x, items):\n return kt.maximum(x, x) + one(items) + one(items)")
    x = kt.ones(3)
    for change in (lambda: None, lambda: space.__setitem__("other", 1), lambda: space.__setitem__("one", max),
                   lambda: space.__setitem__("other", 2), lambda: space.__setitem__("one", len),
                   lambda: space.update({f"n{i}": i for i in range(100)}), lambda: space.__setitem__("one", max),
                   lambda: space.__delitem__("one"), lambda: space.__setitem__("one", len)):
        change()
        for _ in range(3):
            outcomes = []
            for function in (compiled, plain):
                try:
                    outcomes.append(function(x, [1, 7]).tolist())
                except NameError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]


def test_no_finaliser_runs_between_guards():
    """The order of an OrderedDict is asked with an iterator, which the collector may answer with finalisers."""
    class Plain:
        def __init__(self):
            self.a, self.b = 1.0, 2.0

    class Ends:
        def __del__(self):
            ended.append(current.__dict__)  # its inline values are gone

    def f(thing, ordered, x):
        thing.a
        for _ in ordered:
            pass
        return x + thing.b

    compiled, ordered, x, ended = kt.compile(f), collections.OrderedDict(p=1), kt.ones(2), []
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            current = Plain()
            compiled(current, ordered, x)
            ends = Ends()
            ends.itself = ends
            del ends
            gc.set_threshold(10, 10000, 10000)
            kept = [[] for _ in range(100)]
            gc.enable()
            result = compiled(current, ordered, x)
            gc.disable()
            assert result.tolist() == [3, 3]
            current.b = 5.0
            assert compiled(current, ordered, x).tolist() == [6, 6]
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    gc.collect()
    assert len(kept) == 100 and ended
