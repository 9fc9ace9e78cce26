"""Values as text, so that two runs of a program can be compared: contents, types, identities, memory shared by tensors.
Objects at different addresses in the two runs give the same text when they are alike."""
import collections
import dis
import functools
import itertools
import re
import types

import kintsugi as kt

ATOMS = {kind: kind.__name__ for kind in (int, float, complex, str, bytes, bool, type(None), type(...),
                                         type(NotImplemented), range, bytearray, kt.Size)}
ADDRESS = re.compile("0x[0-9a-f]+")
PER_ITERATOR = 6  # items taken from one that was handed out


def without_addresses(text):
    return ADDRESS.sub("0x", text) if "0x" in text else text


def places_of(error):
    """Function and line of each frame of the program and the library that it passed through."""
    places, at = [], error.__traceback__
    while at is not None:
        code, line = at.tb_frame.f_code, at.tb_lineno
        if at.tb_next is None and isinstance(error, UnboundLocalError):
            line = line_of_unbound(code, at.tb_lasti, str(error)) or line
        if code.co_filename in ("<program>", "<prelude>"):
            places.append(f"{code.co_name}:{line}")
        at = at.tb_next
    return places


def line_of_unbound(code, offset, text):
    """Of the load of the unbound local, when CPython has joined it to the instruction before and names that one: it
    does so once it has run the code a few times. None: it has not."""
    line = None
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        is_load = instruction.opname == "LOAD_FAST" and f"'{instruction.argval}'" in text
        if instruction.offset == offset and (is_load or instruction.opname not in ("STORE_FAST", "LOAD_FAST", "LOAD_CONST")):
            return None
        if instruction.offset == offset + 2:
            return line if is_load else None
    return None


def slots_of(kind):
    return [name for base in kind.__mro__ for name in getattr(base, "__slots__", ()) if name in base.__dict__]


class Snapshot:
    """The same object, or overlapping memory, shows as such."""

    def __init__(self):
        self.seen = {}       # id -> number
        self.alive = []      # what the ids belong to
        self.tensors = []    # (number, first byte, one past the last byte)
        self.iterators = []

    def of(self, value):
        kind = type(value)
        name = ATOMS.get(kind)
        if name is not None:
            return f"{name} {value!r}"
        number = self.seen.setdefault(id(value), len(self.alive))
        if number < len(self.alive):
            return f"#{number}"
        self.alive.append(value)
        return f"#{number} {kind.__name__} {self.inside(value, kind, number)}"

    def all(self, values):
        return ", ".join(map(self.of, list(values)))

    def pairs(self, mapping):
        return ", ".join([f"{self.of_key(key)}: {self.of(part)}" for key, part in list(mapping.items())])

    def of_key(self, key):
        """Keys of atoms are compared by content, see docs/differences.md."""
        if type(key) is tuple and all(type(part) in ATOMS for part in key):
            return f"key {key!r}"
        return self.of(key)

    def inside(self, value, kind, number):
        if kind is list or kind is tuple:  # most are
            return f"[{self.all(value)}]"
        if kind is dict:
            return "{" + self.pairs(value) + "}"
        if kind is kt.Tensor:
            return self.of_tensor(value, number)
        if isinstance(value, type):
            return value.__qualname__
        if isinstance(value, BaseException):
            return self.of_error(value)
        if isinstance(value, types.FunctionType):
            cells = [self.of_cell(cell) for cell in value.__closure__ or ()]
            return f"{value.__qualname__} {self.of(value.__defaults__)} {self.of(value.__kwdefaults__)} {cells} {self.of(vars(value))}"
        if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
            return f"{value.__name__} of {self.of(getattr(value, '__self__', None))}"
        if isinstance(value, functools.partial):
            return f"{self.of(value.func)} {self.of(value.args)} {self.of(value.keywords)}"
        if isinstance(value, types.ModuleType):
            return value.__name__
        if isinstance(value, (types.GeneratorType, types.CoroutineType)):
            self.iterators.append((number, value))
            frame = getattr(value, "gi_frame", None)
            return f"{value.__qualname__} " + (f"at {frame.f_lineno} {self.pairs(frame.f_locals)}" if frame else "ended")
        text = ""
        if isinstance(value, (set, frozenset)):
            text = f"[{', '.join([self.of_key(key) for key in list(value)])}]"
        elif isinstance(value, (list, tuple, collections.deque)):
            text = f"[{self.all(value)}]" + (f" {value.maxlen}" if isinstance(value, collections.deque) else "")
        elif isinstance(value, dict):
            text = "{" + self.pairs(value) + "}"
            if isinstance(value, collections.defaultdict):
                text += f" {self.of(value.default_factory)}"
        elif isinstance(value, (type({}.keys()), type({}.values()), type({}.items()))):
            text = f"[{self.all(value)}]"
        elif isinstance(value, slice):
            text = self.all((value.start, value.stop, value.step))
        elif isinstance(value, (int, str)):
            text = repr(value)
        elif hasattr(type(value), "__next__"):
            self.iterators.append((number, value))
        if hasattr(value, "__dict__"):
            text += f" {{{self.pairs(vars(value))}}}"
        for name in slots_of(kind):
            if hasattr(value, name):
                text += f" {name}={self.of(getattr(value, name))}"
        return text

    def of_cell(self, cell):
        try:
            return self.of(cell.cell_contents)
        except ValueError:
            return "empty"

    def of_error(self, error):
        return (f"{self.of(error.args)} {self.of(vars(error))} at {' > '.join(places_of(error))} from {self.of(error.__cause__)} "
                f"while {self.of(error.__context__)} {error.__suppress_context__}")

    def of_tensor(self, tensor, number):
        size, shape, strides = tensor.element_size(), tuple(tensor.shape), tensor.stride()
        first = low = high = tensor.data_ptr()
        if tensor.numel():
            for count, stride in zip(shape, strides):
                if stride < 0:
                    low += (count - 1) * stride * size
                else:
                    high += (count - 1) * stride * size
            high += size
        shares = ""
        for other, origin, other_low, other_high in self.tensors:
            if low < other_high and other_low < high:
                shares = f" at {first - origin:+} of #{other}"
                break
        self.tensors.append((number, first, low, high))
        return f"{tensor.dtype} {shape} {strides}{shares} {tensor.tolist()!r}"

    def drained(self):
        """What the iterators met so far still give, and how they end. Changes what was seen: comes last."""
        texts = []
        for number, iterator in self.iterators:
            try:
                if isinstance(iterator, types.CoroutineType):
                    iterator.close()
                    continue
                texts.append(f"#{number}: {self.all(itertools.islice(iterator, PER_ITERATOR))}")
            except Exception as error:
                texts.append(f"#{number} raises {type(error).__name__}: {error}")
        return "; ".join(texts)
