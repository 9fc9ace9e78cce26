"""kt._dynamo.config: settings of the process, as attributes. `kt._dynamo.config.recompile_limit = 16`.

`with kt._dynamo.config.patch(recompile_limit=2): ...` sets some for a while; patch also decorates functions.
"""
import contextlib
import sys
import types

from .._runtime import _driver


class _Settings(types.ModuleType):
    def __getattr__(self, name):
        found = _driver.settings().get(name)
        if found is None:
            raise AttributeError(f"kt._dynamo.config has no setting {name!r}; there are {', '.join(_driver.settings())}")
        return found[0]

    def __setattr__(self, name, value):
        found = _driver.settings().get(name)
        if found is None:
            raise AttributeError(f"kt._dynamo.config has no setting {name!r}; there are {', '.join(_driver.settings())}")
        if type(value) is not type(found[0]):
            raise TypeError(f"kt._dynamo.config.{name} is a {type(found[0]).__name__} ({found[1]}), not {value!r}")
        _driver.set_option(name, int(value))

    def __dir__(self):
        return [*super().__dir__(), *_driver.settings()]


@contextlib.contextmanager
def patch(settings=None, /, **more):
    """Sets some settings inside a with block or a decorated function, and puts the old values back."""
    module = sys.modules[__name__]
    wanted = {**(settings or {}), **more}
    before = {name: getattr(module, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


sys.modules[__name__].__class__ = _Settings
