"""Of match, text, numbers of every kind, names, imports, small modules: see language_programs.py."""
import cmath
import copy
import enum
import math
import operator
import re
import typing

import kintsugi as kt

from language_programs import followed, x3, x23

# ---- match ---------------------------------------------------------------------------------------------------------


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    @property
    def length(self):
        return abs(self.x) + abs(self.y)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def classified(v, x):
    match v:
        case 0 | 1:
            return x
        case "a" | b"a":
            return x * 3
        case None | True:
            return x * 4
        case [a]:
            return x + a
        case [a, b]:
            return x + a * b
        case [a, *rest] if len(rest) > 5:
            return x - len(rest)
        case [a, *rest, b]:
            return x + a + b + len(rest)
        case {"k": k, **others} if k > 100:
            return x - k, others
        case {"k": k, **others}:
            return x + k, others
        case {"p": {"q": q}}:
            return x * q
        case Point(x=0, y=y):
            return x + y
        case Point(px, py, length=7):
            return x * px * py
        case Point(px):
            return x * px
        case float(f):
            return x * f
        case str() as s:
            return x * len(s)
        case Color.RED:
            return x * 7
        case complex(real=r, imag=i):
            return x * r * i
        case bytes(b):
            return x * len(b)
        case int(n) if n > 5:
            return x - n
        case _:
            return x * 100


@followed(lambda: (x3(), 1, "a", None, "hello", 2.5))
def match_literals(x, a, b, c, d, e):
    return [classified(v, x) for v in (a, b, c, True, d, e)], classified(9, x), classified(4, x), classified(b"xyz", x)


@followed(lambda: (x3(), [5], (1, 2), [1, 2, 3], [1] * 8))
def match_sequences(x, a, b, c, d):
    return [classified(v, x) for v in (a, b, c, d)], classified((x, 2), x), classified([], x), classified(range(2), x)


@followed(lambda: (x3(), {"k": 3, "z": 4}, {"k": 1000}, {"p": {"q": 2.0}}))
def match_mappings(x, a, b, c):
    return classified(a, x), classified(b, x), classified(c, x), classified({"k": 3, "t": x}, x), classified({}, x)


def sized(v):
    match v:
        case kt.Tensor(ndim=n, shape=(3,)):
            return v * n
        case float(real=r):
            return r


@followed(lambda: (x3(), Point(0, 4), Point(3, 4), Point(2, 3)))
def match_classes(x, a, b, c):
    return [classified(v, x) for v in (a, b, c, Point(1, 1), Color.RED, Color.BLUE, 3 + 4j)], sized(x), sized(1.0)


# ---- Text ----------------------------------------------------------------------------------------------------------


class Named:
    def __str__(self):
        return "named"

    def __repr__(self):
        return "Named()"


class Formatted:
    def __format__(self, spec):
        return f"<{spec}>"


@followed(lambda: (x3(), 7, 2.5, "abc", True, 8))
def f_strings(x, n, f, s, b, w):
    return (x * 2, f"{n}|{f:.3f}|{s!r:>{w}}|{b}|{n:05d}|{f:e}|{n:#x}|{s:^9}|{f!s}|{n=}|{s!a}|{f:{w}.{n}f}|{None}|{1+2j:.1f}",
            f"{[n, f]}{(1, s)}{ {s: n} }{x.shape}{x.dtype}{type(x).__name__}{{}}")


@followed(lambda: (x3(), Named(), Formatted()))
def text_of_objects(x, a, b):
    return x * 2, f"{a}", f"{a!r}", f"{b:xyz}", str(a), repr(a), format(b), format(2.5, ".2f"), str([1, "a"]), ascii("\xe9")


@followed(lambda: (x3(), "Hello World", 2.5, 12345))
def text_methods(x, s, f, n):
    return (x + len(s.upper()), s.title(), s.split(), s.replace("l", "L"), s.find("o"), s.center(20, "*"), "-".join([s, "a"]),
            "%d %s %.2f %r" % (n, s, f, s), "%(a)s" % {"a": s}, "{} {:>5} {a}".format(n, f, a=s), s.encode(), s.partition(" "),
            s.isalpha(), s.zfill(20), s.translate({72: "J"}), s.count("l"), s.swapcase(), s.rsplit("o", 1), s.splitlines(),
            str(b"ab", "ascii"), "l" in s, s[::-1], s < "I", s + "!" * 3, chr(97), ord("a"), [c for c in s[:3]])


@followed(lambda: (x3(), b"hello"))
def byte_strings(x, b):
    return (x * b[0], b[1:3], b.decode(), b.hex(), b.upper(), b + b"x", b * 2, b"l" in b, len(b), b.find(b"l"), [c for c in b],
            list(b), b.split(b"l"), b.startswith(b"he"), bytes.fromhex("0102"), bytes([1, 2, 3]), bytes(3), 108 in b)


DIGITS = re.compile(r"\d+")


@followed(lambda: (x3(), "a12b"))
def patterns(x, s):
    m = re.match(r"(a)(\d+)", s)
    if m:
        x = x * len(m.group(1))
    return (x, m.group(2), m.groups(), m[0], m.start(), m.span(2), re.sub("b", "X", s), re.findall("[a-c]", s), re.split("b", s),
            re.search("z", s) is None, re.compile("a").match(s).span(), int(DIGITS.search(s).group()), DIGITS.findall(s), DIGITS.pattern)


# ---- Numbers -------------------------------------------------------------------------------------------------------


@followed(lambda: (x3(), 10, 3))
def whole_numbers(x, a, b):
    big = a ** 40
    return (x * b, big, big // b, big % 7, divmod(a, b), divmod(-a, b), pow(a, b, 7), pow(a, -1, 7), a << 70, (a << 70) >> 65, ~a,
            a & b, a | b, a ^ b, -big, abs(-big), big > a, big == big + 1, int(big), float(big), a.real, a.imag, a.numerator,
            a.bit_length(), a.bit_count(), a.to_bytes(4, "big"), int.from_bytes(b"\x01\x02", "big"), int("ff", 16),
            int("ff", base=16), int("-7"), bin(a), oct(a), hex(a), str(a), hash(a), round(a), round(1234, -2), a.as_integer_ratio())


@followed(lambda: (x3(), 2.75, -0.0))
def real_numbers(x, f, zero):
    return (x * f, f.is_integer(), f.hex(), f.as_integer_ratio(), float.fromhex("0x1p-2"), str(f), repr(zero), round(f),
            round(f, 1), int(f), float("1e3"), f // 1, f % 1, divmod(f, 2), f.conjugate(), hash(f), bool(zero), float("inf") > f,
            2.5.real, f.imag, abs(zero), -zero, f"{f:g} {f:.0%} {zero}")


@followed(lambda: (x3(), 2.0, 1 + 2j))
def complex_numbers(x, a, c):
    return (x * c.real, c * a, c + 1, -c, c.conjugate(), abs(c), c ** 2, c == 1, complex(a, 3), complex("1+2j"), c != a, c.imag,
            cmath.sqrt(-1), cmath.exp(1j), cmath.phase(-1), cmath.polar(1j), cmath.rect(1, 2), cmath.isclose(1, 1), str(c), bool(c))


@followed(lambda: (x3(), 2.0, 3.0))
def more_math(x, a, b):
    return (x * math.hypot(a, b), math.fsum([a, b, 0.1]), math.prod([a, b]), math.gcd(12, 18), math.comb(5, 2), math.isclose(a, b),
            math.isnan(a), math.floor(2.7), math.ceil(2.1), math.trunc(-2.5), math.factorial(10), math.perm(5, 2), math.lcm(4, 6),
            math.isqrt(17), math.dist([1, 2], [3, 4]), math.modf(2.5), math.frexp(8.0), math.ldexp(0.5, 3), math.copysign(a, -b),
            math.log(a), math.log(a, b), math.log1p(a), math.erf(a), math.gamma(a), math.cbrt(a), math.isinf(math.inf), math.tau,
            math.nextafter(a, b), math.remainder(a, b), math.fabs(-a), math.isfinite(a))


@followed(lambda: (x3(), slice(1, 9, 2), range(2, 20, 3), 7))
def slices_and_ranges(x, s, r, n):
    return (x[s] * 2, s.indices(5), s.start, s.stop, s.step, slice(None, 3).indices(10), [1, 2, 3, 4][s], "abcdef"[s], r.start, r.stop,
            r.step, r[2], r[1:3], len(r), 5 in r, r.index(5), r.count(8), r == range(2, 20, 3), range(n)[-1], Ellipsis is ...,
            NotImplemented is NotImplemented, bool(range(0)))


# ---- Names ---------------------------------------------------------------------------------------------------------


@followed(lambda: (x3(), 5))
def assignment_expressions(x, n):
    if (m := n + 1) > 5 and (k := m * 2):
        x = x * k
    ys = [z := i * 2 for i in range(3)]
    return x, m, k, ys, z, 1 < m < 10 < 11, 1 < m > 10


@followed(lambda: (x3(), 5))
def cells_that_change(x, n):
    v = n

    def read():
        return v

    def write(w):
        nonlocal v
        v = w
    v = n + 1
    a = read()
    v += 10
    write(read() * 2)
    b = v
    del v
    v = 3
    return x * a, b, read()


@followed(lambda: (x3(), [1, 2, 3], {"a": 1}, Point(1, 2)))
def augmented(x, xs, d, p):
    xs[0] += 1
    xs[1] *= 2
    xs += [4]
    d["a"] -= 5
    p.x **= 3
    p.y //= 2
    n = 5
    n //= 2
    n **= 3
    n <<= 2
    n |= 1
    n ^= 3
    n &= 15
    n >>= 1
    n %= 5
    s = "a"
    s += "b"
    s *= 2
    x = x + 1
    x *= n
    return x, xs, d, p.x, p.y, n, s


@followed(lambda: (x3(), 5))
def names_of_locals(x, n):
    y = x * 2

    def inner(a, *rest):
        b = n
        return locals()
    return y, sorted(locals()), inner(1, 2)


def shared_default(a, acc=[], *, sep="-", **more):  # noqa: B006
    return a, acc, sep, more


@followed(lambda: (x3(),))
def defaults_and_keywords(x):
    def local(a, /, b=x, *args, c, d=lambda v: v + 1, **kw):
        return a * b + c, args, d(c), kw
    return local(x, c=2), local(1, 2, 3, c=4, e=5), shared_default(x), shared_default(1, [2], sep="+", z=3)


def traced(scale):
    def wrap(function):
        def inner(*args, **kw):
            return function(*args, **kw) * scale
        return inner
    return wrap


@followed(lambda: (x3(), 3.0))
def decorators_inside(x, k):
    @traced(k)
    @traced(2.0)
    def shifted(v, by=1.0):
        return v + by
    return shifted(x), shifted(x, by=k)


# ---- Modules -------------------------------------------------------------------------------------------------------


@followed(lambda: (x3(), True))
def imports(x, flag):
    import math
    import os.path
    import os.path as p
    from collections import OrderedDict
    from math import cos as c, sin
    if flag:
        from math import tau as t
    else:
        from nothing import t
    return x * sin(1.0) + c(2.0) * t, math.pi, p.sep, os.sep, OrderedDict.__name__


@followed(lambda: (x23(), 2, [3, 4]))
def operators(x, n, xs):
    return (operator.mul(x, n), operator.add(n, 3), operator.neg(x), operator.getitem(xs, 1), operator.not_(n), operator.lt(n, 3),
            operator.contains(xs, n), operator.truth(xs), operator.is_(n, None), operator.iadd(xs, [5]), operator.matmul(x, x.T),
            list(map(operator.mul, xs, xs)), operator.eq(x.shape, (2, 3)))


@followed(lambda: (x3(), [1, 2], {"a": 1}))
def shallow_copies(x, xs, d):
    return x * 2, copy.copy(xs), copy.copy(d), copy.copy((1, 2)), copy.copy(5)


@followed(lambda: (x3(),))
def types_and_identity(x):
    v = typing.cast(int, 5)
    a: typing.List[int] = [1]
    return (x * v, isinstance(v, int), isinstance(v, (int, float)), type(v) is int, type(x).__name__, a, id(x) == id(x), x is x,
            x in [x], len(x), [t * 2 for t in x], v.__class__ is int, x.__class__ is kt.Tensor)


@followed(lambda: (x3(),))
def asserted(x):
    assert x.sum() > 0, "not positive"
    assert len(x) == 3
    return x * 2
