"""Parameters and buffers: tensors that a module registers when they are assigned to it."""
from .. import _runtime

Tensor = _runtime.Tensor


class _OfParameters(type):
    def __instancecheck__(cls, instance):
        return type(instance) is Tensor and instance._is_parameter


class Parameter(metaclass=_OfParameters):
    """Parameter(data, requires_grad=True): a Tensor over the same memory that modules know as theirs.

    What it answers is a Tensor, whose type is Tensor; isinstance(x, Parameter) tells it from others.
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _runtime.zeros(0)
        return _runtime._make_parameter(data, bool(requires_grad))
