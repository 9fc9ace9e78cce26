"""What kt.compile answers for a module: a module that passes on its attributes."""
import types

from .module import Module


class OptimizedModule(Module):
    """Calls of it are compiled calls of `_orig_mod`; everything else is that module's."""

    def __init__(self, module, compiled):
        super().__init__()
        object.__delattr__(self, "training")
        self._modules["_orig_mod"] = module
        object.__setattr__(self, "_compiled", types.MethodType(compiled, module))

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    forward = __call__

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name == "_orig_mod":
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name):
        delattr(self._modules["_orig_mod"], name)

    # Python looks special methods up in the class: those of containers are handed on, and answer or refuse as the module's own.

    def __len__(self):
        return len(self._modules["_orig_mod"])

    def __bool__(self):
        return bool(self._modules["_orig_mod"])

    def __iter__(self):
        return iter(self._modules["_orig_mod"])

    def __reversed__(self):
        return reversed(self._modules["_orig_mod"])

    def __contains__(self, item):
        return item in self._modules["_orig_mod"]

    def __getitem__(self, index):
        return self._modules["_orig_mod"][index]

    def __setitem__(self, index, value):
        self._modules["_orig_mod"][index] = value

    def __delitem__(self, index):
        del self._modules["_orig_mod"][index]

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(dir(self._modules["_orig_mod"])))
