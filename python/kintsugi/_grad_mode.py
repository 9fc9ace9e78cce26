"""no_grad and its kin: whether results of tensors that require gradients require them too. Of the thread; flags only."""
from ._dynamo.decorators import named_like
from ._runtime import _change_grad_mode, is_grad_enabled

_ON, _OFF, _INFERENCE = 0, 1, 2


class _Mode:
    _mode = _ON

    def __new__(cls, function=None):
        self = object.__new__(cls)
        self._before = []
        return self if function is None else self(function)

    def __enter__(self):
        self._before.append(_change_grad_mode(self._mode))

    def __exit__(self, kind, error, traceback):
        _change_grad_mode(self._before.pop())

    def __call__(self, function):
        if isinstance(function, type):
            raise TypeError(f"{type(self).__name__} decorates functions, not classes")
        return _in_each_call(self._mode, function)


def _in_each_call(mode, function):
    def inner(*args, **kwargs):
        before = _change_grad_mode(mode)
        try:
            return function(*args, **kwargs)
        finally:
            _change_grad_mode(before)

    return named_like(inner, function)


class no_grad(_Mode):
    """`with kt.no_grad():`, or a decorator, with or without parentheses: no result requires gradients."""
    _mode = _OFF


class enable_grad(_Mode):
    """`with kt.enable_grad():`, or a decorator: the opposite of no_grad."""


class inference_mode(_Mode):
    """As no_grad; is_inference_mode_enabled() says so. inference_mode(False) switches it off inside."""
    _mode = _INFERENCE

    def __new__(cls, mode=True):
        if not isinstance(mode, bool):
            return super().__new__(cls, mode)
        self = super().__new__(cls)
        if not mode:
            self._mode = _ON
        return self


class set_grad_enabled(_Mode):
    """set_grad_enabled(False): from now on, and to the end of the block where it is a context manager."""

    def __new__(cls, mode):
        return super().__new__(cls)

    def __init__(self, mode):
        self._mode = _ON if mode else _OFF
        self._before.append(_change_grad_mode(self._mode))

    def __enter__(self):
        pass

    def __call__(self, function):
        _change_grad_mode(self._before[-1])
        return super().__call__(function)


__all__ = ['enable_grad', 'inference_mode', 'is_grad_enabled', 'no_grad', 'set_grad_enabled']
