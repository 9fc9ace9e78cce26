"""The object that kt.compile returns: it stands in for the function wherever the function could stand."""
import copy
import functools
import gc
import inspect
import multiprocessing
import pickle
import subprocess
import sys
import threading
import types
import weakref

import pytest

import kintsugi as kt


def add(a, b=3, /, c: int = 4, *rest, d=5, **more) -> int:
    """Adds."""
    return a + b + c + sum(rest) + d + sum(more.values())


fast_add = kt.compile(add)


@kt.compile
def decorated(x):
    """Doubles."""
    return x * 2


class Arm:
    scale = 10

    def __init__(self, offset):
        self.offset = offset

    @kt.compile
    def method(self, x):
        return x * self.scale + self.offset

    @kt.compile
    @staticmethod
    def compiled_static(x):
        return x + 1

    @staticmethod
    @kt.compile
    def static(x):
        return x + 1

    @classmethod
    @kt.compile
    def make(cls, offset):
        return cls(offset)

    @property
    @kt.compile
    def doubled(self):
        return self.offset * 2

    def plain(self, x):
        return x - self.offset

    def __call__(self, x):
        return x + self.offset


def test_shows_the_function():
    assert fast_add.__name__ == "add"
    assert fast_add.__qualname__ == add.__qualname__
    assert fast_add.__module__ == __name__
    assert fast_add.__doc__ == "Adds."
    assert fast_add.__annotations__ == add.__annotations__
    assert fast_add.__wrapped__ is add
    assert fast_add.__defaults__ == (3, 4) and fast_add.__kwdefaults__ == {"d": 5}
    assert fast_add.__code__ is add.__code__
    assert inspect.signature(fast_add) == inspect.signature(add)
    assert inspect.getsource(fast_add) == inspect.getsource(add)
    assert "compiled function add" in repr(fast_add)
    assert callable(fast_add)


def test_attributes_are_its_own():
    def f(x):
        return x

    f.mark = 1
    fast = kt.compile(f)
    assert fast.mark == 1
    fast.mark = 2
    fast.other = 3
    fast.__name__ = "renamed"
    assert (f.mark, f.__name__, hasattr(f, "other")) == (1, "f", False)
    assert (fast.mark, fast.other, fast.__name__) == (2, 3, "renamed")
    del fast.other
    with pytest.raises(AttributeError):
        fast.other
    with pytest.raises(AttributeError):
        fast.no_such_thing


CALLS = [((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"c": 9}), ((1,), {"d": 1, "e": 2}),
         ((1, 2, 3, 4), {"z": 1, "b": 8})]
BAD_CALLS = [((), {}), ((), {"a": 1}), ((1, 2, 3), {"c": 4})]


@pytest.mark.parametrize("args, kwargs", CALLS)
def test_binds_as_python(args, kwargs):
    for _ in range(3):
        assert fast_add(*args, **kwargs) == add(*args, **kwargs)


@pytest.mark.parametrize("args, kwargs", BAD_CALLS)
def test_binding_errors_are_pythons(args, kwargs):
    with pytest.raises(TypeError) as plain:
        add(*args, **kwargs)
    with pytest.raises(TypeError) as compiled:
        fast_add(*args, **kwargs)
    assert str(compiled.value) == str(plain.value)


def test_keyword_names_need_not_be_interned():
    name = "".join(["a", "lpha"])
    fast = kt.compile(lambda alpha, **rest: (alpha, rest))
    assert fast(**{name: 1, "".join(["b", "eta"]): 2}) == (1, {"beta": 2})
    with pytest.raises(TypeError):
        fast(**{1: 2})


def test_varargs_and_dicts_are_fresh():
    fast = kt.compile(lambda *args, **kwargs: (args, kwargs))
    given = {"x": 1}
    args, kwargs = fast(1, 2, **given)
    assert args == (1, 2) and kwargs == given and kwargs is not given


def test_defaults_replaced():
    def f(x, y=1):
        return x + y

    fast = kt.compile(f)
    assert fast(1) == 2
    f.__defaults__ = (10,)
    assert fast(1) == 11
    f.__defaults__ = None
    with pytest.raises(TypeError):
        fast(1)


def test_code_replaced():
    def f(x):
        return x + 1

    def g(x, y=2):
        return x * y

    fast = kt.compile(f)
    assert [fast(3), fast(3)] == [4, 4]
    f.__code__ = g.__code__
    f.__defaults__ = (5,)
    assert [fast(3), fast(3, 2)] == [15, 6]


def test_methods():
    arm = Arm(5)
    for _ in range(3):
        assert arm.method(2) == 25
        assert Arm.method(arm, 2) == 25
        assert arm.static(1) == Arm.static(1) == 2
        assert arm.compiled_static(1) == Arm.compiled_static(1) == 2
        assert Arm.make(3).offset == 3
        assert arm.doubled == 10
    assert isinstance(arm.method, types.MethodType) and arm.method.__self__ is arm
    bound = kt.compile(arm.plain)
    assert bound(7) == 2 and bound.__self__ is arm
    with pytest.raises(TypeError) as plain:
        arm.plain()
    with pytest.raises(TypeError) as compiled:
        bound()
    assert str(plain.value) == str(compiled.value)


def test_callable_objects_and_builtins():
    arm = Arm(5)
    assert kt.compile(arm)(1) == 6
    assert kt.compile(len)([1, 2]) == 2
    assert kt.compile(functools.partial(add, 1, c=2))(5) == add(1, 5, c=2)
    assert functools.partial(fast_add, 1)(2) == add(1, 2)
    for refuses in (kt.compile, kt._dynamo.explain, kt._dynamo.nonstrict_trace, kt._dynamo.allow_in_graph):
        with pytest.raises(AssertionError, match="callable.*3"):
            refuses(3)
    with pytest.raises(TypeError, match="dynamic"):
        kt.compile(add, dynamic=3)


def test_refusals_without_assert_statements():
    program = "import kintsugi as kt\ntry: kt.compile(3)\nexcept AssertionError as e: print(e)"
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    assert done.stdout == "kt.compile takes a callable, not 'int': 3\n", done.stderr


def test_newest_wrapper_decides():
    assert kt.compile(fast_add).__wrapped__ is add
    off = kt.compiler.disable(fast_add)
    assert off.__wrapped__ is add and off(1) == add(1)
    assert kt.compile(off).__wrapped__ is add
    assert kt._dynamo.is_dynamo_disable_recursive(off) is True
    assert kt._dynamo.is_dynamo_disable_recursive(kt.compiler.disable(add, recursive=False)) is False
    assert kt._dynamo.is_dynamo_disable_recursive(add) is None


def test_decorator_forms():
    assert kt.compile(fullgraph=False)(add)(1) == add(1)
    assert decorated(4) == 8 and decorated.__doc__ == "Doubles."

    @kt.compiler.disable(reason="slow anyway")
    def f(x):
        return x

    assert f(3) == 3 and f.__name__ == "f"


def test_copy_pickle_weakref():
    assert copy.copy(fast_add) is fast_add and copy.deepcopy([fast_add])[0] is fast_add
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    again = pickle.loads(pickle.dumps(fast_add))  # not found under its own name: made again
    assert again(1) == add(1) and again.__wrapped__ is add
    off = kt.compiler.disable(add)
    assert pickle.loads(pickle.dumps(off))(2) == add(2)

    def local(x):
        return x

    fast = kt.compile(local)
    died = []
    reference = weakref.ref(fast, died.append)
    assert reference() is fast
    del fast
    gc.collect()
    assert reference() is None and died


def test_multiprocessing():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(decorated, range(5)) == [0, 2, 4, 6, 8]
        assert pool.map(fast_add, range(3)) == [add(x) for x in range(3)]


def test_wraps_does_not_fool():
    @functools.wraps(fast_add)
    def other(*args, **kwargs):
        return ("other", fast_add(*args, **kwargs))

    assert kt.compile(other)(1) == ("other", add(1))
    assert kt._dynamo.is_dynamo_disable_recursive(functools.wraps(kt.compiler.disable(add))(lambda: 0)) is None


def test_cycles_are_collected():
    class Node:
        pass

    def make():
        node = Node()

        def f(x):
            return node, x

        node.fast = kt.compile(f)
        assert node.fast(1)[1] == 1
        return weakref.ref(node)

    references = [make() for _ in range(20)]
    gc.collect()
    assert not any(reference() for reference in references)


def test_modules_made_and_dropped():
    references = []
    for i in range(50):
        space = {"kt": kt}
        exec(f"def f(x):\n    return x * {i} + len([x])\nfast = kt.compile(f)\nclass Marker: pass", space)
        assert space["fast"](2) == 2 * i + 1
        references.append(weakref.ref(space["Marker"]))
        references.append(weakref.ref(space["f"].__code__))
        space.clear()
        del space
    gc.collect()
    assert not any(reference() for reference in references)


def test_generators_and_coroutines_run_plain():
    @kt.compile
    def numbers(n):
        for i in range(n):
            yield i

    @kt.compile
    async def answer(x):
        return x + 1

    assert list(numbers(3)) == [0, 1, 2]
    coroutine = answer(2)
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert stop.value.value == 3


def test_called_from_many_threads():
    def work(n):
        total = 0
        for i in range(n):
            total += i * n
        return total

    fast, wrong = kt.compile(work), []

    def run():
        for n in range(40):
            if fast(n) != work(n):
                wrong.append(n)

    threads = [threading.Thread(target=run) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
