"""kt.compiler.set_stance: what happens where no compiled code fits."""
from ._runtime import _driver
from ._dynamo.decorators import named_like

_NAMES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")
_IN_REGION = "attempted to set_stance in a kt.compile region; set it outside, or in a function wrapped by kt.compiler.disable"


class set_stance:
    """set_stance("force_eager"): in force from now on. `with set_stance(...)`: inside the block. As a decorator: in each call.

    default                 compile what does not fit yet
    force_eager             nothing compiled runs
    eager_on_recompile      what fits runs, anything else runs plain
    fail_on_recompile       what does not fit is a RuntimeError
    eager_then_compile      the first call runs plain; what differs at the second one is an input of what it compiles
    aot_eager_then_compile  the same, but the first call is compiled too, by the default backend
    force_backend           with "default": the backend of every compile
    skip_guard_eval_unsafe  accepted; guards are evaluated all the same

    RuntimeError inside a compiled region, for another name, and for force_backend with another stance than "default".
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if _driver.is_in_region():
            raise RuntimeError(_IN_REGION)
        if stance not in _NAMES:
            raise RuntimeError(f"invalid kt.compile stance {stance!r}; there are {', '.join(_NAMES)}")
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError(f"force_backend goes with the stance 'default' only, not with {stance!r}")
            from ._dynamo.backends import lookup_backend
            force_backend = lookup_backend(force_backend)
        self._now = _NAMES.index(stance), force_backend
        self._before = [_driver.set_stance(*self._now)]
        self._entered = False

    @staticmethod
    def only(stance, fn):
        """`fn` with the stance in force in each call, set at no other time."""
        return _in_each_call((_NAMES.index(stance), None), fn)

    def __enter__(self):
        if self._entered:
            self._before.append(_driver.set_stance(*self._now))
        self._entered = True

    def __exit__(self, kind, error, traceback):
        _driver.set_stance(*self._before.pop())
        if not self._before:
            self._before.append((0, None))

    def __call__(self, fn):
        _driver.set_stance(*self._before[-1])  # being made was enough to set it
        inner = _in_each_call(self._now, fn, _no_region)
        _driver.mark(inner, "forbidden")
        return inner


def _in_each_call(stance, fn, check=None):
    def inner(*args, **kwargs):
        if check is not None:
            check()
        before = _driver.set_stance(*stance)
        try:
            return fn(*args, **kwargs)
        finally:
            _driver.set_stance(*before)

    return named_like(inner, fn)


def _no_region():
    if _driver.is_in_region():
        raise RuntimeError(_IN_REGION)


_driver.mark(set_stance, "forbidden")
_driver.mark(_no_region, "forbidden")
