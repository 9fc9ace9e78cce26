"""inspect.signature(), mapping proxies, and what they say of functions."""
import collections
import functools
import inspect
import types

from language_programs import effects, followed, x3


def signed(a, /, b: int = 1, *rest, c=2.0, d: str = "d", **more) -> float:
    return a


def plain(a, b):
    return a


@functools.wraps(signed)
def wrapping(*arguments, **named):
    return signed(*arguments, **named)


class Gained:
    def __init__(self, gain, *, offset=0.0):
        self.gain = gain

    def scaled(self, x, by: float = 2.0):
        return x * by

    @classmethod
    def made(cls, gain):
        return cls(gain)

    @staticmethod
    def free(x, y):
        return x

    def __call__(self, x, times=1):
        return x * times


class Newly:
    def __new__(cls, first, second=2):
        return super().__new__(cls)


class Derived(Gained):
    pass


gained = Gained(2.0)
partial = functools.partial(signed, 1.0, c=5)
before = inspect.signature(signed)
settings = types.MappingProxyType({"a": 1.0, "b": 2.0})


def facts(signature):
    return [(name, p.name, p.kind.name, p.default is p.empty, p.annotation is inspect.Parameter.empty)
            for name, p in signature.parameters.items()]


@followed(lambda: (x3(),))
def signature_of_function(x):
    signature = inspect.signature(signed)
    return x * len(signature.parameters), facts(signature), signature.return_annotation is float


@followed(lambda: (x3(),))
def signature_defaults(x):
    return {name: p.default for name, p in inspect.signature(signed).parameters.items() if p.default is not p.empty}, x + 1


@followed(lambda: (x3(),))
def signature_kinds(x):
    parameters = inspect.signature(signed).parameters.values()
    return x * sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters), [int(p.kind) for p in parameters]


@followed(lambda: (x3(),))
def signature_of_method(x):
    return x + 1, facts(inspect.signature(gained.scaled)), facts(inspect.signature(Gained.scaled))


@followed(lambda: (x3(),))
def signature_of_class(x):
    return x + 1, facts(inspect.signature(Gained)), facts(inspect.signature(Derived)), facts(inspect.signature(Newly))


@followed(lambda: (x3(),))
def signature_of_class_methods(x):
    return x + 1, facts(inspect.signature(Gained.made)), facts(inspect.signature(Gained.free))


@followed(lambda: (x3(),))
def signature_of_callable(x):
    return x + 1, facts(inspect.signature(gained))


@followed(lambda: (x3(),))
def signature_of_partial(x):
    return x + 1, facts(inspect.signature(partial)), facts(inspect.signature(functools.partial(plain, 1)))


@followed(lambda: (x3(),))
def signature_of_wrapped(x):
    return x + 1, facts(inspect.signature(wrapping)), facts(inspect.signature(wrapping, follow_wrapped=False))


@followed(lambda: (x3(), 2.0))
def signature_of_made(x, k):
    def inner(a, b=k, *, c: int = 3):
        return a * b
    return inner(x), facts(inspect.signature(inner)), inspect.signature(lambda u, v=1: u).parameters["v"].default


@followed(lambda: (x3(),))
def signature_bind(x):
    bound = inspect.signature(signed).bind(x, 2, 3, c=4.0, e=5)
    bound.apply_defaults()
    return bound.args[0] * bound.arguments["c"], bound.args[1:], bound.kwargs, list(bound.arguments)


@followed(lambda: (x3(),))
def signature_bind_calls(x):
    bound = inspect.signature(gained.scaled).bind_partial(x, by=3.0)
    return gained.scaled(*bound.args, **bound.kwargs)


@followed(lambda: (x3(),))
def signature_bind_refused(x):
    try:
        inspect.signature(plain).bind(x)
    except TypeError as error:
        return x * 2, str(error)


@followed(lambda: (x3(),))
def signature_text(x):
    return x * 2, str(inspect.signature(plain)), str(inspect.signature(lambda a, *b, c=1, **d: a))


@followed(lambda: (x3(),))
def signature_from_before(x):
    return x * len(before.parameters), before.parameters["c"].default, "rest" in before.parameters


@followed(lambda: (x3(),))
def signature_leaves(x):
    return x * 2, inspect.signature(plain)


@followed(lambda: (x3(),))
def signature_is_equal(x):
    return x * 2, inspect.signature(plain) == inspect.signature(lambda a, b: b), inspect.signature(plain) == before


@followed(lambda: (x3(),))
def signature_replaced(x):
    signature = inspect.signature(plain)
    first, *rest = signature.parameters.values()
    return x * 2, facts(signature.replace(parameters=[first.replace(name="u", default=1)])), rest[0].name


@followed(lambda: (x3(),))
def function_fields(x):
    return (x * 2, signed.__defaults__, signed.__kwdefaults__["c"], signed.__code__.co_argcount, hasattr(signed, "absent"),
            getattr(plain, "absent", 3), wrapping.__wrapped__ is signed)


@followed(lambda: (x3(),))
def function_lacks(x):
    try:
        return plain.absent
    except AttributeError as error:
        return x * 2, str(error), error.name, error.obj is plain


@followed(lambda: (x3(),))
def inspect_asks(x):
    return (x * 2, inspect.isfunction(plain), inspect.ismethod(gained.scaled), inspect.isclass(Gained), inspect.isclass(3),
            inspect.unwrap(wrapping) is signed)


class Defaults(dict):
    def get(self, key, default="own"):
        return key, default


@followed(lambda: (x3(),))
def proxies(x):
    own = {"u": 1, "v": x}
    view = types.MappingProxyType(own)
    own["w"] = 3
    return (x * view["u"], len(view), "v" in view, view.get("absent", 5), list(view), [*view.values()], dict(view.items()),
            view["v"] is x, bool(view), view.copy(), types.MappingProxyType(Defaults()).get("k"))


@followed(lambda: (x3(),))
def proxies_from_before(x):
    effects["view"] = settings
    return x * settings["a"], settings.get("b"), sorted(settings), [k for k in settings], "c" in settings, {**settings}


@followed(lambda: (x3(),))
def proxy_lacks(x):
    try:
        return types.MappingProxyType({"a": 1})["b"]
    except KeyError as error:
        return x * 2, error.args


@followed(lambda: (x3(),))
def proxy_leaves(x):
    d = {"a": x * 2}
    return types.MappingProxyType(d), d, types.MappingProxyType(collections.OrderedDict(b=1))


@followed(lambda: (x3(),))
def class_dicts(x):
    return (x * 2, "scaled" in Gained.__dict__, "scaled" in Derived.__dict__, Gained.__dict__["scaled"] is Gained.scaled,
            Gained.__dict__.get("absent", 7))
