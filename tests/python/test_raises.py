"""Every kind of raise and side exit, inside `try`: the handler reads every local and every tensor that was written before
and after; and the same uncaught. Compiled and plain runs must not differ, and the compiled ones must be native."""
import itertools

import numpy as np
import pytest

import kintsugi as kt
from comparing import Programs, compare, what_is_left

program = Programs()
graph_break = kt._dynamo.graph_break


def ints(*values):
    return kt.tensor(list(values))


def three():
    return (kt.ones(3),)


# ---- Faults of kernels -----------------------------------------------------------------------------------------------


@program(lambda: (ints(6, 8), ints(2, 0), []), hand_overs=0)
def division_in_a_kernel(a, b, log):
    x = a + 1
    y = x * 2
    n = 5
    try:
        z = x // b
        log.append(z)
        w = z + 1
    except ZeroDivisionError as error:
        return str(error), x, y, n, a, b, log
    return w


@program(lambda: (ints(6, 8), ints(2, 0), []), hand_overs=0)
def division_inside_a_fused_group(a, b, log):
    x = a + 1
    log.append(x)
    a[0] = 99
    try:
        z = (x + 3) // b * 2 + a
        log.append("after")
    except ZeroDivisionError as error:
        a[1] = -1
        return str(error), x, a, b, log
    return z


@program(lambda: (ints(6, 8), ints(2, 0)), hand_overs=0)
def remainder_in_place(a, b):
    c = a + 1
    try:
        c += 1
        c[0:1] = 50
        a %= b
        c += 1
    except ZeroDivisionError as error:
        return str(error), a, b, c
    return a, c


@program(lambda: (ints(6, 8), ints(1, 2)), lambda: (ints(6, 8), ints(1, 0)), lambda: (ints(4, 9), ints(3, 3)), together=True, hand_overs=0)
def division_that_fails_now_and_then(a, b):
    x = a + b
    try:
        y = x // b
    except ZeroDivisionError:
        y = x - 100
    return x, y * 2


@program(lambda: (ints(6, 8), ints(2, 0)), hand_overs=0)
def division_uncaught(a, b):
    x = a + 1
    a += 5
    return x // b


@program(lambda: (ints(-2**63), ints(-1)), hand_overs=0)
def smallest_integer_wraps(a, b):
    return a // b, a % b


# ---- Tensor calls that raise -----------------------------------------------------------------------------------------

BAD_CALLS = {
    "shapes": lambda t: t + kt.ones(4),
    "product": lambda t: kt.ones(2, 3) @ t[0:2],
    "index": lambda t: t[5],
    "dimension": lambda t: t.sum(dim=3),
    "type": lambda t: t + "x",
    "object": lambda t: t * object,
    "reshape": lambda t: t.reshape(2, 2),
    "item": lambda t: t.item(),
    "keyword": lambda t: t.sum(axes=1),
    "attribute": lambda t: t.nothing,
    "len": lambda t: len(t.sum()),
    "cat": lambda t: kt.cat([t, kt.ones(2, 2)]),
    "int_too_large": lambda t: ints(1) + 2**70,
    "truth": lambda t: 1 if t else 2,
}


@program(*[lambda bad=bad: (kt.ones(3), bad, []) for bad in BAD_CALLS.values()], hand_overs=0)
def tensor_call_raises(a, bad, log):
    c = a + 1
    log.append(c)
    a += 1
    try:
        d = bad(c)
        log.append(d)
    except Exception as error:
        c += 1
        return type(error).__name__, str(error), a, c, log
    return d


@program(*[lambda bad=bad: (kt.ones(3), bad) for bad in BAD_CALLS.values()], hand_overs=0)
def tensor_call_uncaught(a, bad):
    c = a + 1
    c += 1
    return bad(c)


def read_only():
    array = np.ones(3)
    array.setflags(write=False)
    return kt.from_numpy(array), []


@program(read_only, hand_overs=0)
def write_to_read_only(a, log):
    x = a + 1
    log.append(1)
    try:
        a += 1
        log.append(2)
    except Exception as error:
        return type(error).__name__, str(error), a, x, log
    return a


# ---- Numbers that are known only at run time --------------------------------------------------------------------------


@program(*[lambda n=n: (kt.ones(3), n) for n in (3, 5, 2**62, -(2**63), 2**63, 7)], together=True, hand_overs=0)
def int_overflow(x, n):
    y = x + 1
    m = n * 2
    k = m + n - 1
    return y * 2, m, k, -n


@program(*[lambda n=n: (kt.ones(3), n) for n in (3, 5, 0, 2, 0)], together=True, hand_overs=0)
def int_division(x, n):
    y = x + n
    try:
        q = 100 // n
        r = 100 % n
    except ZeroDivisionError as error:
        return str(error), y, n
    return y * q, r


@program(*[lambda v=v: (kt.ones(3), v) for v in (3.5, 2.0, 0.0, -1.5, float("nan"), 1e308)], together=True, hand_overs=0)
def float_division_and_branch(x, v):
    y = x * v
    try:
        w = 1.0 / v
        if w > 0.3:
            y = y + 1
        elif w != w:
            y = y * 0
        else:
            y = y - 1
    except ZeroDivisionError as error:
        return str(error), y, v
    return y, w, v * 10


@program(*[lambda v=v: (kt.tensor([v]),) for v in (1.5, -1.5, 0.0, 8.0)], together=True, hand_overs=0)
def item_branch(x):
    y = x * 2
    v = y.item()
    if v > 0:
        z = y + v
        if v > 10:
            z = z * 3
    else:
        z = y - v
    return z, v


@program(*[lambda k=k: (kt.ones(3), k) for k in range(5)], together=True, hand_overs=0)
def check_inside_a_callback(x, k):
    numbers = iter([1, 2, 3, 4])
    mapped = map(lambda v: (v // k, v * k) if k < 3 else v, numbers)
    try:
        first = next(mapped)
        others = list(mapped)
    except ZeroDivisionError:
        return list(numbers), x + 1
    return first, others, list(numbers), x + k


@program(three, hand_overs=0)
def exhausted_range(x):
    numbers = iter(range(2))
    a, b = next(numbers), next(numbers)
    y = x + a + b
    try:
        c = next(numbers)
    except StopIteration as error:
        return y, a, b, repr(error)
    return c


@program(*[lambda n=n: (kt.ones(2), n) for n in (3, 30, 0, 17)], together=True, hand_overs=0)
def loop_over_a_range_that_varies(x, n):
    total = 0
    for i in range(n):
        x = x + i
        total += i
    return x, total


@program(*[lambda b=b: (three()[0], b) for b in ([1, 2], [1], [1, 2, 3], 5)], hand_overs=None)
def unpacking(x, values):
    y = x + 1
    try:
        a, b = values
    except (ValueError, TypeError) as error:
        return str(error), y, values
    return a, b, y


# ---- Errors of the language ------------------------------------------------------------------------------------------


class Odd:
    __slots__ = ("a",)

    def __getattr__(self, name):
        raise AttributeError(f"odd {name}", name=name)


def opened(values):
    yield from values
    raise LookupError("generator ends badly")


ERRORS = {
    "key": lambda x, d, n: d["missing"],
    "attribute": lambda x, d, n: d.missing,
    "attribute_hook": lambda x, d, n: Odd().missing,
    "slot": lambda x, d, n: Odd().a,
    "name": lambda x, d, n: no_such_name,  # noqa: F821
    "list_index": lambda x, d, n: [x, x][n + 5],
    "integer": lambda x, d, n: 1 // (n - n),
    "float": lambda x, d, n: 1.5 / (n - n),
    "shift": lambda x, d, n: 1 << -1 - n,
    "operand": lambda x, d, n: n + "x",
    "not_callable": lambda x, d, n: n(x),
    "missing_argument": lambda x, d, n: opened(),
    "extra_keyword": lambda x, d, n: opened(x, y=1),
    "unhashable": lambda x, d, n: d[[1]],
    "not_iterable": lambda x, d, n: [v for v in n],
    "stop": lambda x, d, n: next(iter(())),
    "min_of_nothing": lambda x, d, n: min([]),
    "int_of_text": lambda x, d, n: int("x1"),
    "math": lambda x, d, n: __import__("math").sqrt(-1.0 - n),
    "generator": lambda x, d, n: list(opened([x])),
    "dict_changed": lambda x, d, n: [d.update({k + "x": 1}) for k in d],
    "import": lambda x, d, n: __import__("no_such_module_here"),
    "format": lambda x, d, n: f"{n:q}",
    "unpack": lambda x, d, n: (lambda a, *, b: a)(*n),
}


@program(*[lambda bad=bad: (kt.ones(3), {"k": 1}, 3, bad) for bad in ERRORS.values()], hand_overs=0)
def language_error(x, d, n, bad):
    y = x + n
    x *= 2
    d["before"] = y
    try:
        z = bad(y, d, n)
        d["after"] = z
    except Exception as error:
        w = y * 2
        return type(error).__name__, str(error), x, y, w, n, d
    return z


@program(*[lambda bad=bad: (kt.ones(3), {"k": 1}, 3, bad) for bad in ERRORS.values()], hand_overs=0)
def language_error_uncaught(x, d, n, bad):
    y = x + n
    x *= 2
    d["before"] = y
    return (
        bad(y, d, n),
        y,
    )


@program(lambda: (kt.ones(3), False), hand_overs=0)
def unbound_local(x, known):
    y = x + 1
    if known:
        value = 1
    try:
        z = value
    except UnboundLocalError as error:
        return str(error), y, x
    return z


@program(three, hand_overs=0)
def unbound_cell(x):
    y = x + 1
    inner = lambda: y  # noqa: E731
    before = inner()
    del y
    try:
        inner()
    except NameError as error:
        y = 5
        return before, str(error), inner()


class Custom(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


@program(three, hand_overs=0)
def raise_with_cause(x):
    y = x + 1
    log = [y]
    try:
        try:
            z = y * 2
            raise Custom(f"bad {log[0].tolist()}") from KeyError("cause")
        finally:
            log.append("finally")
            y = y + 5
    except Custom as error:
        return error.value, repr(error.__cause__), x, y, z, log


@program(three, hand_overs=0)
def raise_uncaught(x):
    y = x + 1
    x += 1
    raise Custom(3) from KeyError("x")


@program(*[lambda w=w: (kt.ones(3), w()) for w in (lambda: ValueError, lambda: ValueError("made"), int, lambda: int, dict)],
         hand_overs=0)
def raise_anything(x, what):
    y = x + 1
    try:
        raise what
    except Exception as error:
        return type(error).__name__, str(error), y


exec("""def asserts(x):
    y = x + 1
    assert y.sum() > 0, "never"
    try:
        assert y.sum() < 0, f"sum {y.sum().item()}"
    except AssertionError as error:
        return str(error), y
""")  # pytest rewrites assert statements that it can see
program(three, hand_overs=0)(asserts)  # noqa: F821


# ---- From callees ----------------------------------------------------------------------------------------------------


def deep_raise(x, n):
    y = x + 1
    if n == 0:
        raise ValueError("deep")
    inner = deep_raise(y, n - 1)
    return inner + y


def deep_fault(x, n):
    y = x + 1
    if n == 0:
        return y // (x - x)
    return deep_fault(y, n - 1) + y


def deep_key(x, n):
    y = x * 2
    return [{}["k"] if n == 0 else deep_key(y, n - 1), y][0]


CALLEES = [(f, depth) for f in (deep_raise, deep_fault, deep_key) for depth in (0, 1, 4)]


@program(*[lambda f=f, depth=depth: (ints(1, 2), f, depth) for f, depth in CALLEES], hand_overs=0)
def callee_raises(x, callee, depth):
    a = x * 2
    x += 1
    try:
        b = callee(a, depth)
    except (ValueError, ZeroDivisionError, KeyError) as error:
        return type(error).__name__, str(error), a, x
    return b


@program(*[lambda f=f, depth=depth: (ints(1, 2), f, depth) for f, depth in CALLEES], hand_overs=0)
def callee_raises_uncaught(x, callee, depth):
    a = x * 2
    b = callee(a, depth)
    return a, b


def cleaning(x, n, log):
    y = x + 1
    try:
        if n == 0:
            return y // (x - x)
        result = cleaning(y, n - 1, log)
    finally:
        y += 5
        log.append((n, y))
    return result + y


@program(*[lambda n=n: (ints(1, 2), n, []) for n in (0, 1, 4)], hand_overs=None)
def callee_cleans_up(x, n, log):
    return cleaning(x * 2, n, log)


# ---- Exceptions of callbacks that are for the builtin, not for the handler around it ------------------------------------


class Hiding:
    @property
    def hidden(self):
        raise AttributeError("hidden")


class Asking:
    def __getattr__(self, name):
        raise AttributeError(name)


class Lengthless:
    def __len__(self):
        raise TypeError("len")

    def __iter__(self):
        return iter((1, 2))


class Ending:
    def __getitem__(self, index):
        if index > 2:
            raise IndexError("end")
        return index


def stops(*_):
    raise StopIteration("early")


def class_pattern(subject):
    match subject:
        case Hiding(hidden=1):
            return "matched"
        case _:
            return "not matched"


TAKEN = {
    "hasattr": lambda: hasattr(Hiding(), "hidden"),
    "hasattr of __getattr__": lambda: hasattr(Asking(), "hidden"),
    "a default": lambda: getattr(Asking(), "hidden", 7),
    "a class pattern": lambda: class_pattern(Hiding()),
    "a sentinel": lambda: list(iter(stops, 99)),
    "filter": lambda: list(filter(stops, [1, 2])),
    "accumulate": lambda: list(itertools.accumulate([1, 2], stops)),
    "a length": lambda: (list(Lengthless()), [*Lengthless()]),
    "items by number": lambda: list(Ending()),
}


def taken(x, does, log):
    try:
        result = does()
        log.append(result)
        return x + 1, result
    except (ValueError, StopIteration, AttributeError, TypeError, IndexError) as error:
        return "the handler", str(error)
    finally:
        x.mul_(2)


@pytest.mark.parametrize("name", TAKEN)
def test_exceptions_that_a_builtin_takes(name):
    compare(taken, lambda: (kt.ones(3), TAKEN[name], []))


# ---- The tests -------------------------------------------------------------------------------------------------------


def without_nones(expected):
    return {name: value for name, value in expected.items() if value is not None}


@pytest.mark.parametrize("function, makes, expected", program, ids=program.names())
def test_same_as_plain(function, makes, expected):
    compare(function, *makes, **without_nones(expected))


@pytest.mark.parametrize("function, makes, expected", program[::6], ids=program.names()[::6])
def test_nothing_is_left(function, makes, expected, stress):
    if stress:
        pytest.skip("takes long, and the switches change nothing that is kept")
    blocks, buffers, layouts = what_is_left(function, *makes)
    assert blocks < 0.8 and buffers == layouts == 0


def locals_of(function, *arguments):
    """Names and values in each frame that an exception left."""
    try:
        function(*arguments)
    except Exception as error:
        frames, where = [], error.__traceback__.tb_next
        while where is not None:
            frames.append({name: str(value) for name, value in where.tb_frame.f_locals.items()})
            where = where.tb_next
        return frames
    return None


def test_frames_that_an_exception_left_show_all_locals(stress):
    def inner(z, k):
        q = z * 2
        r = [q, k]
        raise Custom(f"{k}")

    def outer(x, k):
        a = x + 1
        b = a * 2
        n = (1, 2)
        inner(b, k)

    kt._dynamo.reset()
    compiled = kt.compile(outer)
    expected = locals_of(outer, kt.ones(2), 3)
    for _ in range(3):
        assert locals_of(compiled, kt.ones(2), 3) == expected
