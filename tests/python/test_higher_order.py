"""cond, print in the graph, scalars that stay in the graph, custom operators."""
import pytest

import kintsugi as kt
from comparing import STRESS

dynamo = kt._dynamo
exc = dynamo.exc


@pytest.fixture(autouse=True)
def fresh(stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    dynamo.reset()


# ---- cond ----------------------------------------------------------------------------------------------------------


def chosen(x, k):
    y = x * 2
    z = kt.cond(y.sum() > 4, lambda a: {"r": (a + k, a.sum())}, lambda a: {"r": (a - y, a.amax())}, (x,))
    return z["r"][0] * 3, z["r"][1]


def nested(x):
    def yes(a):
        return kt.cond(a.amax() > 3, lambda a: a * 10, lambda a: a * 100, [a])
    return kt.cond(pred=x.sum() > 0, true_fn=yes, false_fn=kt.neg, operands=(x + 1,)) + 1


def numbers(x):
    n, y = kt.cond(x.sum() > 0, lambda x: (1, x + 1), lambda x: (2, x - 1), (x,))
    return y * n


@pytest.mark.parametrize("program", [lambda x: chosen(x, 3), nested, numbers], ids=["chosen", "nested", "numbers"])
@pytest.mark.parametrize("backend", [None, "eager"])
def test_both_branches_are_in_one_graph(program, backend):
    fast = kt.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        for value in (1.0, -1.0, 5.0):
            x = kt.ones(3) * value
            shown = lambda y: [each.tolist() for each in y] if isinstance(y, tuple) else y.tolist()  # noqa: E731
            assert shown(fast(x)) == shown(program(x))


def test_neither_value_compiles_again(stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(nested, backend=cnt)
    for value in (1.0, -1.0, 5.0):
        fast(kt.ones(3) * value)
    assert cnt.frame_count == 1


bag = []


def appends(x):
    bag.append(1)
    return x + 1


def breaks(x):
    print("never")
    return x + 1


REFUSED = {
    "differing structure": lambda x: kt.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: x + 1, (x,)),
    "differing sizes": lambda x: kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sum(), (x,)),
    "differing dtype": lambda x: kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.double(), (x,)),
    "aliasing": lambda x: kt.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,)),
    "a constant": lambda x: kt.cond(x.sum() > 0, lambda x: "a", lambda x: "a", (x,)),
    "an int of more than 64 bits": lambda x: kt.cond(x.sum() > 0, lambda x: 1 << 70, lambda x: 1 << 71, (x,)),
    "a side effect": lambda x: kt.cond(x.sum() > 0, appends, lambda x: x + 1, (x,)),
    "an operand changed": lambda x: kt.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x + 1, (x,)),
    "a break": lambda x: kt.cond(x.sum() > 0, breaks, lambda x: x + 1, (x,)),
    "an exception": lambda x: kt.cond(x.sum() > 0, lambda x: {}["k"], lambda x: x + 1, (x,)),
    "operands": lambda x: kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, x),
    "predicate": lambda x: kt.cond("yes", lambda x: x + 1, lambda x: x - 1, (x,)),
    "predicate of several": lambda x: kt.cond(x > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("full", [False, True])
def test_what_cannot_be_captured_is_an_error(name, full, capsys):
    with pytest.raises(exc.UncapturedHigherOrderOpError, match="cond|HOP"):
        with dynamo.error_on_graph_break(False):
            kt.compile(REFUSED[name], fullgraph=full)(kt.ones(3))
    assert bag == [] and capsys.readouterr().out == ""


@pytest.mark.parametrize("name, words", [("a side effect", "(?s)Unsafe side effect.*in appends"),
                                         ("an operand changed", "(?s)input mutation.*in <lambda>")])
def test_effects_of_branches_say_where(name, words):
    with pytest.raises(exc.UncapturedHigherOrderOpError, match=words):
        kt.compile(REFUSED[name])(kt.ones(3))


def test_a_python_predicate_picks_a_branch():
    fast = kt.compile(lambda x, n: kt.cond(n > 2, lambda x: x + 1, lambda x: x - 1, (x,)), fullgraph=True)
    with pytest.warns(UserWarning, match="specializes"):
        assert [fast(kt.ones(1), n).tolist() for n in (1, 3, 5)] == [[0.0], [2.0], [2.0]]


PLAIN_ERRORS = [("yes", lambda x: x, (kt.ones(1),)), (kt.ones(2) > 0, lambda x: x, (kt.ones(1),)), (True, 3, (kt.ones(1),)),
                (True, lambda x: x, kt.ones(1)), (True, lambda x: x, ("text",))]


@pytest.mark.parametrize("pred, branch, operands", PLAIN_ERRORS)
def test_errors_of_plain_calls(pred, branch, operands):
    with pytest.raises(RuntimeError):
        kt.cond(pred, branch, branch, operands)


# ---- print ---------------------------------------------------------------------------------------------------------


def test_print_is_an_operation(capsys):
    @kt.compile(fullgraph=True)
    def f(x):
        y = x + 1
        kt._higher_order_ops.print("y={} {k}", y, k=3)
        y.add_(5)
        kt._higher_order_ops.print("end")
        return y

    for _ in range(2):
        assert f(kt.zeros(1)).tolist() == [6.0]
    assert capsys.readouterr().out == "y=tensor([1.]) 3\nend\n" * 2
    with pytest.raises(AssertionError):
        kt._higher_order_ops.print(3)
    with pytest.raises(IndexError):
        kt.compile(lambda x: (kt._higher_order_ops.print("{} {}", 1), x + 1))(kt.ones(1))


# ---- Scalars -------------------------------------------------------------------------------------------------------


def reads(x):
    a, b = x.sum().item(), int(x[0])
    flag = (x.sum() > 3).item()
    return x * a + b, a, b, flag, float(x[1]) // 2, a + b * 2


def branches(x):
    n = x.sum().item()
    if n > 3:
        return x + n
    return [x - n, n]


@pytest.mark.parametrize("program", [reads, branches])
def test_scalars_stay_in_the_graph(program, stress):
    def shown(value):
        if isinstance(value, (list, tuple)):
            return [shown(each) for each in value]
        return value.tolist() if isinstance(value, kt.Tensor) else (type(value), value)

    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(program, fullgraph=True)
    with dynamo.config.patch(capture_scalar_outputs=True):
        counted = kt.compile(program, backend=cnt)
        for value in (1.0, 2.5, -3.0, 0.0, 1e30):
            x = kt.ones(2) * value
            try:
                wanted = shown(program(x))
            except Exception as error:
                with pytest.raises(type(error)):
                    counted(x)
                continue
            assert shown(counted(x)) == wanted
            assert shown(fast(x)) == wanted
    if not stress and program is reads:
        assert cnt.frame_count <= 3
    assert dynamo.config.capture_scalar_outputs is False


def test_without_capture_it_breaks(stress):
    cnt = dynamo.testing.CompileCounter()
    kt.compile(lambda x: x * x.sum().item(), backend=cnt)(kt.ones(2))
    assert stress or cnt.frame_count == 2


# ---- Custom operators ----------------------------------------------------------------------------------------------


seen = []


@kt.library.custom_op("tests::scale_", mutates_args=("x",))
def scale_(x: kt.Tensor, by: float = 2.0) -> None:
    seen.append(kt.compiler.is_compiling())
    x.mul_(by)


@scale_.register_fake
def _(x, by=2.0):
    return None


@kt.library.custom_op("tests::parts", mutates_args=())
def parts(x: kt.Tensor, names: list[int]) -> tuple[kt.Tensor, kt.Tensor]:
    return x * names[0], x.sum() + names[1]


@parts.register_fake
def _(x, names):
    return x.clone(), x.sum()


def test_custom_operators_in_program_order():
    @kt.compile(fullgraph=True)
    def f(x):
        y = x + 1
        scale_(y)
        z = y + 1
        scale_(y, by=3.0)
        a, b = kt.ops.tests.parts(y, [2, 5])
        return y, z, a, b

    for _ in range(2):
        assert [each.tolist() for each in f(kt.ones(2))] == [[12.0, 12.0], [5.0, 5.0], [24.0, 24.0], 29.0]
    assert True not in seen


def test_custom_operators_check_what_they_are_given():
    with pytest.raises(ValueError, match="namespace"):
        kt.library.custom_op("short", mutates_args=())(lambda x: x)
    with pytest.raises(ValueError, match="parameter 'x' needs a type"):
        kt.library.custom_op("tests::untyped", mutates_args=())(lambda x: x)

    def untyped_result(x: kt.Tensor):
        return x

    with pytest.raises(ValueError, match="result needs a type"):
        kt.library.custom_op("tests::untyped", untyped_result, mutates_args=())
    with pytest.raises(ValueError, match="no parameter"):
        kt.library.custom_op("tests::wrong", mutates_args=("y",))(parts.__wrapped__)
    with pytest.raises(TypeError):
        kt.library.custom_op("tests::wrong")
    with pytest.raises(AttributeError):
        kt.ops.tests.no_such


def test_results_must_not_share_memory():
    @kt.library.custom_op("tests::same", mutates_args=())
    def same(x: kt.Tensor) -> kt.Tensor:
        return x

    same.register_fake(lambda x: x.clone())
    for call in (same, kt.compile(lambda x: same(x))):
        with pytest.raises(RuntimeError, match="shares memory"):
            call(kt.ones(2))


def test_without_a_fake_rule():
    @kt.library.custom_op("tests::mystery", mutates_args=())
    def mystery(x: kt.Tensor) -> kt.Tensor:
        return x + 10

    assert mystery(kt.ones(1)).tolist() == [11.0]
    for full in (False, True):
        with pytest.raises(exc.TorchRuntimeError, match="register_fake"):
            kt.compile(lambda x: mystery(x), fullgraph=full)(kt.ones(1))
    with kt.compiler.set_stance("force_eager"):
        assert kt.compile(lambda x: mystery(x))(kt.ones(1)).tolist() == [11.0]


def test_disallowed_custom_operators_break():
    dynamo.disallow_in_graph(parts)
    try:
        with pytest.raises(exc.Unsupported, match="disallow_in_graph"):
            kt.compile(lambda x: parts(x, [1, 2])[0], fullgraph=True)(kt.ones(1))
    finally:
        kt.compiler.allow_in_graph(parts)


def test_another_kernel():
    @kt.library.custom_op("tests::kernels", mutates_args=())
    def kernels(x: kt.Tensor) -> kt.Tensor:
        return x + 1

    kernels.register_fake(lambda x: x.clone())
    kernels.register_kernel("cpu")(lambda x: x + 2)
    assert kernels(kt.ones(1)).tolist() == [3.0]
    with kernels.set_kernel_enabled("cpu", False):
        assert kernels(kt.ones(1)).tolist() == [2.0]
    assert kernels(kt.ones(1)).tolist() == [3.0]


@dynamo.nonstrict_trace
def twice(x):
    y, parts = x * 2, [x + 1]
    return y, y, parts, parts


def test_one_object_in_two_places_stays_one():
    def f(x):
        a, b, c, d = twice(x)
        a.add_(1)
        c.append(b * 1)
        return a is b, c is d, len(d), a, b, d

    assert repr(kt.compile(f)(kt.ones(2))) == repr(f(kt.ones(2)))


@pytest.mark.skipif(STRESS == "miss_every_guard", reason="there it is traced anew, and breaks")
def test_one_object_in_two_places_later_is_an_error():
    same = False

    @dynamo.nonstrict_trace
    def pair(x):
        y = x * 2
        return (y, y) if same else (y, x * 2)

    f = kt.compile(lambda x: pair(x))
    assert f(kt.ones(1))[1].tolist() == [2.0]
    same = True
    with pytest.raises(RuntimeError, match="two places"):
        f(kt.ones(1))


# ---- Sizes that change ---------------------------------------------------------------------------------------------


names = {}  # pytest rewrites the assert statements of this file
exec("def asserts(x):\n    assert x.sum() > 0, 'not positive'\n    return x + 1\n", names)


CHANGING = {
    "cond": lambda x: kt.cond(x.sum() > 2, lambda x: x + 1, lambda x: x - 1, (x,)),
    "scalar": lambda x: x + x.sum().item(),
    "int of a tensor": lambda x: x * int(x.sum()),
    "assert": names["asserts"],
    "opaque": lambda x: opaque_step(x) * 2,
    "opaque structure": lambda x: opaque_pair({"a": [x, x * 2]})["b"][0] + 1,
}
opaque_step = kt.compiler.allow_in_graph(lambda x: x + 1)
opaque_pair = kt.compiler.nonstrict_trace(lambda tree: {"b": (tree["a"][0] + tree["a"][1], 3)})


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("backend", [None, "eager"])
def test_sizes_change(name, backend):
    program = CHANGING[name]
    fast = kt.compile(program, fullgraph=True, backend=backend)
    for size in (2, 3, 4, 7, 1):
        assert fast(kt.ones(size)).tolist() == program(kt.ones(size)).tolist()


def test_branches_with_defaults(stress):
    def f(x):
        y, k = x * 2, 3

        def yes(a, b=y, *, c=x, d=2):
            return a + b * k - c * d

        return kt.cond(x.sum() > 0, yes, lambda a, y=y: a - y, (x,))

    fast = kt.compile(f, fullgraph=stress != "break_everywhere")
    for x in (kt.ones(2), kt.ones(2) * -3, kt.ones(2) * 4):
        assert fast(x).tolist() == f(x).tolist()
