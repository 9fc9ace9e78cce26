"""compile()'s backends: who gets which graph, the graph object, what a backend answers; compile's own parameters."""
import gc
import pickle
import sys
import warnings
import weakref

import pytest

import kintsugi as kt

dynamo = kt._dynamo
native = dynamo.utils.counters["native"]


@pytest.fixture(autouse=True)
def fresh(stress, request):
    if stress == "break_everywhere" and "gives_what_plain_gives" not in request.node.name:
        pytest.skip("nothing is traced")
    dynamo.reset()


class Keeps:
    """A backend that answers code of its own around the graph's."""

    def __init__(self, wrap=None):
        self.graphs, self.calls, self.wrap = [], 0, wrap

    def __call__(self, graph, inputs):
        self.graphs.append(graph)

        def run(*args):
            self.calls += 1
            out = graph.forward(*args)
            return self.wrap(out) if self.wrap else out

        return run


def several(x, n):
    y = x * 2 + n
    z = y.sum(0) @ x
    y.add_(1.0)
    w = x.reshape(-1)[:x.shape[0]] + z
    return [w, kt.cat([y.sum(0), w]), -y, n + 1, y.T, y > 2, kt.where(y > 2, y, x)]


def shown(value):
    if isinstance(value, kt.Tensor):
        return value.dtype, tuple(value.shape), value.tolist()
    return [shown(each) for each in value] if isinstance(value, (list, tuple)) else value


def effects(x, log):
    y = x + 1
    log.append(y)
    y.mul_(3)
    log.append(y.sum())
    x.add_(y)
    dynamo.graph_break()
    for i in range(12):
        x = x + i
    if x.sum() > 0:
        return x - 1, len(log)
    return x


def inside(x):
    def scale(t):
        dynamo.graph_break()
        return t * 2
    try:
        y = scale(x + 1)
        return y[5]
    except IndexError:
        return scale(y) - 1


PROGRAMS = [(several, lambda: (kt.ones(2, 2), 3)), (several, lambda: (kt.ones(3, 3), 4)),
            (several, lambda: (kt.ones(4, 4), 5)), (effects, lambda: (kt.ones(3), [])), (inside, lambda: (kt.ones(3),))]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "kintsugi", "keeps", "forward"])
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_every_backend_gives_what_plain_gives(backend, dynamic, stress):
    made = {"keeps": Keeps(), "forward": dynamo.testing.CompileCounter()}.get(backend, backend)
    fast = {f: kt.compile(f, backend=made, dynamic=dynamic) for f, _ in PROGRAMS}
    for _ in range(2):
        for f, arguments in PROGRAMS:
            plain, compiled = arguments(), arguments()
            assert shown(fast[f](*compiled)) == shown(f(*plain))
            assert shown(compiled) == shown(plain)
    if backend == "keeps" and stress != "break_everywhere":
        assert made.calls > 0


def test_forward_means_the_segments_own_kernels(stress):
    cnt = dynamo.testing.CompileCounter()
    fast = kt.compile(lambda x: (x * 2 + 1).sum(), backend=cnt)
    fast(kt.ones(3))
    before = native["kernels"]
    for _ in range(10):
        assert fast(kt.ones(3)).item() == 9.0
    assert native["kernels"] - before >= 10
    if not stress:
        assert (cnt.frame_count, cnt.op_count) == (1, 3)


def test_the_graph_object(capsys, stress):
    if stress:
        pytest.skip("graphs are cut elsewhere")
    seen = []

    def backend(graph, inputs):
        seen.append((graph, inputs))
        return graph.forward

    kt.compile(lambda x, k: kt.cat([x.reshape(2, 2), x[None] @ x.reshape(4, 1) * k]) if False else (x.sum(0, keepdim=True) * k - 1.5),
               backend=backend)(kt.ones(4), 3)
    graph, inputs = seen[0]
    nodes = graph.graph.nodes
    assert [node.op for node in nodes] == ["placeholder", "call_method", "call_function", "call_function", "output"]
    assert [node.name for node in nodes] == ["x", "sum", "mul", "sub", "output"]
    assert nodes[1].target == "sum" and nodes[1].args == (nodes[0], 0) and nodes[1].kwargs == {"keepdim": True}
    assert nodes[2].args == (nodes[1], 3) and nodes[3].shape == (1,) and nodes[3].dtype is kt.float32
    assert len(inputs) == 1 and isinstance(inputs[0], kt.Tensor)
    assert "sub = mul - 1.5" in graph.code and "x.sum(0, keepdim=True)" in graph.code
    assert graph(kt.ones(4))[0].tolist() == graph.forward(kt.ones(4))[0].tolist() == [10.5]
    graph.graph.print_tabular()
    assert "call_method" in capsys.readouterr().out and "call_function[target=operator.sub]" in str(graph.graph)
    assert "def forward(x):" in repr(graph)


WRONG = {
    "not a tuple": lambda out: 3, "too few": lambda out: (), "a number": lambda out: (1.0,),
    "another size": lambda out: (out[0].sum(),), "another dtype": lambda out: (out[0].double(),),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_answers_are_refused(wrong):
    with pytest.raises(RuntimeError, match="made"):
        kt.compile(lambda x: x + 1, backend=Keeps(WRONG[wrong]))(kt.ones(3))


def test_answers_that_lie_otherwise_in_memory():
    wrap = lambda out: [out[0].T.contiguous().T]  # noqa: E731
    assert kt.compile(lambda x: x + 1, backend=Keeps(wrap))(kt.ones(2, 3)).tolist() == [[2.0] * 3] * 2


def test_exceptions_of_compiled_code():
    def fails(out):
        raise KeyError("gone")

    def f(x):
        try:
            return x + 1
        except KeyError:
            return x

    with pytest.raises(KeyError, match="gone"):
        kt.compile(lambda x: x + 1, backend=Keeps(fails))(kt.ones(3))


def test_backend_failures():
    def bad(graph, inputs):
        raise ValueError("no thanks")

    for backend, inner in ((bad, ValueError), (lambda graph, inputs: 3, TypeError)):
        fast = kt.compile(lambda x: x + 1, backend=backend)
        for _ in range(2):
            with pytest.raises(dynamo.exc.BackendCompilerFailed) as told:
                fast(kt.ones(2))
            assert isinstance(told.value.inner_exception, inner) and told.value.backend_name in str(told.value)
        with dynamo.config.patch(suppress_errors=True):
            assert fast(kt.ones(2)).tolist() == [2.0, 2.0]


def test_backends_keep_variants_apart(stress):
    if stress:
        pytest.skip("compiles again")
    a, b = dynamo.testing.CompileCounter(), dynamo.testing.CompileCounter()
    f = lambda x: x + 1  # noqa: E731
    fast_a, fast_b, again = kt.compile(f, backend=a), kt.compile(f, backend=b), kt.compile(f, backend=a)
    for fast in (fast_a, fast_b, again, fast_a):
        fast(kt.ones(2))
    assert (a.frame_count, b.frame_count) == (1, 1)


def test_callees_behind_a_break_use_the_wrappers_backend(stress):
    cnt = dynamo.testing.CompileCounter()

    def callee(x):
        return x * 2

    @kt.compile(backend=cnt)
    def f(x):
        dynamo.skip_frame()
        return callee(x)

    f(kt.ones(1))
    assert cnt.frame_count >= 1


def test_a_backend_dies_with_its_last_wrapper():
    backend = Keeps()
    dead = weakref.ref(backend)
    f = lambda x: x + 1  # noqa: E731
    fast = kt.compile(f, backend=backend)
    assert fast(kt.ones(1)).tolist() == [2.0]
    del backend, fast
    gc.collect()
    assert dead() is None
    assert kt.compile(f)(kt.ones(1)).tolist() == [2.0]


def test_isolated_wrappers(stress):
    if stress:
        pytest.skip("compiles again")
    cnt = dynamo.testing.CompileCounter()
    f = lambda x: x + 1  # noqa: E731
    own = kt.compile(f, backend=cnt, isolate_recompiles=True)
    other = kt.compile(f, backend=cnt, isolate_recompiles=True)
    own(kt.ones(2)), other(kt.ones(2)), own(kt.ones(2))
    assert cnt.frame_count == 2
    kt.compile(f, backend=cnt)(kt.ones(2, dtype=kt.float64))
    own(kt.ones(2, dtype=kt.float64))
    assert cnt.frame_count == 3  # the shared variants serve too


def test_recompile_limit_of_a_wrapper(stress):
    if stress:
        pytest.skip("compiles again")
    fast = kt.compile(lambda x: kt.compiler.is_compiling(), dynamic=False, recompile_limit=2)
    g = kt.compile(lambda x: (kt.compiler.is_compiling(), x.sum())[0], dynamic=False, recompile_limit=2)
    assert [g(kt.ones(n)) for n in (2, 3, 4, 5, 2)] == [True, True, False, False, True]
    assert fast(1) is True


def test_a_suppressed_failure_is_remembered(stress):
    if stress:
        pytest.skip("compiles again")
    met = []

    def fails(graph, inputs):
        met.append(len(inputs))
        raise KeyError("no")

    fast = kt.compile(lambda x: (x + 1, kt.compiler.is_compiling()), backend=fails)
    with dynamo.config.patch(suppress_errors=True):
        for n in (2, 3, 2):
            assert fast(kt.ones(n))[0].tolist() == [2.0] * n
        assert len(met) == 1
    for _ in range(2):
        with pytest.raises(dynamo.exc.BackendCompilerFailed):
            fast(kt.ones(2))
    assert len(met) == 3
    dynamo.reset()
    with dynamo.config.patch(suppress_errors=True):
        fast(kt.ones(2))
    assert len(met) == 4


def test_nested_compiles_keep_the_limit(stress):
    if stress:
        pytest.skip("compiles again")
    depth = []

    def nests(graph, inputs):
        if len(depth) < 4:
            depth.append(None)
            fast(kt.ones(len(depth) + 3))
        return graph.forward

    fast = kt.compile(lambda x: (x + 1, kt.compiler.is_compiling()), backend=nests, dynamic=False, recompile_limit=2)
    before = dynamo.utils.counters["native"]["segments"]
    assert fast(kt.ones(2))[0].tolist() == [2.0, 2.0] and len(depth) == 4
    assert [fast(kt.ones(n))[1] for n in range(2, 9)].count(True) == 2
    assert dynamo.utils.counters["native"]["segments"] == before + 2


def test_a_general_segment_takes_the_place_of_others(stress):
    if stress:
        pytest.skip("compiles again")
    kinds = [type(f"Kind{i}", (), {}) for i in range(3)]
    fast = kt.compile(lambda x, kind: (x + 1, kt.compiler.is_compiling(), type(kind).__name__), recompile_limit=4)
    for n in (2, 3):
        assert fast(kt.ones(n), kinds[0]())[1]
    for kind in kinds[1:]:  # what served two elements makes room
        assert fast(kt.ones(4), kind())[1]
    assert fast(kt.ones(5, dtype=kt.float64), kinds[0]())[1]
    assert [fast(kt.ones(n), kind())[1] for n in (2, 6) for kind in kinds] == [True] * 6


def test_registry():
    @dynamo.register_backend
    def mine(graph, inputs):
        return graph.forward

    try:
        assert "mine" in dynamo.list_backends() and dynamo.lookup_backend("mine") is mine
        with pytest.raises(AssertionError, match="duplicate"):
            dynamo.register_backend(mine)
        dynamo.register_backend(name="hidden", tags=("debug",))(mine)
        assert "hidden" not in kt.compiler.list_backends() and "hidden" in kt.compiler.list_backends(None)
        with pytest.raises(dynamo.exc.InvalidBackend, match="eager.*list_backends"):
            kt.compile(lambda x: x, backend="eagre")
        with pytest.raises(dynamo.exc.InvalidBackend):
            kt.compile(lambda x: x, backend=3)
        kt.compiler.set_default_backend("mine")
        assert kt.compiler.get_default_backend() is mine
    finally:
        kt.compiler.set_default_backend(None)
        for name in ("mine", "hidden"):
            dynamo.backends._backends.pop(name, None)
    assert kt.compiler.get_default_backend() == "kintsugi"


def handles_while_it_waits(x):
    try:
        raise ValueError(x * 3)
    except ValueError:
        dynamo.graph_break()
        yield sys.exc_info()[1].args[0] + 1


def test_what_a_generator_handles_at_a_break_is_an_output():
    def f(x):
        for y in handles_while_it_waits(x + 1):
            return y

    x = kt.ones(2)
    keeps = Keeps()
    before = native["fallbacks"]
    fast = kt.compile(f, backend=keeps)
    assert [fast(x).tolist() for _ in range(2)] == [f(x).tolist()] * 2
    assert keeps.calls > 0 and native["fallbacks"] == before


def test_argument_errors_come_at_once():
    f = lambda x: x  # noqa: E731
    with pytest.raises(RuntimeError, match="mode or options"):
        kt.compile(f, mode="default", options={})
    with pytest.raises(RuntimeError, match="mode"):
        kt.compile(f, mode="fastest")
    with pytest.raises(AssertionError):
        kt.compile(3)
    with pytest.raises(ValueError):
        kt.compile(f, recompile_limit=0)
    with dynamo.config.patch(fail_on_recompile_limit_hit=True, suppress_errors=True), pytest.raises(AssertionError):
        kt.compile(f)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert kt.compile(f, backend="eager", mode="default")(1) == 1
    assert len(told) == 1
    assert kt.compile(f, disable=True) is f and kt.compile(disable=True)(f) is f


def named_backend(graph, inputs):
    return graph.forward


def pickled(x):
    return x + 1


def test_pickles_keep_their_backend():
    again = pickle.loads(pickle.dumps(kt.compile(pickled, backend=named_backend)))
    assert again(kt.ones(1)).tolist() == [2.0]


def test_a_kept_graph_keeps_no_arguments():
    keeps = Keeps()
    f = kt.compile(lambda x: x.add_(1) * 2, backend=keeps)
    x = kt.ones(3)
    before = sys.getrefcount(x)
    f(x)
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("values", [[3.5, 1.0], [3, 1], [True, False]], ids=str)
def test_numbers_that_a_backend_answers(values):
    def f(x):
        number = x.amax().item()
        return number + 1, x * number

    def answering(graph, examples):
        return lambda *arguments: graph.forward(*arguments)

    with kt._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = kt.compile(f, backend=answering, fullgraph=True)
        for given in (values, values, values[::-1]):
            number, tensor = compiled(kt.tensor(given))
            assert (number, repr(tensor)) == (f(kt.tensor(given))[0], repr(f(kt.tensor(given))[1]))
