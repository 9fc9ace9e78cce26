"""kt.export: one graph that stands alone. What the program answers, what it takes, what is refused and with which words."""
import collections
import math
import threading

import pytest

import kintsugi as kt

dynamo, export, Dim, exc = kt._dynamo, kt.export.export, kt.export.Dim, kt._dynamo.exc
Pair = collections.namedtuple("Pair", "a b")
SCALE = kt.tensor([2.0, 3.0])
x23 = kt.arange(6).reshape(2, 3) * 1.0


def shown(value):
    if isinstance(value, kt.Tensor):
        return value.dtype, tuple(value.shape), value.tolist()
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [shown(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, map(shown, value)))
    if isinstance(value, Point):
        return "Point", shown(value.a), shown(value.b), value.tag
    return {key: shown(each) for key, each in value.items()} if isinstance(value, dict) else value


class Layer:
    def __init__(self):
        self.weight, self.scale = kt.ones(3, 2) * 0.5, 2

    def __call__(self, x, *, bias=None):
        y = x @ self.weight * self.scale
        return y if bias is None else y + bias


def structured(pair, table, *rest, k=2, **more):
    return {"sum": pair[0] + table["b"][0] * k, "rest": [each * 2 for each in rest], "n": (k, None, "text"), **more}


def in_place(x, out):
    out.add_(x.sum(0))
    out[0] = 7.0
    return out, x


def loops(x):
    total = x * 0
    for i in range(50):
        total = total + x * i
    while total.shape[0] > 3:
        total = total[1:]
    return total


def reads(x):
    n = x.sum().item()
    return x * n + 1, n


def sizes(x, y):
    n, m = x.shape
    return x.reshape(n * m), y + n * 2 - m, n // 2 + 1, kt.zeros(n, 2) + float(m), -n


exec(compile("""
def asserts(x):
    assert (x > -1).all(), "positive"
    assert x.shape[0] == 2
    return x + 1

def check(x):
    assert x.sum() > -9
""", "asserts", "exec"))  # not those that pytest rewrites


def captures(x):
    y, k = x * 2, 3
    return kt.cond(x.sum() > 3, lambda a: a + y * k, lambda a: a - y, (x,))


def defaults(x):
    y, z, k = x * 2, x - 1, 3

    def yes(a, b=y, *, c=z, d=2):
        return a + b * k - c * d

    return kt.cond(x.sum() > 3, yes, lambda a, y=y: a - y, (x,))


layer = Layer()
PROGRAMS = {
    "operators": (lambda x: (x * 2 + 1).sum(1) - kt.sin(x[:, 0]), (x23,), {}),
    "a callable object": (layer, (x23,), {}),
    "a keyword": (layer, (x23,), {"bias": kt.ones(2)}),
    "a method": (layer.__call__, (x23,), {}),
    "containers": (structured, ((x23, 1), {"b": [x23 + 1]}, x23, kt.ones(2)), {"k": 3, "extra": kt.ones(1)}),
    "a named tuple": (lambda p: p.a * p.b, (Pair(x23, x23 + 1),), {}),
    "changes of arguments": (in_place, (x23.clone(), kt.ones(3)), {}),
    "loops": (loops, (kt.ones(5),), {}),
    "a number of a tensor": (reads, (x23,), {}),
    "sizes": (sizes, (x23, kt.ones(4)), {}),
    "one tensor twice": (lambda a, b: a.clone().add_(b) * (1 if a is b else 2), (x23, x23), {}),
    "nothing recorded": (lambda x, y: (y, 3, x), (x23, x23 + 1), {}),
    "no result": (lambda x: None, (x23,), {}),
    "a tensor of outside": (lambda x: x * SCALE, (kt.ones(2),), {}),
    "exceptions inside": (lambda x: caught(x), (x23,), {}),
    "cond": (lambda x: kt.cond(x.sum() > 3, lambda x: x + 1, lambda x: x - 1, (x,)), (x23,), {}),
    "cond that captures": (captures, (x23,), {}),
    "cond of functions with defaults": (defaults, (x23,), {}),
    "assert": (asserts, (x23,), {}),
    "a compiled function": (kt.compile(lambda x: x + 1), (x23,), {}),
    "keywords that are no names": (lambda **given: given["a b"] + given["class"] * given["²"], (),
                                   {"a b": x23, "class": x23 + 1, "²": x23}),
    "a bool argument": (lambda x, flag: x + 1 if flag else x - 1, (x23, True), {}),
}


class Point:
    def __init__(self, a, b, tag):
        self.a, self.b, self.tag = a, b, tag


kt.utils._pytree.register_pytree_node(Point, lambda p: ([p.a, p.b], p.tag), lambda parts, tag: Point(*parts, tag))


def without_gradients(x):
    with kt.no_grad():
        y = x * 2
    with kt.inference_mode():
        z = y + x
    return y, z, x * 3


PROGRAMS |= {
    "an object of a registered class": (lambda x: [Point(x + 1, (x, 2), "t")], (x23,), {}),
    "a named tuple as result": (lambda x: Pair(x + 1, {"k": Pair(x, 3)}), (x23,), {}),
    "a set": (lambda x: ({1, 2}, frozenset(["a"]), x + 1), (x23,), {}),
    "a set of tensors": (lambda x: {x + 1}, (x23,), {}),
    "slices": (lambda x: (slice(1, x.shape[0]), slice(None), x * 2), (x23,), {}),
    "grad modes": (without_gradients, (x23,), {}),
    "values and indices": (lambda x: x.sort(1), (x23,), {}),
    "powers and masks": (lambda x: (x ** 3.5 + 2 ** x).masked_fill(x > 2, 0.0), (x23,), {}),
}


def caught(x):
    try:
        raise KeyError("k")
    except KeyError:
        return x + 1


def copied(value):
    if isinstance(value, kt.Tensor):
        return value.clone()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copied, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(copied, value))
    return {key: copied(each) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_as_plain(name):
    function, args, kwargs = PROGRAMS[name]
    if name == "one tensor twice":
        function = lambda a, b: a.clone().add_(b) * 2  # noqa: E731  two inputs
    before = shown(list(args))
    program = export(PROGRAMS[name][0], args, kwargs)
    assert shown(list(args)) == before  # nothing was run
    module = program.module()
    for factor in (1.0, 2.0):
        given = [copied(args), copied(kwargs)]
        for each in given[0]:
            if isinstance(each, kt.Tensor):
                each.mul_(factor)
        ours = [copied(each) for each in given]
        plain = shown(function(*given[0], **given[1]))
        assert shown(module(*ours[0], **ours[1])) == plain
        assert shown(list(ours[0])) == shown(list(given[0]))


def test_the_program_is_readable(capsys):
    n = Dim("n", min=2, max=64)
    program = export(lambda x, w: (x @ w, x), (x23, kt.ones(3, 2)), dynamic_shapes={"x": {0: n}})
    assert [node.op for node in program.graph.nodes] == ["placeholder", "placeholder", "call_function", "output"]
    assert program.input_shapes == {"x": ("n", 3), "w": (3, 2)}
    assert program.range_constraints == {"n": kt.export.ValueRange(2, 64)}
    assert program.graph_signature.user_inputs == ("x", "w") and len(program.graph_signature.user_outputs) == 2
    assert program.example_inputs == ((program.example_inputs[0][0], program.example_inputs[0][1]), {})
    text = str(program)
    for part in ("def forward(x, w)", "@", "x: USER_INPUT", "[2, 64]", "('n', 3)"):
        assert part in text
    program.graph.print_tabular()
    assert "call_function" in capsys.readouterr().out
    assert "return" in program.module().print_readable(False)
    with pytest.raises(RuntimeError, match="module()"):
        program(x23)


def test_tensors_of_outside_are_held_and_named():
    program = export(layer, (x23,))
    (name, weight), = program.state_dict.items()
    assert weight is layer.weight and name == "weight"
    assert program.graph_signature.input_specs[0].target == name
    program = export(lambda x: x * SCALE, (kt.ones(2),))
    assert list(program.state_dict.values()) == [SCALE]


class Net(kt.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = kt.nn.Linear(3, 4), kt.nn.Linear(4, 2)
        self.register_buffer("shift", kt.ones(2))

    def forward(self, x, scale=2):
        return self.second(kt.relu(self.first(x))) * scale + self.shift


def test_modules():
    net = Net()
    program = export(net, (x23,), {"scale": 3}, dynamic_shapes={"x": {0: "n"}})
    assert program.graph_signature.parameters == ("first.weight", "first.bias", "second.weight", "second.bias")
    assert [(spec.kind, spec.arg, spec.target) for spec in program.graph_signature.input_specs[-2:]] == [
        ("BUFFER", "b_shift", "shift"), ("USER_INPUT", "x", None)]
    for n in (1, 2, 7):
        x = kt.rand(n, 3)
        assert shown(program.module()(x, scale=3)) == shown(net(x, 3))


def test_registered_classes_among_the_arguments():
    def f(p, k):
        return [p.a * k + p.b, p.tag]

    module = export(f, (Point(x23, kt.ones(3), "t"), 2), dynamic_shapes=([{0: "n"}, None], None)).module()
    assert shown(module(Point(kt.ones(1, 3), kt.ones(3), "t"), 2)) == ("list", [shown(kt.ones(1, 3) * 3), "t"])
    for wrong in (Point(x23, kt.ones(3), "u"), (x23, kt.ones(3))):
        with pytest.raises(RuntimeError, match="a Point of 2 parts and the context 't'"):
            module(wrong, 2)


def test_dynamic_sizes():
    n = Dim("n", max=8)
    module = export(sizes, (x23, kt.ones(4)), dynamic_shapes=({0: n, 1: Dim.DYNAMIC}, None)).module()
    for rows, columns in ((2, 3), (5, 2), (8, 1), (0, 4)):
        x = kt.ones(rows, columns)
        assert shown(module(x, kt.ones(4))) == shown(sizes(x, kt.ones(4)))
    both = export(lambda a, b: a + b, (kt.ones(3), kt.ones(3)), dynamic_shapes=([n], ["n"] if False else [n])).module()
    assert both(kt.ones(5), kt.ones(5)).tolist() == [2.0] * 5
    with pytest.raises(RuntimeError, match=r"b.shape\[0\] to be equal to 5, as n is elsewhere, but got 1"):
        both(kt.ones(5), kt.ones(1))
    with pytest.raises(RuntimeError, match=r"a.shape\[0\] to be in \[0, 8\], the range of n, but got 9"):
        both(kt.ones(9), kt.ones(9))
    # A static size of a tensor with a dynamic one is a constant.
    branch = export(lambda x: x + 1 if x.shape[1] == 3 else x, (x23,), dynamic_shapes=({0: "rows"},)).module()
    assert branch(kt.ones(4, 3)).tolist() == [[2.0] * 3] * 4


def text_of_sizes(x):
    n, m = x.shape
    return x.shape, x.size(), f"{n} by {m}", str(n), n ** 2, m ** 0.5, x.reshape(n * m) * n ** 2, n & 6, n % 2.5


def math_of_sizes(x):
    n, m = x.shape
    f, g = n / 7, m * 0.125
    return (math.sqrt(n), math.sin(f), math.atan2(f, g), math.hypot(f, g), math.degrees(f), math.log2(n), math.fmod(n, 1.5), math.copysign(f, -g),
            f ** g, f // 0.25, f % 0.25, math.exp(f), math.tanh(g), math.radians(n), math.log10(m), math.floor(f), math.ceil(g), round(f), int(f),
            n * math.pi, x * math.cos(f))


def rows(x):
    total = 0
    for row in x:
        total = total + row
    return total


def test_texts_and_powers_of_sizes():
    module = export(text_of_sizes, (x23,), dynamic_shapes=({0: "n", 1: "m"},)).module()
    for n, m in ((2, 3), (7, 4), (1, 1)):
        x = kt.ones(n, m)
        assert shown(module(x)) == shown(text_of_sizes(x))
    module = export(math_of_sizes, (x23,), dynamic_shapes=({0: "n", 1: "m"},)).module()
    for n, m in ((2, 3), (7, 4), (1, 1)):
        x = kt.ones(n, m)
        assert shown(module(x)) == shown(math_of_sizes(x))
    with pytest.raises(exc.ConstraintViolationError, match="(?s)iterates over x, whose first size.*rows"):
        export(rows, (x23,), dynamic_shapes=({0: "n"},))
    module = export(rows, (x23,), dynamic_shapes=({1: "m"},)).module()
    assert module(kt.ones(2, 5)).tolist() == [2.0] * 5


def test_containers_in_two_places():
    def f(x):
        a, b = [x + 1], {"k": 2}
        return a, (a, b), b, Point(a, x, b), {1: a}

    a, (again, b), same, point, table = export(f, (x23,)).module()(x23)
    assert again is a and same is b and point.a is a and point.tag is b and table[1] is a
    assert shown([a, b, point]) == shown([[x23 + 1], {"k": 2}, Point([x23 + 1], x23, {"k": 2})])
    module = export(f, (x23,)).module()
    assert module(x23)[0] is not module(x23)[0]


def nested(x, depth, wrap):
    for _ in range(depth):
        x = wrap(x)
    return x


def test_deep_results_and_calls():
    for wrap in (lambda x: [x], lambda x: (x, 1), lambda x: Point(x, 1, "t"), lambda x: {"k": x}):
        f = lambda x: nested(x, 40, wrap)  # noqa: E731
        assert shown(export(f, (x23,)).module()(x23)) == shown(f(x23))
        with pytest.raises(exc.UserError, match="nested a few dozen times at most|containers within containers"):
            export(lambda x: nested(x, 120, wrap), (x23,))
    with pytest.raises(exc.UserError, match="containers within containers"):
        export(lambda x: nested(x, 80, lambda x: Point(x, 1, "t")), (x23,))
    again = lambda x, n: x + 1 if n == 0 else again(x * 2, n - 1)  # noqa: E731
    assert export(lambda x: again(x, 30), (x23,)).module()(x23).tolist() == again(x23, 30).tolist()


def test_arguments_that_no_call_could_give_again():
    loop = [x23]
    loop.append((1, {"k": loop}))
    with pytest.raises(exc.UserError, match=r"the argument x\[1\]\[1\]\['k'\] contains itself.*pass its parts"):
        export(lambda x: x[0], (loop,))
    deep = x23
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(exc.UserError, match="the argument x has containers within containers"):
        export(lambda x: 1, (deep,))
    shared = [x23]
    assert export(lambda a: a[0][0] + a[1][0], ((shared, shared),)).module()(([x23], [x23])).tolist() == (x23 * 2).tolist()


def test_floats_among_the_constants():
    module = export(lambda x, k: x * k, (kt.ones(1), math.nan)).module()
    assert math.isnan(module(kt.ones(1), -math.nan).item())
    module = export(lambda x, k: x * k, (kt.ones(1), -0.0)).module()
    assert str(module(kt.ones(1), -0.0).item()) == "-0.0"
    with pytest.raises(RuntimeError, match="the constant -0.0"):
        module(kt.ones(1), 0.0)


def test_flags_of_gradients_that_were_looked_at():
    def f(x, y):
        return x + 1 if x.requires_grad else x - y

    plain, flagged = kt.ones(2), kt.ones(2).requires_grad_()
    module = export(f, (plain, plain)).module()
    assert module(plain, plain).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="input x to have requires_grad=False, which the exported function looked at, but got"):
        module(flagged, plain)
    assert export(lambda x: x + 1, (plain,)).module()(flagged).requires_grad
    fails = export(lambda x, i: without_gradients(x[i])[0], (x23.clone().requires_grad_(), kt.tensor([1]))).module()
    assert not fails(x23.clone().requires_grad_(), kt.tensor([0])).requires_grad


def test_an_error_leaves_the_grad_mode():
    def f(x, i):
        with kt.no_grad():
            return x[i] + 1

    module = export(f, (x23, kt.tensor([1]))).module()
    with pytest.raises(IndexError):
        module(x23, kt.tensor([5]))
    assert kt.is_grad_enabled()


def test_other_inputs_are_refused():
    program = export(structured, ((x23, 1), {"b": [x23]}), {"k": 3}).module()
    wrong = {
        r"sizes \(2, 3\), called with \(3, 3\)": (((kt.ones(3, 3), 1), {"b": [x23]}), {"k": 3}),
        r"float64": (((x23.double(), 1), {"b": [x23]}), {"k": 3}),
        r"sizes \(6,\)": (((x23.reshape(6), 1), {"b": [x23]}), {"k": 3}),
        r"constant 1 .* not 2": (((x23, 2), {"b": [x23]}), {"k": 3}),
        r"constant 1 .* not True": (((x23, True), {"b": [x23]}), {"k": 3}),
        r"constant 3 .* not 4": (((x23, 1), {"b": [x23]}), {"k": 4}),
        r"a dict of 1 .*\['b'\]": (((x23, 1), {"c": [x23]}), {"k": 3}),
        r"a list of 1": (((x23, 1), {"b": (x23,)}), {"k": 3}),
        r"was a tensor": (((1.0, 1), {"b": [x23]}), {"k": 3}),
        r"parts|dict": (((x23, 1), {"b": [x23]}), {}),
    }
    for text, (args, kwargs) in wrong.items():
        with pytest.raises(RuntimeError, match=text):
            program(*args, **kwargs)
    with pytest.raises(TypeError, match="do not fit"):
        program()


class Thing:
    pass


things = []
off = kt.compiler.disable(lambda x: x)


def grows(x):
    things.append(1)
    return x + 1


def sets(x):
    layer.scale = 3
    return x


def by_data(x):
    return x + 1 if x.sum().item() > 3 else x


def within_itself(x):
    things = [x]
    things.append(things)
    return {"k": (things,)}


REFUSED = {
    "a break": (lambda x: (dynamo.graph_break("why"), x)[1], exc.Unsupported, "graph_break.*why.*from user code"),
    "a disabled function": (lambda x: off(x), exc.Unsupported, "disable"),
    "print": (lambda x: (print(x), x)[1], exc.Unsupported, "print|builtin"),
    "a branch on a tensor": (lambda x: 1 if x.sum() > 0 else 2, exc.Unsupported, "Data-dependent branching"),
    "a branch on a tensor's number": (by_data, exc.UserError, "data-dependent expression.*cond.*by_data"),
    "an exception": (lambda x: {}["k"], exc.Unsupported, "Observed exception"),
    "a list of outside": (grows, exc.UserError, "changes an object outside.*grows"),
    "an attribute of outside": (sets, exc.UserError, "changes an object outside.*sets"),
    "an object as result": (lambda x: Thing(), exc.UserError, "answers an object"),
    "a function as result": (lambda x: lambda: x, exc.UserError, "answers an object"),
    "an iterator": (lambda x: iter([x]), exc.UserError, "answers an object"),
    "a list within itself": (within_itself, exc.UserError, "contains itself"),
    "another grad mode": (lambda x: (kt.set_grad_enabled(False), x)[1], exc.UserError, "grad mode"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, error, text = REFUSED[name]
    for strict in (True, False):
        with pytest.raises(error, match=f"(?s){text}"):
            export(function, (x23,), strict=strict)
    assert things == [] and layer.scale == 2


def walks(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def doubles(x):
    n = x.shape[0]
    for _ in range(40):
        n = n + n if n is not None else 0
    return x if n > 3 else x + 1


CONSTRAINTS = {
    "a comparison of what is made in many ways": (doubles, {0: "n"}, exc.ConstraintViolationError, r"depends on x.shape\[0\], which"),
    "a comparison of a power": (lambda x: x if x.shape[0] ** 2 > 3 else x + 1, {0: "n"}, exc.ConstraintViolationError, r"x.shape\[0\]"),
    "a comparison": (lambda x: x + 1 if x.shape[0] > 5 else x, {0: "n"}, exc.ConstraintViolationError, r"x.shape\[0\].*dynamic_shapes"),
    "a comparison of a sum": (lambda x: x + 1 if x.shape[0] * 2 > x.shape[1] else x, {0: "n", 1: "m"}, exc.ConstraintViolationError,
                              r"x.shape\[0\], x.shape\[1\]"),
    "a loop": (walks, {0: "n"}, exc.UserError, "loop is too long.*walks"),
    "out of range": (lambda x: x, {0: Dim("n", max=1)}, exc.ConstraintViolationError, r"x.shape\[0\] is 2 .*\[0, 1\]"),
    "two sizes of one name": (lambda x: x, {0: Dim("n"), 1: Dim("n")}, exc.UserError, "two Dims"),
    "unequal": (lambda x: x, {0: "n", 1: "n"}, exc.ConstraintViolationError, "n is 2 and 3"),
    "no such dimension": (lambda x: x, {2: "n"}, exc.UserError, "dimension 2 of x"),
    "no dimension": (lambda x: x, {0: 2.5}, exc.UserError, "2.5"),
    "no tensor": (lambda x: x, 5, exc.UserError, "5"),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    function, shapes, error, text = CONSTRAINTS[name]
    with pytest.raises(error, match=f"(?s){text}"):
        export(function, (x23,), dynamic_shapes={"x": shapes})


def long(x):
    while True:
        x = x + 1


def test_endless_loops_are_refused():
    with pytest.raises(exc.UserError, match="(?s)loop is too long.*long"):
        export(long, (kt.ones(1),))


def test_asserts_are_checks():
    module = export(asserts, (x23,)).module()
    with pytest.raises(AssertionError, match="positive"):
        module(x23 * -5)
    dynamic = export(lambda x: [x * x.sum().item(), check(x)][0], (x23,), dynamic_shapes=({0: "n"},)).module()
    assert dynamic(kt.ones(1, 3)).tolist() == [[3.0] * 3]
    with pytest.raises(AssertionError):
        dynamic(kt.ones(1, 3) * -9)


def test_wrong_arguments():
    with pytest.raises(exc.UserError, match="tuple"):
        export(layer, x23)
    with pytest.raises(exc.UserError, match="callable"):
        export(3, ())
    with pytest.raises(TypeError, match="do not fit"):
        export(in_place, (x23,))
    with pytest.raises(exc.UserError, match="'z'"):
        export(in_place, (x23, x23), dynamic_shapes={"z": None})
    for wrong in (lambda: Dim("not a name"), lambda: Dim("n", min=3, max=2)):
        with pytest.raises(ValueError):
            wrong()
    assert [each.__name__ for each in kt.export.dims("a", "b")] == ["a", "b"]


def test_is_exporting_and_entries_of_its_own(stress):
    def f(x):
        return (x + 1, "export") if kt.compiler.is_exporting() else (x + 2, kt.compiler.is_compiling(), kt.compiler.is_dynamo_compiling())

    def g(x):
        return kt.compiler.is_compiling(), kt.compiler.is_dynamo_compiling(), kt.compiler.is_exporting()

    fast = kt.compile(f)
    for _ in range(2):
        assert stress == "break_everywhere" or fast(kt.ones(1))[1:] == (True, True)
        module = export(f, (kt.ones(1),)).module()
        assert (module(kt.ones(1))[0].tolist(), module(kt.ones(1))[1]) == ([2.0], "export")
        assert export(g, (kt.ones(1),)).module()(kt.ones(1)) == (True, True, True)
    assert f(kt.ones(1))[1:] == (False, False) and not kt.compiler.is_exporting()
    asks = lambda a: a + (5 if kt.compiler.is_exporting() else 7)  # noqa: E731
    both = lambda x: kt.cond(x.sum() > 0, asks, lambda a: a - 1, (x,))  # noqa: E731
    for _ in range(2):
        assert export(both, (kt.ones(1),)).module()(kt.ones(1)).tolist() == [6.0]
        assert kt.compile(both)(kt.ones(1)).tolist() == [8.0]


def test_logs_are_left_out(capsys):
    def note(*things):
        print("note", *things)

    config = dynamo.config
    config.reorderable_logging_functions.add(note)
    try:
        module = export(lambda x: (note("x is", x), x + 1)[1], (kt.ones(1),)).module()
        assert module(kt.ones(1)).tolist() == [2.0] and capsys.readouterr().out == ""
    finally:
        config.reorderable_logging_functions.clear()
    module = export(lambda x: (kt._higher_order_ops.print("{}", x), x + 1)[1], (kt.ones(1),)).module()
    module(kt.ones(1))
    assert capsys.readouterr().out == "tensor([1.])\n"


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile", "fail_on_recompile"])
def test_stances_do_not_matter(stance):
    with kt.compiler.set_stance(stance):
        program = export(lambda x: x + 1, (kt.ones(1),))
    assert program.module()(kt.ones(1)).tolist() == [2.0]


def test_a_program_outlives_what_it_came_from():
    import gc
    import linecache
    import weakref

    class Owner:
        def __init__(self):
            self.weight = kt.ones(2) * 3

        def __call__(self, x):
            return x * self.weight

    owner, x = Owner(), kt.ones(2)
    gone = weakref.ref(owner)
    module = export(owner, (x,)).module()
    del owner
    assert module(x).tolist() == [3.0, 3.0]
    source = module._program.graph_module.forward.__code__.co_filename
    assert source in linecache.cache
    del module
    gc.collect()
    assert gone() is None and source not in linecache.cache


def test_a_number_of_thousands_of_steps():
    """On a small C stack."""
    space, answers = {}, []
    exec("def f(x):\n n = x.shape[0]\n" + " n = n + 1\n" * 2500 + " return x + n", space)

    def work():
        program = kt.export.export(space["f"], (kt.ones(3),), dynamic_shapes=({0: kt.export.Dim("n")},))
        answers.append(program.module()(kt.ones(4)).tolist())

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert answers == [[2505.0] * 4]
