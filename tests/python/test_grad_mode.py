"""requires_grad and grad mode: flags that are kept, propagated and guarded, the same compiled and plain."""
import copy
import pickle
import threading

import pytest

import kintsugi as kt

dynamo = kt._dynamo


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    assert kt.is_grad_enabled()


def leaf(*sizes, **kwargs):
    return kt.ones(*sizes, requires_grad=True, **kwargs)


def flags(value):
    if isinstance(value, (tuple, list)):
        return [flags(each) for each in value]
    if isinstance(value, kt.Tensor):
        return value.requires_grad, value.is_leaf, value.tolist()
    return value


# What an expression gives: of `w`, which requires gradients, and `x`, which does not.
EXPRESSIONS = [
    "w + 1", "x + 1", "w + x", "x * w", "-w", "w.exp()", "w.sum()", "w.mean(0)", "x.sum() + w.sum()", "w @ x", "w.t() @ w",
    "w > 0", "w.argmax()", "w.long()", "w.double()", "w.float()", "w.to(kt.float32)", "w.detach()", "w.detach() + x", "w.data",
    "w[0]", "w[0, 1]", "w[:, ::2]", "w.reshape(-1)", "w.T", "w.T.reshape(-1)", "w.clone()", "w.contiguous()", "kt.cat([w, x])",
    "kt.stack([x, w])", "kt.where(w > 0, w, x)", "kt.zeros_like(w)", "w.requires_grad", "(w + 1).requires_grad", "w.is_leaf",
    "(w * 2).is_leaf", "x.is_leaf", "w.grad is None", "(x + 1, w + 1, w)", "[each * 2 for each in w]", "x.gather(0, w.argmax(0, True))",
    "w.gather(1, kt.zeros((2, 1), dtype=kt.int64))", "w.unfold(0, 2, 1)", "w.amax(1)", "kt.maximum(w, x)", "w ** 2",
]
MODES = ["", "no_grad()", "enable_grad()", "inference_mode()", "inference_mode(False)", "set_grad_enabled(False)", "set_grad_enabled(True)"]


def within(expression, mode):
    space = {"kt": kt}
    body = f"    with kt.{mode}:\n        y = {expression}\n    return y, x + w" if mode else f"    return {expression}"
    exec(f"def f(x, w):\n{body}\n", space)
    return space["f"]


@pytest.mark.parametrize("mode", MODES)
def test_results_carry_the_flag_as_plain_ones_do(mode):
    x, w = kt.ones(2, 2) * 3, leaf(2, 2)
    for expression in EXPRESSIONS:
        plain = within(expression, mode)
        fast = kt.compile(plain, fullgraph=True)
        for _ in range(2):
            assert flags(fast(x, w)) == flags(plain(x, w)), expression
        with kt.no_grad():
            assert flags(fast(x, w)) == flags(plain(x, w)), expression


def test_rule_of_propagation():
    w, x = leaf(2), kt.ones(2)
    assert (w.requires_grad, w.is_leaf, (w + x).requires_grad, (w + x).is_leaf, (x + x).requires_grad) == (True, True, True, False, False)
    assert not w.detach().requires_grad and not (w > 0).requires_grad and w[0].requires_grad
    assert w.grad is None and w.grad_fn is None and (w + 1).grad_fn is None
    with kt.no_grad():
        assert not (w + 1).requires_grad and w.requires_grad and not w[0].requires_grad
        with kt.enable_grad():
            assert (w * w).requires_grad
    assert repr(leaf(2)) == "tensor([1., 1.], requires_grad=True)"


def test_guarded_by_the_one_compare():
    @kt.compile
    def f(x):
        return x.requires_grad, x + 1

    count = lambda: dynamo.utils.counters["native"]["segments"] if False else None  # noqa: E731
    assert f(kt.ones(2))[0] is False and f(leaf(2))[0] is True and f(kt.ones(2))[0] is False
    assert f(leaf(2))[1].requires_grad and not f(kt.ones(2))[1].requires_grad
    assert count() is None


@pytest.mark.parametrize("dynamic", [None, True])
def test_dynamic_sizes_keep_the_flag(dynamic):
    f = kt.compile(lambda x, w: (x * w + 1, w.sum()), dynamic=dynamic)
    for size in (2, 3, 5, 7):
        for made in (leaf, kt.ones):
            for enabled in (True, False):
                with kt.set_grad_enabled(enabled):
                    a, b = f(kt.ones(size), made(size))
                assert a.requires_grad == b.requires_grad == (enabled and made is leaf)


def test_modes_nest_and_end_with_exceptions():
    seen = []

    def f(x):
        try:
            with kt.no_grad():
                with kt.enable_grad():
                    seen.append(kt.is_grad_enabled())
                seen.append(kt.is_grad_enabled())
                raise ValueError("out")
        except ValueError:
            seen.append(kt.is_grad_enabled())
        return x + 1

    for each in (f, kt.compile(f), kt.compile(f, fullgraph=True)):
        seen.clear()
        each(leaf(2))
        assert seen == [True, False, True]
        with kt.no_grad():
            seen.clear()
            each(leaf(2))
            assert seen == [True, False, False]


def test_decorators():
    @kt.no_grad()
    def a(w):
        return w + 1, kt.is_grad_enabled()

    @kt.no_grad
    def b(w):
        return w + 1, kt.is_grad_enabled()

    @kt.inference_mode
    def c(w):
        return w + 1, kt.is_inference_mode_enabled()

    @kt.set_grad_enabled(False)
    def d(w):
        return w + 1, kt.is_grad_enabled()

    assert kt.is_grad_enabled()
    for function, answer in ((a, False), (b, False), (c, True), (d, False)):
        assert function.__name__ in "abcd"
        for each in (function, kt.compile(function, fullgraph=True), kt.compile(lambda w, f=function: f(w), fullgraph=True)):
            made, said = each(leaf(2))
            assert not made.requires_grad and said is answer and kt.is_grad_enabled()


def test_set_grad_enabled_as_a_call_stays():
    def f(x):
        kt.set_grad_enabled(False)
        return x + 1

    for each in (f, kt.compile(f, fullgraph=True)):
        try:
            assert not each(leaf(2)).requires_grad
            assert not kt.is_grad_enabled()
        finally:
            kt.set_grad_enabled(True)


def test_a_break_inside_keeps_the_mode():
    seen = []

    @kt.compiler.disable
    def peek():
        seen.append(kt.is_grad_enabled())

    @kt.compile
    def f(x):
        with kt.no_grad():
            y = x + 1
            peek()
            z = x + 2
        return y, z, x + 3

    for _ in range(3):
        assert [each.requires_grad for each in f(leaf(2))] == [False, False, True] and kt.is_grad_enabled()
    assert seen == [False] * 3


def test_each_thread_has_its_own_mode():
    f = kt.compile(lambda w: (w + 1, kt.is_grad_enabled()), fullgraph=True)
    w, answers = leaf(2), []
    begun, done = threading.Event(), threading.Event()

    def other():
        with kt.no_grad():
            for _ in range(3):
                answers.append(f(w)[1])
            begun.set()
            done.wait(10)
            answers.append(f(w)[0].requires_grad)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    assert [f(w)[1] for _ in range(3)] == [True] * 3 and f(w)[0].requires_grad
    done.set()
    thread.join()
    assert answers == [False] * 4 and f(w)[1] is True


# (what is run on a leaf `w` and a plain `x`, error, what its text names)
ERRORS = [
    ("w.add_(1)", RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation."),
    ("w.copy_(x)", RuntimeError, "a leaf Variable that requires grad"),
    ("w.zero_()", RuntimeError, "a leaf Variable that requires grad"),
    ("w.__iadd__(1)", RuntimeError, "a leaf Variable that requires grad"),
    ("w.__setitem__(0, 1.0)", RuntimeError, "a view of a leaf Variable that requires grad is being used in an in-place operation."),
    ("w[0].add_(1)", RuntimeError, "a view of a leaf Variable that requires grad"),
    ("w.reshape(-1)[1:].fill_(2)", RuntimeError, "a view of a leaf Variable that requires grad"),
    ("w.numpy()", RuntimeError, "Use tensor.detach().numpy() instead"),
    ("(w + 1).numpy()", RuntimeError, "requires grad"),
    ("w.sum().backward()", NotImplementedError, "derivatives are not there yet"),
    ("x.sum().backward()", RuntimeError, "does not require grad"),
    ("(w + 1).requires_grad_(False)", RuntimeError, "you can only change requires_grad flags of leaf variables"),
    ("x.long().requires_grad_()", RuntimeError, "floating point"),
    ("kt.ones(2, dtype=kt.int64, requires_grad=True)", RuntimeError, "floating point"),
    ("kt.tensor([1, 2], requires_grad=True)", RuntimeError, "floating point"),
    ("__import__('copy').deepcopy(w + 1)", RuntimeError, "graph leaves"),
    ("x.retain_grad()", RuntimeError, "requires_grad=False"),
    ("setattr(w, 'requires_grad', 1)", RuntimeError, "must be a bool"),
]


@pytest.mark.parametrize("source, error, text", ERRORS, ids=[row[0] for row in ERRORS])
def test_errors(source, error, text):
    plain = eval(f"lambda kt, x, w: {source}")
    for f in (plain, kt.compile(plain)):
        x, w = kt.zeros(2, 2), leaf(2, 2)
        for _ in range(2):
            with pytest.raises(error, match=text.replace("(", r"\(").replace(")", r"\)")):
                f(kt, x, w)
        assert w.tolist() == [[1, 1], [1, 1]] and w.requires_grad and w.is_leaf


def test_in_place_where_it_is_allowed():
    def f(x, w):
        y = w * 2
        y.add_(1)
        y[0] = 5.0
        with kt.no_grad():
            w.add_(1)
            w[0] = 7.0
        x += w
        x[1] = 0.0
        return y, x

    for each in (f, kt.compile(f)):
        for _ in range(2):
            x, w = kt.ones(2), leaf(2)
            assert flags(each(x, w)) == [(True, False, [5.0, 3.0]), (True, False, [8.0, 0.0])]
            assert x.requires_grad and not x.is_leaf and w.is_leaf and w.tolist() == [7, 2]


def test_changing_the_flag():
    def f(x):
        x.requires_grad_()
        y = x + 1
        x.requires_grad = False
        return y, x + 1, x

    for each in (f, kt.compile(f)):
        for _ in range(3):
            assert [made.requires_grad for made in each(kt.ones(2))] == [True, False, False]


def test_created_inside():
    f = kt.compile(lambda: kt.ones(2, requires_grad=True) + 1)
    for _ in range(2):
        assert f().requires_grad


def test_copies_and_pickles():
    w = leaf(2, 3)
    for other in (copy.deepcopy(w), pickle.loads(pickle.dumps(w)), copy.copy(w)):
        assert other.requires_grad and other.is_leaf and other.tolist() == w.tolist()
    p = kt.nn.Parameter(kt.ones(2))
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert isinstance(other, kt.nn.Parameter) and other.requires_grad


def test_backends_see_the_flag_and_answers_get_it(stress):
    seen = []

    def numbers(graph, inputs):
        seen.append([(each.requires_grad, each.is_leaf) for each in inputs])
        return lambda *args: [kt.tensor(each.tolist()) for each in graph(*args)]

    def f(x, w):
        with kt.no_grad():
            y = x * w
        return y, x * w, x + 1

    for backend in (numbers, "eager", lambda graph, inputs: graph.forward):
        dynamo.reset()
        fast = kt.compile(f, backend=backend)
        for _ in range(2):
            assert flags(fast(kt.ones(2), leaf(2))) == flags(f(kt.ones(2), leaf(2)))
    assert stress == "break_everywhere" or seen[0] == [(False, True), (True, True)]


def test_opaque_calls_are_shown_the_flag():
    @dynamo.allow_in_graph
    def opaque(x, w):
        return x * w

    f = kt.compile(lambda x, w: (opaque(x, w), opaque(x, x)), fullgraph=True)
    for _ in range(2):
        assert [made.requires_grad for made in f(kt.ones(2), leaf(2))] == [True, False]
        with kt.no_grad():
            assert [made.requires_grad for made in f(kt.ones(2), leaf(2))] == [False, False]


def test_cond_keeps_the_flag():
    f = kt.compile(lambda x, w: kt.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a + b, (x, w)), fullgraph=True)
    for x in (kt.ones(2), -kt.ones(2)):
        assert f(x, leaf(2)).requires_grad and not f(x, x).requires_grad
