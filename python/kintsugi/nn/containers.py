"""Modules and parameters in a row, a list or by name."""
import collections
import operator

from .module import Module, _class_name
from .parameter import Parameter


def _at(index, length):
    if type(index) is not int:
        index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return str(index + length if index < 0 else index)


class _Row(Module):
    """Modules in order: what Sequential and ModuleList have in common."""

    def __setitem__(self, index, module):
        setattr(self, self._name_of(index), module)

    def __delitem__(self, index):
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_of(index)]
        for name in names:
            del self._modules[name]
        _number(self._modules)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def _insert(self, index, module):
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_class_name(module)} is not a Module subclass")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._check_name("module", str(len(self)), self._modules)
        self._modules.clear()
        self._modules.update((str(number), each) for number, each in enumerate(modules))


class Sequential(_Row):
    """Each module is called with what the one before it answered. Modules, or one dict of them by name."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], collections.OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_of(self, index):
        return list(self._modules)[int(_at(index, len(self)))]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(collections.OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_of(index)]

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index, module):
        self._insert(index, module)
        return self


def _number(modules):
    values = list(modules.values())
    modules.clear()
    modules.update((str(index), value) for index, value in enumerate(values))


class ModuleList(_Row):
    """A list whose modules are part of the state."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[_at(index, len(self))]

    def _name_of(self, index):
        return _at(index, len(self))

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return type(self)([*self, *other])

    def insert(self, index, module):
        self._insert(index, module)

    def pop(self, index):
        module = self[index]
        del self[index]
        return module


class ModuleDict(Module):
    """A dict whose modules are part of the state."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors that are put into it become parameters."""

    def __init__(self, values=None):
        super().__init__()
        if values is not None:
            self.extend(values)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._parameters.values())[index])
        return self._parameters[_at(index, len(self))]

    def __setitem__(self, index, value):
        self.register_parameter(_at(index, len(self)), value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"({index}): Parameter containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"
                         for index, value in enumerate(self))
