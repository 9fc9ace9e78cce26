"""kt.library: custom operators. One node of a graph, never looked into, run as plain Python on real tensors."""
import contextlib
import re
import types

from . import _runtime
from ._opaque import FakeContext, NoFakeRule
from ._runtime import _driver

_Tensor = _runtime.Tensor
_SCALARS = (int, float, bool, str, type(_runtime.float32), _Tensor)


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        raise AttributeError(f"no operator is called {self._name}::{name}; kt.library.custom_op makes one")

    def __repr__(self):
        return f"<operators of {self._name}>"


class _Builtin:
    """kt.ops.aten.add: a function of kintsugi by the name that torch has for it; so are its forms (.default, .Tensor, .Scalar)."""

    def __init__(self, name, function):
        self._name = self.__name__ = name
        self.default = self.Tensor = self.Scalar = function

    def __call__(self, *args, **kwargs):
        return self.default(*args, **kwargs)

    def __repr__(self):
        return f"<operator aten.{self._name}>"


class _Aten(_Namespace):
    def __getattr__(self, name):
        import kintsugi
        function = getattr(kintsugi, name, None)
        if name.startswith("_") or not callable(function) or isinstance(function, type):
            raise AttributeError(f"no operator is called aten::{name}; see docs/ops.md", name=name)
        operator = _Builtin(name, function)
        setattr(self, name, operator)
        return operator


class _Ops:
    """kt.ops.<namespace>.<operator>: what custom_op made, by its name; kt.ops.aten: what kintsugi itself has."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        space = _Aten(name) if name == "aten" else _Namespace(name)
        setattr(self, name, space)
        return space

    def __repr__(self):
        return "<operators by namespace>"


ops = _Ops()


class CustomOp:
    """What custom_op returns: callable as the function is. See register_fake, register_kernel, register_autograd,
    set_kernel_enabled. `default` is the operator itself: there is one form of it."""

    def __init__(self, name, function):
        self._name, self._function = name, function
        self._fake = self._backward = self._setup_context = None
        self._kernels, self._off = {}, set()
        self.__name__, self.__doc__, self.__module__ = name.partition("::")[2], function.__doc__, function.__module__
        self.__qualname__ = self.__name__
        self.__wrapped__ = function

    def __repr__(self):
        return f"<custom operator {self._name}>"

    def __call__(self, *args, **kwargs):
        kernel = self._kernels.get("cpu") if "cpu" not in self._off else None
        answer = (kernel or self._function)(*args, **kwargs)
        inputs = [each for each in (*args, *kwargs.values()) if type(each) is _Tensor]
        for part in answer if isinstance(answer, (tuple, list)) else (answer,):
            if type(part) is _Tensor and any(part is each or _share(part, each) for each in inputs):
                raise RuntimeError(f"{self._name}: the result shares memory with an input; return a clone")
        return answer

    def register_fake(self, fn, /):
        """Decorator: the rule that is called in the operator's place while compiling, with tensors of ones for tensors; what it
        returns tells shapes and dtypes of the result. Without a rule a compiled call is a TorchRuntimeError."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types, fn=None, /):
        """Another body for a device; "cpu" is the only one there is."""
        devices = [device_types] if isinstance(device_types, str) else list(device_types or ["cpu"])
        for device in devices:
            if device != "cpu":
                raise NotImplementedError(f"{self._name}: there is no device {device!r}, only cpu")
        if fn is None:
            return lambda function: self.register_kernel(devices, function)
        self._kernels.update(dict.fromkeys(devices, fn))
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """Keeps the rule of its derivative. Nothing asks for it yet: `backward` of a tensor is an error that says so."""
        if not callable(backward) or not (setup_context is None or callable(setup_context)):
            raise TypeError(f"{self._name}: register_autograd takes functions")
        self._backward, self._setup_context = backward, setup_context

    @property
    def default(self):
        return self

    def overloads(self):
        """Its forms: one."""
        return ["default"]

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """Context manager: a registered kernel is used, or not."""
        before = set(self._off)
        (self._off.discard if enabled else self._off.add)(device_type)
        try:
            yield
        finally:
            self._off = before

    def _fake_rule(self):
        if self._fake is None:
            raise NoFakeRule(f"{self._name} has no rule for placeholder tensors: give one with {self.__name__}.register_fake")
        return self._fake


_made = {}  # by "namespace::operator"


def _operator(op):
    if isinstance(op, CustomOp):
        return op
    if op not in _made:
        raise ValueError(f"no operator is called {op!r}; kt.library.custom_op makes one")
    return _made[op]


def register_fake(op, fn=None, /):
    """As CustomOp.register_fake, for an operator or its name."""
    if fn is None:
        return lambda function: register_fake(op, function)
    return _operator(op).register_fake(fn)


def register_kernel(op, device_types, fn=None, /):
    """As CustomOp.register_kernel, for an operator or its name."""
    return _operator(op).register_kernel(device_types, fn)


def register_autograd(op, backward, /, *, setup_context=None):
    """As CustomOp.register_autograd, for an operator or its name."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def get_ctx():
    """In a rule that register_fake was given: what `new_dynamic_size` is asked of, for a size of the result that depends on data.

    >>> @positive.register_fake
    ... def _(x): return kt.empty(kt.library.get_ctx().new_dynamic_size())
    """
    context = FakeContext.current
    if context is None:
        raise RuntimeError("get_ctx() is for rules of register_fake, while they are called")
    return context


def _share(a, b):
    return a.numel() > 0 and b.numel() > 0 and _driver.same_memory(a, b)


def _is_allowed(annotation, result=False):
    if annotation in _SCALARS or result and annotation in (None, type(None)):
        return True
    import typing
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, typing.Sequence) or getattr(origin, "__name__", "") == "Sequence":
        return len(parts) == 1 and parts[0] in _SCALARS
    if origin is tuple and result:
        return all(_is_allowed(part, True) for part in parts)
    if origin in (typing.Union, types.UnionType):
        return all(part is type(None) or _is_allowed(part) for part in parts)
    return False


def _annotation_text(annotation, empty):
    return "none" if annotation is empty else repr(annotation)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None):
    """Makes a custom operator of a function whose parameters and result are annotated. Decorator, or called with the function.

    name          "namespace::operator"; it is found at kt.ops.namespace.operator
    mutates_args  names of the parameters that it changes, or "unknown"
    device_types  None or "cpu", the only one there is; another is a NotImplementedError
    schema        if given, parameters and result need no annotations

    Annotations: kt.Tensor, int, float, bool, str, a dtype, a list of one of these, one of these or None; of the result also a tuple,
    or None. ValueError for another, for a malformed name, and for an unknown name in mutates_args. A result that shares memory with
    an input is a RuntimeError at the call.
    """
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args, device_types=device_types, schema=schema)
    if not re.fullmatch(r"\w+::\w+", name):
        raise ValueError(f"custom_op: the name is \"namespace::operator\", not {name!r}")
    import inspect
    signature = inspect.signature(fn, eval_str=True)
    if schema is None:
        for each in signature.parameters.values():
            if each.annotation is each.empty or not _is_allowed(each.annotation):
                raise ValueError(f"custom_op {name}: parameter {each.name!r} needs a type: kt.Tensor, int, float, bool, str, dtype, a list "
                                 f"of one of these, or one of these or None; it has {_annotation_text(each.annotation, each.empty)}")
        if signature.return_annotation is signature.empty or not _is_allowed(signature.return_annotation, True):
            raise ValueError(f"custom_op {name}: the result needs a type: kt.Tensor, a list or tuple of it, a number, or None; it has "
                             + _annotation_text(signature.return_annotation, signature.empty))
    for each in () if mutates_args == "unknown" else mutates_args:
        if each not in signature.parameters:
            raise ValueError(f"custom_op {name}: mutates_args names {each!r}, which is no parameter; there are "
                             f"{', '.join(signature.parameters)}")
    made = CustomOp(name, fn)
    _made[name] = made
    if device_types is not None and "cpu" not in ([device_types] if isinstance(device_types, str) else device_types):
        raise NotImplementedError(f"custom_op {name}: there is no device but cpu")
    space, _, short = name.partition("::")
    setattr(getattr(ops, space), short, made)
    _driver.mark(made, "allowed")
    return made
