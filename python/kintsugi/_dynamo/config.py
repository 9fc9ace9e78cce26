"""kt._dynamo.config: settings of the process, as attributes. `kt._dynamo.config.recompile_limit = 16`.

`with kt._dynamo.config.patch(recompile_limit=2): ...` sets some for a while; patch also decorates functions.
"""
import functools
import sys
import types

from .._runtime import _driver

_ALIASES = {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit",
            "ignore_logger_methods": "ignore_logging_functions"}
# Settings that only Python reads. docs/differences.md names those without an effect.
_values = {
    "reorderable_logging_functions": set(),
    "ignore_logging_functions": set(),
    # Without an effect.
    "accumulated_recompile_limit": 256,
    "allow_empty_graphs": False,
    "side_effect_replay_policy": "info",
}
_CHOICES = {"side_effect_replay_policy": ("info", "silent", "warn", "error")}


class _Settings(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):  # the import system asks
            raise AttributeError(name)
        known = _ALIASES.get(name, name)
        if known in _values:
            return _values[known]
        found = _driver.settings().get(known)
        if found is None:
            raise _unknown(name)
        return found[0]

    def __setattr__(self, name, value):
        known = _ALIASES.get(name, name)
        if known in _values:
            before, meaning = _values[known], ""
        else:
            found = _driver.settings().get(known)
            if found is None:
                raise _unknown(name)
            before, meaning = found[0], f" ({found[1]})"
        if type(value) is not type(before):
            raise TypeError(f"kt._dynamo.config.{name} is of type {type(before).__name__}{meaning}, not {value!r}")
        if known in _CHOICES and value not in _CHOICES[known]:
            raise ValueError(f"kt._dynamo.config.{name} is one of {', '.join(_CHOICES[known])}, not {value!r}")
        if known in _values:
            _values[known] = value
            _tell_sets()
        else:
            _driver.set_option(known, int(value))

    def __dir__(self):
        return [*super().__dir__(), *_values, *_driver.settings(), *_ALIASES]


def _tell_sets():
    _driver.set_logging_sets(_values["reorderable_logging_functions"], _values["ignore_logging_functions"])


def _unknown(name):
    names = [*_driver.settings(), *_values, *_ALIASES]
    import difflib
    close = difflib.get_close_matches(name, names, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return AttributeError(f"kt._dynamo.config has no setting {name!r}.{hint} There are {', '.join(names)}")


class patch:
    """patch(name=value), patch("name", value) or patch({...}): sets some settings inside a with block or a decorated function."""

    def __init__(self, settings=None, value=None, /, **more):
        if isinstance(settings, str):
            settings = {settings: value}
        self._wanted = {**(settings or {}), **more}
        self._before = []
        for name in self._wanted:
            getattr(sys.modules[__name__], name)  # refused at once

    def __enter__(self):
        module = sys.modules[__name__]
        before = {name: getattr(module, name) for name in self._wanted}
        self._before.append(before)
        try:
            for name, value in self._wanted.items():
                setattr(module, name, value)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error):
        for name, value in self._before.pop().items():
            setattr(sys.modules[__name__], name, value)

    def __call__(self, function):
        @functools.wraps(function)
        def patched(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return patched


_swap = _driver.swap_option
_FOR_REGIONS = ("verbose", "rewrite_assert_with_torch_assert", "capture_scalar_outputs", "allow_unspec_int_on_nn_module",
                "dont_skip_tracing", "nested_graph_breaks")


class patch_dynamo_config:
    """As patch, for the settings that may change inside compiled code, all of them True or False; ValueError for others.

    >>> with kt._dynamo.patch_dynamo_config(capture_scalar_outputs=True): n = x.item()
    """

    def __init__(self, settings=None, value=None, /, **more):
        if isinstance(settings, str):
            settings = {settings: value}
        self._wanted, self._before = {**(settings or {}), **more}, []
        for name, wanted in self._wanted.items():
            if name not in _FOR_REGIONS:
                raise ValueError(f"patch_dynamo_config sets {', '.join(_FOR_REGIONS)}, not {name!r}")
            if type(wanted) is not bool:
                raise ValueError(f"{name} is True or False, not {wanted!r}")

    def __enter__(self):
        for name, wanted in self._wanted.items():
            self._before.append((name, _swap(name, wanted)))

    def __exit__(self, kind, error, traceback):
        for _ in self._wanted:
            _swap(*self._before.pop())

    def __call__(self, function):
        wanted = self._wanted

        def patched(*args, **kwargs):
            with patch_dynamo_config(wanted):
                return function(*args, **kwargs)

        return functools.wraps(function)(patched)


def disable_nested_graph_breaks(fn=None):
    """Decorator, or context manager: config.nested_graph_breaks is off inside. Breaks in callees are resumed there all the same."""
    region = patch_dynamo_config(nested_graph_breaks=False)
    return region if fn is None else region(fn)


_tell_sets()
sys.modules[__name__].__class__ = _Settings
