"""The base class of modules: what they hold by name, their calls and hooks, their state."""
import collections
import itertools
from collections.abc import Mapping

from .. import _runtime
from .._grad_mode import no_grad
from .parameter import Parameter

Tensor = _runtime.Tensor
_set = object.__setattr__
_NONE = {}  # of a class: what an instance shows before Module.__init__ ran


class _IncompatibleKeys(collections.namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"


class RemovableHandle:
    """Of a hook: remove(), or the end of a `with` block, takes it away."""
    _numbers = itertools.count()

    def __init__(self, module, hooks):
        self._module, self._hooks, self.id = module, hooks, next(self._numbers)

    def remove(self):
        self._hooks.pop(self.id, None)
        self._module._note_hooks()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.remove()


class Module:
    """Base class of networks and their parts: assign parameters, buffers and modules as attributes, and write forward().

    >>> class Net(kt.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first = kt.nn.Linear(3, 8)
    ...     def forward(self, x):
    ...         return self.first(x).relu()
    """
    training: bool
    _parameters = _buffers = _modules = _NONE
    _plain = True  # a call is a call of forward(): no hooks, not compiled in place
    _compiled_call = None
    _is_module_class = True  # the tracer asks: loops over modules unroll

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            given = next(iter(kwargs), None)
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{given}'" if kwargs else
                            f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Not through __dict__: on CPython 3.11 that costs the instance its inline values.
        _set(self, "training", True)
        _set(self, "_parameters", {})
        _set(self, "_buffers", {})
        _set(self, "_modules", {})
        _set(self, "_plain", True)
        _set(self, "_non_persistent_buffers_set", set())
        _set(self, "_forward_hooks", {})
        _set(self, "_forward_hooks_with_kwargs", {})
        _set(self, "_forward_pre_hooks", {})
        _set(self, "_forward_pre_hooks_with_kwargs", {})

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # ---- Calls and hooks

    def __call__(self, *args, **kwargs):
        if self._plain:
            return self.forward(*args, **kwargs)
        if self._compiled_call is not None:
            return self._compiled_call(self, *args, **kwargs)
        return self._call_hooked(*args, **kwargs)

    def _call_hooked(self, *args, **kwargs):
        for number, hook in list(self._forward_pre_hooks.items()):
            if number in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                                           f"{changed}.")
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for number, hook in list(self._forward_hooks.items()):
            if number in self._forward_hooks_with_kwargs:
                changed = hook(self, args, kwargs, result)
            else:
                changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args, output) after each forward(); what it answers, unless None, is the output. A handle."""
        return self._add_hook(self._forward_hooks, self._forward_hooks_with_kwargs, hook, prepend, with_kwargs)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before each forward(); what it answers, unless None, are the arguments. A handle."""
        return self._add_hook(self._forward_pre_hooks, self._forward_pre_hooks_with_kwargs, hook, prepend, with_kwargs)

    def _add_hook(self, hooks, with_keywords, hook, prepend, with_kwargs):
        handle = RemovableHandle(self, hooks)
        if with_kwargs:
            with_keywords[handle.id] = True
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[handle.id] = hook
        hooks.update(others)
        self._note_hooks()
        return handle

    def _note_hooks(self):
        _set(self, "_plain", not (self._forward_hooks or self._forward_pre_hooks or self._compiled_call))

    def compile(self, *args, **kwargs):
        """Compiles calls of this module in place. Arguments as of kt.compile."""
        from .._compile import compile, copy_of
        _set(self, "_compiled_call", compile(copy_of(type(self)._call_hooked), *args, **kwargs))
        self._note_hooks()

    # ---- Attributes

    def __getattr__(self, name):
        if name in self._parameters:
            return self._parameters[name]
        if name in self._buffers:
            return self._buffers[name]
        if name in self._modules:
            return self._modules[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            if self._parameters is _NONE:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{_class_name(value)}' as parameter '{name}' (kt.nn.Parameter or None expected)")
            self._parameters[name] = None
        elif isinstance(value, Module):
            if self._modules is _NONE:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._parameters, self._buffers)
            self._modules[name] = value
        elif name in self._modules:
            if value is not None:
                raise TypeError(f"cannot assign '{_class_name(value)}' as child module '{name}' (kt.nn.Module or None expected)")
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{_class_name(value)}' as buffer '{name}' (kt.Tensor or None expected)")
            self._buffers[name] = value
        else:
            _set(self, name, value)

    def _forget(self, name, *places):
        try:
            object.__delattr__(self, name)
        except AttributeError:
            pass
        for place in places:
            place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name):
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = dir(type(self)) + list(self.__dict__) + list(self._parameters) + list(self._buffers) + list(self._modules)
        return sorted(name for name in set(names) if not name[0].isdigit())

    def _check_name(self, what, name, place):
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_class_name(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in place:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        """A parameter under a name; None: there is none, but state and assignments know the name."""
        if self._parameters is _NONE:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_class_name(param)}' object to parameter '{name}' (kt.nn.Parameter or None required)")
        if param is not None and not param.is_leaf:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                             f"express '{name}' as a function of another Tensor, compute the value in the forward() method.")
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor of the state that is no parameter; persistent=False: not in state_dict()."""
        if self._buffers is _NONE:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_class_name(tensor)}' object to buffer '{name}' (kt.Tensor or None required)")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """A child under a name that need not be an identifier."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_class_name(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    def get_submodule(self, target):
        """The module at a path, "block.0"."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _place_of(self, target):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return module, name

    def get_parameter(self, target):
        """The parameter at a path, "block.0.weight"."""
        module, name = self._place_of(target)
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target):
        """The buffer at a path."""
        module, name = self._place_of(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # ---- Walks

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def named_children(self):
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def _named_members(self, members, prefix, recurse, remove_duplicate):
        memo = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in getattr(module, members).items():
                if value is None or value in memo:
                    continue
                if remove_duplicate:
                    memo.add(value)
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def apply(self, fn):
        """fn(module) for every module below, then for this one; answers itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- Modes, flags, dtypes

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Nothing: there are no derivatives yet."""

    def _apply(self, fn):
        for module in self.children():
            module._apply(fn)
        for place in (self._parameters, self._buffers):
            for name, value in place.items():
                if value is None:
                    continue
                with no_grad():
                    changed = fn(value)
                if changed is not value and place is self._parameters:
                    changed = Parameter(changed, value.requires_grad)
                place[name] = changed
        return self

    def to(self, *args, **kwargs):
        """The floating parameters and buffers in another dtype: to(kt.float64), to(dtype=...), to("cpu"), to(tensor)."""
        def convert(value):
            wanted = [given for given in (*args, *kwargs.values()) if isinstance(given, (_runtime.dtype, Tensor))]
            if not wanted or not value.is_floating_point():
                return value.to(*[given for given in args if not isinstance(given, (_runtime.dtype, Tensor))])
            return value.to(wanted[0])

        return self._apply(convert)

    def float(self):
        return self._apply(lambda value: value.float() if value.is_floating_point() else value)

    def double(self):
        return self._apply(lambda value: value.double() if value.is_floating_point() else value)

    def cpu(self):
        return self

    def type(self, dtype):
        return self._apply(lambda value: value.to(dtype))

    # ---- State

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """Names to tensors, without gradients, over the module's own memory."""
        if destination is None:
            destination = collections.OrderedDict()
        for name, value in self._persistent():
            destination[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        return destination

    def _persistent(self):
        for name, value in self._parameters.items():
            if value is not None:
                yield name, value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the tensors in. strict: RuntimeError that lists missing and unexpected names; sizes must always agree."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, problems, known = [], [], set()
        self._load(state_dict, "", assign, missing, problems, known)
        unexpected = [key for key in state_dict if key not in known]
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    problems.insert(0, f"{what} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in keys) + ". ")
        if problems:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        return _IncompatibleKeys(missing, unexpected if strict or unexpected else [])

    def _load(self, state, prefix, assign, missing, problems, known):
        for name, value in list(self._persistent()):
            key = prefix + name
            known.add(key)
            if key not in state:
                missing.append(key)
                continue
            given = state[key]
            if not isinstance(given, Tensor):
                problems.append(f'While copying the parameter named "{key}", expected kt.Tensor or Tensor-like object from '
                                f"checkpoint but received {type(given)}")
            elif given.shape != value.shape:
                problems.append(f"size mismatch for {key}: copying a param with shape {_size_text(given)} from checkpoint, the shape "
                                f"in current model is {_size_text(value)}.")
            elif assign and name in self._parameters:
                self._parameters[name] = given if isinstance(given, Parameter) else Parameter(given, value.requires_grad)
            elif assign:
                self._buffers[name] = given
            else:
                with no_grad():
                    value.copy_(given)
        for name, module in self._modules.items():
            if module is not None:
                module._load(state, prefix + name + ".", assign, missing, problems, known)

    # ---- Text, copies

    def extra_repr(self):
        """What repr() shows in the parentheses."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return self._get_name() + "(\n  " + "\n  ".join(lines + children) + "\n)"

    def __setstate__(self, state):
        for name, value in state.items():
            _set(self, name, value)

    def __getstate__(self):
        state = dict(self.__dict__)
        if "_compiled_call" in state:
            del state["_compiled_call"]
            state["_plain"] = not (self._forward_hooks or self._forward_pre_hooks)
        return state


def _class_name(value):
    kind = type(value)
    return kind.__qualname__ if kind.__module__ in ("builtins", None) else f"{kind.__module__}.{kind.__qualname__}"


def _size_text(tensor):
    return f"kt.Size({list(tensor.shape)})"
