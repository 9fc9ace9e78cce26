"""The control surface among programs that mean no good: backends, log handlers, finalisers and marked functions that reset,
replace themselves, change what guards look at, or hand out containers that hold themselves. Nothing here may crash, leak, or
answer anything but what plain Python answers."""
import gc
import logging
import re
import signal
import threading
import warnings
import weakref

import pytest

import kintsugi as kt
from comparing import SANITIZED, runtime

dynamo = kt._dynamo


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    yield
    dynamo.config.reorderable_logging_functions.clear()
    kt.compiler.set_stance("default")


# ---- Containers within themselves ------------------------------------------------------------------------------------------


def list_of_itself():
    made = [1]
    made.append(made)
    return made


def dict_of_itself():
    made = {"a": 1}
    made["b"] = [made]
    return made


def deep_list(depth=20_000):
    made = []
    for _ in range(depth):
        made = [made]
    return made


def deep_tuple():
    made = ()
    for _ in range(20_000):
        made = (made,)
    return made


def deep_dict():
    made = {}
    for _ in range(20_000):
        made = {"a": made}
    return made


def many_times_over():
    made = [1]
    for _ in range(40):
        made = [made, made]
    return made


@dynamo.nonstrict_trace
def not_looked_into(x, value):
    return x * 2


@dynamo.allow_in_graph
def one_node(x, value):
    return x * 3


@dynamo.assume_constant_result
def always(value):
    return 7


def note(value):
    pass


def in_cond(x, value):
    try:
        return kt.cond(x.sum() > 0, lambda x, value: x + 1, lambda x, value: x - 1, (x, value))
    except Exception as error:
        return type(error).__name__


def outcome(f, value):
    try:
        return type(f(value)).__name__,
    except Exception as error:
        return type(error).__name__, str(error)


TAKES = {
    "nonstrict_trace": lambda x, value: not_looked_into(x + 1, value),
    "allow_in_graph": lambda x, value: one_node(x + 1, value),
    "assume_constant_result": lambda x, value: always(value) + x,
    "logged": lambda x, value: (note(value), x + 1)[1],
    "ignored": lambda x, value: (not_noted(value), x + 1)[1],
    "keyword": lambda x, value: not_looked_into(x + 1, value=value),
    "made": lambda x, value: not_looked_into(x, [value, (value,), {"k": value}]),
    "equal": lambda x, value: (x, value == value, value != [x], value is value),
    "text": lambda x, value: (x + 1, bool(value), isinstance(value, list)),
    "copied": lambda x, value: (x + 1, len(list(value)), len(tuple(value))),
    "handed on": lambda x, value: (x + 1, value, [value]),
    "into the graph": lambda x, value: kt.stack([x, x]) + len(value),
    "to the array library": lambda x, value: outcome(kt.stack, value) + outcome(lambda v: x + v, value) + outcome(kt.tensor, value),
    "printed": lambda x, value: (kt._higher_order_ops.print("{:d}", len(value)), x + 1)[1],
}


def not_noted(value):
    pass


@pytest.mark.parametrize("make", [list_of_itself, dict_of_itself, deep_list, deep_tuple, deep_dict, many_times_over])
@pytest.mark.parametrize("backend", [None, "eager"])
@pytest.mark.parametrize("takes", TAKES)
def test_containers_within_themselves(takes, make, backend):
    dynamo.config.reorderable_logging_functions.add(note)
    dynamo.config.ignore_logging_functions.add(not_noted)
    f, value = TAKES[takes], make()
    fast = kt.compile(lambda x: f(x, value), backend=backend)

    def seen(g):
        try:
            return [each.tolist() if isinstance(each, kt.Tensor) else each is value or type(each)
                    for each in (lambda out: out if isinstance(out, tuple) else (out,))(g(kt.ones(3)))]
        except RecursionError:
            return "RecursionError"

    try:
        for _ in range(2):
            assert seen(fast) == seen(lambda x: f(x, value))
    finally:
        dynamo.config.ignore_logging_functions.clear()


@pytest.mark.parametrize("make", [list_of_itself, dict_of_itself, deep_list, many_times_over])
def test_operands_within_themselves(make, stress):
    value = make()
    if stress == "break_everywhere":
        assert kt.cond(True, lambda x, v: x + 1, lambda x, v: x, (kt.ones(1), value)).tolist() == [2.0]
        return
    with pytest.raises(dynamo.exc.UncapturedHigherOrderOpError, match="a deep container"):
        kt.compile(lambda x: kt.cond(x.sum() > 0, lambda x, v: x + 1, lambda x, v: x - 1, (x, value)))(kt.ones(2))


@dynamo.nonstrict_trace
def takes_a_dict(x, value):
    return x * value["k"] + len(value)


def changed_after(x):
    parts = [x, x + 1]
    y = kt.stack(parts)
    parts[0] = y
    read = x.tolist()
    read[0] = 5.0
    table = {"k": x, "j": 1}
    z = takes_a_dict(y, table)
    table["k"], table["new"] = z, 3
    return y, parts, kt.tensor(read), takes_a_dict(z, table), table, takes_a_dict(x, box.table | {"k": 2})


@pytest.mark.parametrize("backend", [None, "eager", lambda graph, inputs: lambda *args: graph(*args)],
                         ids=["none", "eager", "own"])
def test_containers_that_change_after_the_call(backend):
    fast = kt.compile(changed_after, backend=backend)
    for _ in range(3):
        assert repr(fast(kt.ones(2))) == repr(changed_after(kt.ones(2)))


def test_a_real_dict_is_shown_whole(stress):
    seen, table = [], {"k": 3, "more": [1, {"deep": 2}]}

    @dynamo.nonstrict_trace
    def looks(x, value):
        seen.append(repr(value))
        return x * value["k"]

    assert kt.compile(lambda x: looks(x, table), fullgraph=stress != "break_everywhere")(kt.ones(1)).tolist() == [3.0]
    assert set(seen) == {repr(table)}


def test_an_edited_graph_is_what_runs(stress):
    import operator

    def swaps(graph, inputs):
        for node in graph.graph.nodes:
            if node.target is operator.add:
                node.target = operator.sub
        return graph

    fast = kt.compile(lambda x: x + 3, backend=swaps)
    assert fast(kt.ones(1)).tolist() == [-2.0] or stress == "break_everywhere"


# ---- Backends and handlers that pull the ground away ---------------------------------------------------------------------


def test_backend_that_replaces_itself_and_makes_the_trace_begin_again():
    dead = []

    class Backend:
        def __call__(self, graph, inputs):
            kt.compiler.set_stance("default", force_backend="eager")
            gc.collect()
            return lambda *args: graph.forward(*args)

        def __del__(self):
            dead.append(True)

    def f(x, log):
        y = x + 1
        log.append([y.sum(), (y * 2).mean()])
        return [each + y.sum() for each in (x, y * 3)], len(log)

    for g in (f, lambda x, log: (log.append(x + 1), log[-1].sum().item() > 1, log.append(x * 2), x.sum())[-1]):
        log, plain = [], []
        kt.compiler.set_stance("default", force_backend=Backend())
        answer = kt.compile(g)(kt.ones(2), log)
        kt.compiler.set_stance("default")
        wanted = g(kt.ones(2), plain)
        assert repr(answer) == repr(wanted) and repr(log) == repr(plain)
    gc.collect()
    assert len(dead) == 2


@pytest.mark.parametrize("artifact", ["graph_breaks", "guards", "plan", "recompiles", "asm"])
@pytest.mark.parametrize("act", ["reset", "collect", "raise", "compile", "stance", "call itself"])
def test_log_handlers(artifact, act):
    def f(x, n):
        y = x * n
        dynamo.graph_break()
        return y + n

    fast, told = kt.compile(f), []

    class Handler(logging.Handler):
        def emit(self, record):
            told.append(record.getMessage())
            if act == "reset":
                dynamo.reset()
            elif act == "collect":
                gc.collect()
            elif act == "raise":
                raise ValueError
            elif act == "compile":
                kt.compile(lambda x: x - 1)(kt.ones(2))
            elif act == "stance":
                kt.compiler.set_stance(("force_eager", "default", "eager_on_recompile")[len(told) % 3])
            elif len(told) < 40:
                fast(kt.ones(2), len(told))

    handler, logger = Handler(), logging.getLogger(f"kintsugi.__{artifact}")
    logger.addHandler(handler)
    kt._logging.set_logs(**{artifact: True})
    logger.removeHandler(kt._logging._handler)
    try:
        for n in (1, 2, 3, 2.5, True):
            assert fast(kt.ones(3), n).tolist() == f(kt.ones(3), n).tolist()
    finally:
        logger.removeHandler(handler)
        kt._logging.set_logs()


def test_interrupt_in_a_handler_is_not_lost():
    class Handler(logging.Handler):
        def emit(self, record):
            raise KeyboardInterrupt

    handler, logger = Handler(), logging.getLogger("kintsugi.__guards")
    logger.addHandler(handler)
    kt._logging.set_logs(guards=True)
    logger.removeHandler(kt._logging._handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            kt.compile(lambda x: x + 1)(kt.ones(2))
            for _ in range(1000):
                pass
    finally:
        logger.removeHandler(handler)
        kt._logging.set_logs()


def test_interrupts_stay_in_their_thread_and_run_no_handler_again(monkeypatch, stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    handled, met = [], []
    before = signal.signal(signal.SIGINT, lambda *_: handled.append(threading.current_thread()))

    def interrupted(*args, **named):
        raise KeyboardInterrupt

    def work():
        fast = kt.compile(lambda x: x + len(re.compile("a pattern of its own").pattern))
        with monkeypatch.context() as patched:
            patched.setattr(re._compiler, "compile", interrupted)
            re.purge()
            try:
                fast(kt.ones(1))
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                met.append("folded")
        met.append(fast(kt.ones(1)).tolist())

        class Handler(logging.Handler):
            emit = interrupted

        handler, logger = Handler(), logging.getLogger("kintsugi.__guards")
        kt._logging.set_logs(guards=True)
        logger.addHandler(handler)
        logger.removeHandler(kt._logging._handler)
        try:
            kt.compile(lambda x: x + 1)(kt.ones(2))
            for _ in range(1000):
                pass
        except KeyboardInterrupt:
            met.append("handler")
        finally:
            logger.removeHandler(handler)
            kt._logging.set_logs()

    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert met == ["folded", [21.0], "handler"] and handled == []
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("act", ["reset", "drop", "compile", "collect"])
def test_finaliser_of_what_a_backend_answered(act, stress):
    ended = []

    class Answer:
        def __init__(self, graph):
            self.graph = graph

        def __call__(self, *args):
            return self.graph.forward(*args)

        def __del__(self):
            ended.append(True)
            if act == "reset":
                dynamo.reset()
            elif act == "drop":
                others.clear()
            elif act == "compile":
                kt.compile(lambda x: x + len(ended), backend=Backend())(kt.ones(1))
            else:
                gc.collect()

    class Backend:
        def __call__(self, graph, inputs):
            return Answer(graph) if len(ended) < 50 else graph

    functions = [lambda x, i=i: (x + i).sum() * x for i in range(4)]
    for how in ("reset", "drop", "code"):
        backend = Backend()
        others = [kt.compile(f, backend=backend if i % 2 else Backend(), dynamic=False) for i, f in enumerate(functions)]
        for fast in [*others]:
            for n in (1, 2, 3):
                assert fast(kt.ones(n)).shape == (n,)
        fast = None
        if how == "reset":
            dynamo.reset()
        elif how == "drop":
            others.clear()
        else:
            functions[0].__code__ = (lambda x, i=0: x).__code__
        others.clear()
        del backend
    dynamo.reset()
    gc.collect()
    assert len(ended) >= 3 or stress == "break_everywhere"


# ---- What guards look at changes while tracing -----------------------------------------------------------------------------


class Box:
    def __init__(self):
        self.value, self.items, self.table = 1, [1, 2], {"a": 1}


box, number, numbers = Box(), 1, [1, 2, 3]


def helper(x):
    return x + number


def change(what):
    global number, helper, box
    if what == "global":
        number += 1
    elif what == "attribute":
        box.value += 1
    elif what == "list":
        numbers.append(4)
    elif what == "item":
        numbers[0] += 1
    elif what == "dict":
        box.table["a"] += 1
    elif what == "key":
        box.table[f"k{len(box.table)}"] = 1
    elif what == "object":
        box = Box()
    elif what == "class":
        Box.extra = getattr(Box, "extra", 0) + 1
    elif what == "code":
        helper.__code__ = (lambda x: x + number * 1).__code__.replace()
    elif what == "function":
        helper = type(helper)(helper.__code__, helper.__globals__)
    elif what == "defaults":
        helper.__defaults__ = (1,)
    elif what == "deleted":
        box.items.clear()
        box.items.extend([1, 2])
    elif what == "thrown away":
        box.items, box.table = [1, 2], {"a": 1}
        gc.collect()
    elif what == "reset":
        dynamo.reset()


CHANGES = ["global", "attribute", "list", "item", "dict", "key", "object", "class", "code", "function", "defaults", "deleted",
           "thrown away", "reset"]


def reads(x):
    y = helper(x) * box.value + numbers[0] + len(numbers)
    return y + box.table["a"] + len(box.items) + box.items[0] + getattr(box, "extra", 0)


@pytest.fixture
def kept():
    global number, helper, box
    before = number, helper, helper.__code__, box
    yield
    number, helper, helper.__code__, box = *before[:2], before[2], Box()
    helper.__defaults__ = None
    numbers[:] = [1, 2, 3]
    if hasattr(Box, "extra"):
        del Box.extra


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("who", ["backend", "marked", "nonstrict", "fake", "constant", "cond", "warning", "twice"])
def test_what_is_read_changes_while_tracing(what, who, kept):
    """What it answers is right for what is there; what is there after the call differs from a plain run's by what tracing did."""
    tracing = [0]

    def disturb():
        if kt.compiler.is_compiling() and tracing[0] < 30:
            tracing[0] += 1
            change(what)

    backend = None
    if who in ("backend", "twice"):
        def backend(graph, inputs):
            disturb()
            return graph.forward if tracing[0] % 2 else lambda *args: graph(*args)

    @dynamo.allow_in_graph
    def marked(x):
        disturb()
        return x + 0

    @dynamo.nonstrict_trace
    def nonstrict(x):
        disturb()
        return [x + 0, 1]

    @kt.library.custom_op("hostile::faked", mutates_args=())
    def faked(x: kt.Tensor) -> kt.Tensor:
        return x + 0

    @faked.register_fake
    def _(x):
        disturb()
        return x + 0

    @dynamo.assume_constant_result
    def constant():
        disturb()
        return 0

    calls = {
        "backend": lambda x: x, "marked": marked, "nonstrict": lambda x: nonstrict(x)[0], "fake": faked,
        "constant": lambda x: x + constant(), "cond": lambda x: kt.cond(x.sum() > 0, lambda x: one(x), lambda x: one(x), (x,)),
        "warning": lambda x: kt.cond(True, lambda x: x + 0, lambda x: x - 0, (x,)), "twice": lambda x: marked(marked(x))}
    one, call = marked, calls[who]

    def f(x):
        before = reads(x)
        y = call(before)
        return before, y, reads(y)

    fast = kt.compile(f, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("always" if who == "warning" else "ignore")
        shown, warnings.showwarning = warnings.showwarning, lambda *args, **named: change(what) if tracing[0] < 30 else None
        try:
            for _ in range(4):
                fast(kt.ones(2))
            tracing[0] = 100
            for _ in range(2):
                assert [each.tolist() for each in fast(kt.ones(2))] == [each.tolist() for each in f(kt.ones(2))]
        finally:
            warnings.showwarning = shown


@pytest.mark.parametrize("backend", [None, "eager", lambda graph, inputs: lambda *args: graph(*args)],
                         ids=["none", "eager", "own"])
def test_what_was_loaded_before_a_call_outlives_it(backend):
    table = {}

    def fill():
        table.update(a=[object(), [5]], t=kt.ones(3), b=Box())
        table["b"].value = [kt.ones(2)]

    @dynamo.allow_in_graph
    def wipes(x):
        fill()
        return x + 0

    def f(x):
        a, t, v = table["a"], table["t"], table["b"].value
        y = wipes(x)
        return y, t + 1, a[1], v[0] * 2, len(a)

    fill()
    fast = kt.compile(f, backend=backend)
    for _ in range(20):
        assert repr(fast(kt.ones(2))) == repr(f(kt.ones(2)))


@pytest.mark.parametrize("make", [Box, lambda: [1, [2]], lambda: (1, Box()), object, lambda: {"a": Box()}, lambda: Box],
                         ids=["object", "list", "tuple", "plain", "dict", "class"])
def test_a_constant_result_is_one_object(make, stress):
    asked = []

    @dynamo.assume_constant_result
    def constant():
        asked.append(True)
        return make()

    def f(x):
        return x + 1, constant()

    fast = kt.compile(f)
    answers = [fast(kt.ones(1))[1] for _ in range(6)]
    gc.collect()
    if not stress:
        assert all(each is answers[1] for each in answers[1:]) and len(asked) <= 2


@pytest.mark.parametrize("name", ["placeholder", "trace_call", "trace_cond", "compile_graph"])
def test_interrupts_while_tracing_are_not_lost(name, monkeypatch, stress):
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    from kintsugi import _opaque, fx

    def interrupted(*args, **named):
        raise KeyboardInterrupt

    def f(x):
        y = kt.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return y if name == "trace_cond" else not_looked_into(y, [1])

    fast = kt.compile(f, backend="eager")
    monkeypatch.setattr(fx if name == "compile_graph" else _opaque, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fast(kt.ones(2))
        for _ in range(1000):
            pass
    monkeypatch.undo()
    assert fast(kt.ones(2)).tolist() == f(kt.ones(2)).tolist()


@pytest.mark.parametrize("count", range(1, 20))
def test_wrappers_among_many_arguments(count):
    """Their names lie in a table that grows; the sanitizers see it."""
    names = [f"a{i}" for i in range(count)]
    space = {}
    exec(f"def f(x, c, table, {', '.join(names)}):\n    y = x + {' + '.join(names)}\n    return c(y), table['k'] + y", space)
    inner, f = kt.compile(lambda x: x * 2), space["f"]
    arguments = inner, {"k": 1, "j": 2}, *range(count)
    assert repr(kt.compile(f)(kt.ones(2), *arguments)) == repr(f(kt.ones(2), *arguments))


# ---- What is left in memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["graph", "forward", "closure", "method"])
@pytest.mark.parametrize("called", [False, True])
def test_a_wrapper_within_a_cycle_dies(answers, called):
    class Model:
        def __init__(self):
            self.fast = kt.compile(self.forward, backend=self.backend)
            self.graphs = []

        def forward(self, x):
            return x * 2 + 1

        def backend(self, graph, inputs):
            self.graphs.append(graph)
            self.graph = graph
            return {"graph": graph, "forward": graph.forward, "closure": lambda *args: self.graph(*args),
                    "method": self.run}[answers]

        def run(self, *args):
            return self.graph(*args)

    dead = []
    for _ in range(3):
        model = Model()
        if called:
            assert model.fast(kt.ones(2)).tolist() == [3.0, 3.0] == model.fast(kt.ones(2)).tolist()
        dead.append(weakref.ref(model))
        del model
    gc.collect()
    assert [each() for each in dead] == [None] * 3


OPAQUE = {"allow_in_graph": dynamo.allow_in_graph, "nonstrict_trace": dynamo.nonstrict_trace}


def as_operator(h):
    made = kt.library.custom_op("hostile::closure", h, mutates_args=(), schema="(Tensor x) -> Tensor")
    made.register_fake(lambda x: x + 0)
    return made


@pytest.mark.parametrize("mark", [*OPAQUE.values(), as_operator, dynamo.assume_constant_result], ids=[*OPAQUE, "operator", "constant"])
def test_marked_closures_die(mark):
    """Their callers share one code object, whose segments live as long as the module."""
    def make(i):
        held = Box()

        @mark
        def h(x=None):
            return i if x is None else x * held.value + i

        return kt.compile(lambda x: h(x) + h(x) if mark is not dynamo.assume_constant_result else x + h()), weakref.ref(held)

    dead = []
    for i in range(20):
        fast, held = make(i)
        for _ in range(2):
            fast(kt.ones(2))
        dead.append(held)
        del fast
    gc.collect()
    assert [each() for each in dead[:-1]] == [None] * 19  # an operator is found by its name, the latest one


@pytest.mark.parametrize("mark", [*OPAQUE.values(), as_operator], ids=[*OPAQUE, "operator"])
def test_a_marked_function_that_is_dropped_before_its_call(mark):
    @dynamo.allow_in_graph
    def drops(x):
        if not kt.compiler.is_compiling() and hasattr(holder, "h"):
            del holder.h
        gc.collect()
        return x + 0

    def f(x):
        h = holder.h
        y = drops(x)
        return h(y) + h(x)

    def fill():
        holder.h = mark(lambda x: x * 3)

    holder, fast = Box(), kt.compile(f)
    for _ in range(4):
        fill()
        assert fast(kt.ones(2)).tolist() == [6.0, 6.0]


def test_numbers_of_backends_and_isolated_wrappers_are_given_out_again(stress):
    """Entries stay with the code object: as many as are in use at once, not as many as there ever were."""
    def f(x):
        return x + 1

    def rounds(count):
        for i in range(count):
            def backend(graph, inputs):
                return lambda *args: [each * (i + 1) for each in graph(*args)]

            fast, own = kt.compile(f, backend=backend), kt.compile(f, isolate_recompiles=True)
            assert fast(kt.ones(2)).tolist() == [2.0 * i + 2] * 2 or stress == "break_everywhere"
            assert own(kt.ones(2)).tolist() == [2.0] * 2
            del fast, own, backend

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    rounds(50)
    gc.collect()
    before = resident()
    rounds(300)
    gc.collect()
    assert SANITIZED or resident() - before < 200_000


def test_wrapped_may_say_anything():
    f = lambda x: x + 1  # noqa: E731
    c, d = kt.compile(f), kt.compiler.disable(f)
    half = kt.compiler.disable(f, recursive=False)
    for each in (c, d, half):
        each.__wrapped__ = each
        assert kt.compile(each)(kt.ones(1)).tolist() == [2.0] == kt.compiler.disable(each)(kt.ones(1)).tolist()
        each.__wrapped__ = print
        assert kt.compile(each).__wrapped__ is f
        del each.__wrapped__
        assert kt.compile(each).__wrapped__ is f
