"""Section 26 of the behaviour: what each switch reaches, from several threads; who outranks whom; pairs of switches."""
import io
import contextlib
import threading

import pytest

import kintsugi as kt
from control_programs import asks, is_compiled
from kintsugi._runtime import _driver
from semantics_rows import rows

dynamo, compiler, exc = kt._dynamo, kt.compiler, kt._dynamo.exc
x1 = kt.ones(1)

pytestmark = pytest.mark.usefixtures("switches")


def in_thread(work, *args):
    """What work(*args) answers, or raises, in another thread."""
    answer = []

    def run():
        try:
            answer.append((work(*args), None))
        except BaseException as error:
            answer.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (value, error), = answer
    if error is not None:
        raise error
    return value


def while_another(enter, then):
    """What then() answers here, while another thread is inside of `with enter():`."""
    inside, done = threading.Event(), threading.Event()

    def other():
        with enter():
            inside.set()
            assert done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30)
    try:
        return then()
    finally:
        done.set()
        thread.join()


def flag_now():
    value = _driver.set_error_on_graph_break(False)
    _driver.set_error_on_graph_break(value)
    return value


# ---- The table of scopes -------------------------------------------------------------------------------------------


def scope_wrapper():
    """A compiled call that another thread is inside of compiles nothing here."""
    inside, done = threading.Event(), threading.Event()

    @kt.compile
    def waits(x):
        x = x + 1
        inside.set()
        done.wait(30)
        return x

    thread = threading.Thread(target=waits, args=(x1,))
    thread.start()
    assert inside.wait(30)
    assert is_compiled(asks, x1) is False and _driver.is_in_region() is False
    assert is_compiled(kt.compile(asks), x1) is True
    done.set()
    thread.join()


def scope_hook():
    """Callees of a break are captured on the thread of the wrapper only; a thread that it starts runs plain."""
    seen = []

    @kt.compile
    def f(x):
        dynamo.skip_frame()
        seen.append(asks(x)[0])
        seen.append(in_thread(asks, x)[0])
        return x

    f(x1)
    assert seen == [True, False] and _driver.is_in_region() is False
    with pytest.raises(KeyError):
        kt.compile(lambda x: (dynamo.graph_break(), {}["k"]))(x1)
    assert _driver.is_in_region() is False


def scope_disable():
    inner = kt.compile(asks)
    seen = []

    @compiler.disable
    def quiet():
        seen.append((asks(x1)[0], in_thread(inner, x1)[0], is_compiled(inner, x1)))

    kt.compile(lambda x: (quiet(), x + 1))(x1)
    assert seen == [(False, True, True)]


def breaker(x):
    dynamo.graph_break()
    return x + 1


def scope_flag():
    fast = kt.compile(breaker)

    def refused():
        with pytest.raises(exc.Unsupported):
            fast(x1)
        return flag_now()

    assert while_another(lambda: dynamo.error_on_graph_break(True), refused) is True
    assert flag_now() is False and fast(x1).tolist() == [2.0]


def scope_stance():
    fast = kt.compile(asks)
    assert while_another(lambda: compiler.set_stance("force_eager"), lambda: is_compiled(fast, x1)) is False
    assert is_compiled(fast, x1) is True
    # A call that runs is not changed from outside: its tail is compiled still.
    seen = []

    @kt.compile
    def f(x):
        seen.append(compiler.is_compiling())
        in_thread(compiler.set_stance, "force_eager")
        seen.append(compiler.is_compiling())
        return x + 1

    f(x1)
    f(x1)
    assert seen == [True, True, False, False]


def scope_marks():
    body = lambda x: (compiler.is_compiling(), x + 1)  # noqa: E731
    in_thread(dynamo.forbid_in_graph, body)
    with pytest.raises(AssertionError, match="forbidden callable"):
        kt.compile(lambda x: body(x))(x1)


def scope_config():
    fast = kt.compile(asks, dynamic=False)
    fast(x1)
    with dynamo.config.patch(recompile_limit=1):
        assert in_thread(lambda: dynamo.config.recompile_limit) == 1
        assert is_compiled(fast, kt.ones(2)) is False
    assert while_another(lambda: dynamo.config.patch(disable=True), lambda: is_compiled(fast, kt.ones(2))) is False
    assert dynamo.config.disable is False


def note(*things):
    print("note", *things)


def scope_sets():
    in_thread(dynamo.config.ignore_logging_functions.add, note)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        kt.compile(lambda x: (note(1), x + 1), fullgraph=True)(x1)
    assert out.getvalue() == ""
    dynamo.config.ignore_logging_functions.remove(note)
    dynamo.reset()
    with pytest.raises(exc.Unsupported):
        kt.compile(lambda x: (note(1), x + 1), fullgraph=True)(x1)


def scope_logs():
    def told():
        dynamo.reset()
        with contextlib.redirect_stderr(io.StringIO()) as err:
            kt.compile(breaker)(x1)
        return "Graph break in user code" in err.getvalue()

    in_thread(lambda: kt._logging.set_logs(graph_breaks=True))
    assert told() is True
    in_thread(lambda: kt._logging.set_logs(recompiles=True))
    assert told() is False


def scope_entries():
    cnt = dynamo.testing.CompileCounter()
    f = lambda x: x + 1  # noqa: E731
    fast = kt.compile(f, backend=cnt)
    fast(x1)
    in_thread(kt.compile(f, backend=cnt), x1)  # another wrapper, another thread, one code object
    assert cnt.frame_count == 1

    def skipping(x):
        dynamo.skip_frame()
        return compiler.is_compiling()

    kt.compile(skipping)(x1)
    in_thread(dynamo.reset)
    fast(x1)
    assert cnt.frame_count == 2


def scope_examples():
    fast = kt.compile(asks)
    with compiler.set_stance("eager_then_compile"):
        assert [is_compiled(fast, x1), in_thread(is_compiled, fast, x1)] == [False, True]


def scope_compilation():
    """Many threads meet new functions at once: each call is right, and nothing is left half done."""
    functions = [kt.compile(lambda x, k=k: (x * k + 1, compiler.is_compiling())) for k in range(8)]
    barrier = threading.Barrier(4)
    wrong = []

    def work():
        barrier.wait(30)
        for _ in range(5):
            for k, function in enumerate(functions):
                for n in (1, 2, 3):
                    y, compiled = function(kt.ones(n))
                    if y.tolist() != [k + 1.0] * n or not compiled:
                        wrong.append((k, n))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


SCOPES = {"compile wrapper": scope_wrapper, "frame hook": scope_hook, "disable wrapper": scope_disable,
          "error_on_graph_break": scope_flag, "stance": scope_stance, "allow/disallow/forbid marks": scope_marks,
          "config": scope_config, "logging sets": scope_sets, "set_logs": scope_logs,
          "entries, skip marks, run-only marks": scope_entries, "eager_then_compile examples": scope_examples,
          "compilation itself": scope_compilation}


@rows("26 scopes", SCOPES)
def test_scope(row, stress):
    if stress in ("miss_every_guard", "tiny_code_memory") and row in ("entries, skip marks, run-only marks", "config"):
        pytest.skip("compiles again")
    SCOPES[row]()


# ---- Who outranks whom ---------------------------------------------------------------------------------------------


def refused(function, error=exc.Unsupported, text=""):
    with pytest.raises(error, match=text or None):
        function(x1)


def rank_1():
    with compiler.set_stance("fail_on_recompile"):
        assert is_compiled(kt.compile(asks, disable=True, fullgraph=True), x1) is False


def rank_2():
    with compiler.set_stance("force_eager"):
        never = dynamo.forbid_in_graph(lambda x: x + 1)
        fast = kt.compile(lambda x: (never(x), breaker(x)), fullgraph=True)
        with dynamo.error_on_graph_break(True):
            assert [each.tolist() for each in fast(x1)] == [[2.0], [2.0]]


def rank_3():
    inner = kt.compile(asks)
    off = compiler.disable(lambda x: (asks(x)[0], inner(x)[0]))
    with compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        off(x1)  # the inner wrapper asks for itself
    assert off(x1) == (False, True)


def rank_4():
    @kt.compile
    def f(x):
        dynamo.skip_frame()
        return compiler.is_compiling()

    f(x1)
    with compiler.set_stance("fail_on_recompile"):
        assert f(x1) is False
    only = dynamo.run(kt.compile(lambda x: asks(x)))
    with compiler.set_stance("fail_on_recompile"):
        assert is_compiled(only, x1) is False


def rank_5():
    fast = kt.compile(breaker)
    fast(x1)
    with dynamo.error_on_graph_break(True), dynamo.config.patch(recompile_limit=1), compiler.set_stance("fail_on_recompile"):
        assert fast(x1).tolist() == [2.0]


never = dynamo.forbid_in_graph(lambda x: x)


def rank_6():
    for full in (True, False):
        with dynamo.error_on_graph_break(False):
            refused(kt.compile(lambda x: never(x), fullgraph=full), AssertionError)
    with dynamo.config.patch(suppress_errors=True):
        assert kt.compile(lambda x: never(x))(x1) is x1


def rank_7():
    relaxed = dynamo.error_on_graph_break(False)(lambda x: breaker(x))
    refused(kt.compile(relaxed, fullgraph=True))


def rank_8():
    @dynamo.error_on_graph_break(True)
    def strict(x):
        with dynamo.error_on_graph_break(False):
            return breaker(x)

    assert kt.compile(strict)(x1).tolist() == [2.0]


def rank_9():
    assert kt.compile(breaker)(x1).tolist() == [2.0]


RANKS = {str(number): globals()[f"rank_{number}"] for number in range(1, 10)}


@rows("26 ranks", RANKS)
def test_rank(row, stress):
    if stress == "miss_every_guard" and row in ("4", "5"):
        pytest.skip("nothing fits")
    RANKS[row]()


# ---- Pairs ---------------------------------------------------------------------------------------------------------


def strictly(function):
    return dynamo.error_on_graph_break(True)(kt.compile(lambda x: function(x)))


def pair_relaxed_outside():
    both = dynamo.error_on_graph_break(False)(compiler.disable(asks))
    assert is_compiled(strictly(both), x1) is False


def pair_disabled_outside():
    refused(strictly(compiler.disable(dynamo.error_on_graph_break(False)(asks))))


def through_cond(x, branch):
    return kt.cond(x.sum() > -100, branch, lambda x: x - 1, (x,))


def relaxed_break(x):
    with dynamo.error_on_graph_break(False):
        dynamo.graph_break()
    return x + 1


def pair_relaxed_in_cond():
    refused(kt.compile(lambda x: through_cond(x, relaxed_break)), exc.UncapturedHigherOrderOpError)


def pair_disabled_allowed():
    body = compiler.allow_in_graph(lambda x: x + 1)
    off = compiler.disable(body)
    refused(kt.compile(lambda x: off(x), fullgraph=True), text="disable")
    assert kt.compile(lambda x: body(x), fullgraph=True)(x1).tolist() == [2.0]


def pair_allowed_disabled():
    off = compiler.allow_in_graph(compiler.disable(lambda x: x + 1))
    assert kt.compile(lambda x: off(x), fullgraph=True)(x1).tolist() == [2.0]


def pair_disabled_forbidden():
    refused(kt.compile(lambda x: compiler_off_never(x)), AssertionError, "forbidden")


compiler_off_never = compiler.disable(never)


def pair_allowed_forbidden():
    both = compiler.allow_in_graph(dynamo.forbid_in_graph(lambda x: x + 1))
    refused(kt.compile(lambda x: both(x)), AssertionError, "forbidden")


def pair_roots():
    for mark in (dynamo.forbid_in_graph, compiler.allow_in_graph, lambda f: dynamo.disallow_in_graph(compiler.allow_in_graph(f))):
        root = mark(lambda x: (compiler.is_compiling(), x + 1))
        assert is_compiled(kt.compile(root, fullgraph=True), x1) is True


def pair_disabled_nonstrict():
    off = compiler.disable(compiler.nonstrict_trace(lambda x: x + 1))
    refused(kt.compile(lambda x: off(x), fullgraph=True), text="disable")
    assert kt.compile(lambda x: off(x))(x1).tolist() == [2.0]


def pair_disabled_inside():
    off = compiler.disable(lambda x: x + 1)
    for mark in (compiler.allow_in_graph, compiler.nonstrict_trace):
        body = mark(lambda x: off(x) * 2)
        assert kt.compile(lambda x: body(x), fullgraph=True)(x1).tolist() == [4.0]


ignored = lambda *a: print("never")  # noqa: E731
opaque_add = compiler.allow_in_graph(lambda x: x + 1)
loose_add = compiler.nonstrict_trace(lambda x: x + 1)
compiled_add = kt.compile(lambda x: x + 1)


def many(x):
    ignored("a")
    kt._higher_order_ops.print("higher {}", 1)
    things = []
    things.append(x)
    try:
        raise KeyError("k")
    except KeyError:
        x = things[0] + (1 if compiler.is_compiling() else 100)
    return compiled_add(opaque_add(loose_add(x)))


def pair_fine_in_cond():
    dynamo.config.ignore_logging_functions.add(ignored)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert kt.compile(lambda x: through_cond(x, many), fullgraph=True)(x1).tolist() == [5.0]
    assert "never" not in out.getvalue() and "higher 1" in out.getvalue()


def prints(x):
    print("never")
    return x + 1


def pair_breaks_in_cond():
    for branch in (prints, breaker, lambda x: compiler.disable(asks)(x)[1], lambda x: x * x.sum().tolist()):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            refused(kt.compile(lambda x: through_cond(x, branch)), exc.UncapturedHigherOrderOpError)
        assert out.getvalue() == ""


def noted(x):
    note("in a branch")
    return x + 1


def pair_reordered_in_cond():
    """Printed once a run, or refused; never lost."""
    dynamo.config.reorderable_logging_functions.add(note)
    fast = kt.compile(lambda x: through_cond(x, noted))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            fast(x1)
        except exc.UncapturedHigherOrderOpError:
            return
        fast(x1)
    assert out.getvalue().count("in a branch") >= 2


def pair_disabled_logs():
    off = compiler.disable(note)
    fast = kt.compile(lambda x: (off("a", 1), x + 1)[1], fullgraph=True)
    for members, printed in ((dynamo.config.reorderable_logging_functions, "note a 1\n"), (dynamo.config.ignore_logging_functions, "")):
        dynamo.reset()
        members.add(off)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert fast(x1).tolist() == [2.0]
        assert out.getvalue() == printed
        members.clear()


def pair_asked_in_opaque():
    for mark in (compiler.allow_in_graph, compiler.nonstrict_trace):
        seen = []

        def body(x):
            seen.append((compiler.is_compiling(), compiler.is_dynamo_compiling()))
            return x + 1

        body = mark(body)
        kt.compile(lambda x: body(x), fullgraph=True)(x1)
        assert seen[0] == (True, False) and seen[-1] == (False, False)


ran = []


@kt.library.custom_op("semantics::pair", mutates_args=())
def op(x: kt.Tensor) -> kt.Tensor:
    ran.append(compiler.is_compiling())
    return x + 1


op.register_fake(lambda x: x.clone())


def pair_operator_plain():
    ran.clear()
    with compiler.set_stance("force_eager"):
        assert kt.compile(lambda x: op(x))(x1).tolist() == [2.0]
    assert compiler.disable(lambda x: op(x))(x1).tolist() == op(x1).tolist() == kt.compile(lambda x: op(x))(x1).tolist() == [2.0]
    assert ran == [False] * 4


def pair_fail_with_disabled():
    off = compiler.disable(lambda x: asks(x)[0])

    def skipping(x):
        dynamo.skip_frame()
        return x

    fast = kt.compile(lambda x: (off(x), skipping(x), off(x))[0])
    fast(x1)
    with compiler.set_stance("fail_on_recompile"):
        assert fast(x1) is False


def pair_eager_with_fullgraph():
    for stance in ("eager_on_recompile", "force_eager"):
        dynamo.reset()
        with compiler.set_stance(stance):
            assert kt.compile(breaker, fullgraph=True)(x1).tolist() == [2.0]


def pair_stance_in_disabled():
    off = compiler.disable(lambda: compiler.set_stance("force_eager"))
    fast = kt.compile(lambda x: (off(), x + 1)[1])
    assert fast(x1).tolist() == [2.0]
    assert is_compiled(kt.compile(asks), x1) is False


def controls(x):
    dynamo.graph_break()
    dynamo.skip_frame()
    dynamo.step_unsupported()
    return x + 1


def pair_controls():
    assert controls(x1).tolist() == [2.0]
    for mark in (compiler.allow_in_graph, compiler.nonstrict_trace):
        body = mark(lambda x: controls(x))
        assert kt.compile(lambda x: body(x), fullgraph=True)(x1).tolist() == [2.0]
    off = compiler.disable(controls)
    told = dynamo.explain(lambda x: off(x))(x1)
    assert len(told.break_reasons) == 1


def pair_compile_inside():
    inner = kt.compile(asks)
    seen = []
    body = compiler.allow_in_graph(lambda x: (seen.append(inner(x)[0]), x + 1)[1])
    off = compiler.disable(lambda x: inner(x)[0])
    assert kt.compile(lambda x: (body(x), off(x))[1])(x1) is True
    assert seen[-1] is True


PAIRS = {
    "error_on_graph_break(False) outside, disable inside": pair_relaxed_outside,
    "disable outside, error_on_graph_break(False) inside": pair_disabled_outside,
    "error_on_graph_break(False) inside a cond branch": pair_relaxed_in_cond,
    "disable of an allowed function": pair_disabled_allowed,
    "allow_in_graph of a disable wrapper": pair_allowed_disabled,
    "disable of a forbidden function": pair_disabled_forbidden,
    "allow_in_graph on a forbidden function": pair_allowed_forbidden,
    "forbidden, allowed or disallowed function as root": pair_roots,
    "disable of a nonstrict_trace wrapper": pair_disabled_nonstrict,
    "disabled function called inside a nonstrict_trace or allowed function": pair_disabled_inside,
    "fine inside a cond branch": pair_fine_in_cond,
    "print and other breaks inside a cond branch": pair_breaks_in_cond,
    "reorderable function inside a cond branch": pair_reordered_in_cond,
    "disabled function in the reorderable or ignored set": pair_disabled_logs,
    "is_compiling() in the body of an allowed or nonstrict_trace function": pair_asked_in_opaque,
    "custom operator under force_eager, in disabled code, in eager code": pair_operator_plain,
    "fail_on_recompile with a disabled or skipped frame": pair_fail_with_disabled,
    "eager_on_recompile or force_eager with fullgraph": pair_eager_with_fullgraph,
    "set_stance inside a disabled function called from compiled code": pair_stance_in_disabled,
    "graph_break(), skip_frame(), step_unsupported() in disabled, opaque or eager code": pair_controls,
    "compile wrapper called inside an operator body or a disabled function": pair_compile_inside,
}


@rows("26 pairs", PAIRS)
def test_pair(row, stress):
    if stress == "miss_every_guard" and row.startswith("fail_on_recompile"):
        pytest.skip("nothing fits")
    PAIRS[row]()
