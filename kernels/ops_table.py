"""Reads kernels/ops.def and kernels/dtypes.def for build scripts (build_stencils.py, docs/make_ops.py)."""
import pathlib
import re
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent


class OpRow(NamedTuple):
    name: str
    op_class: str
    arity: int
    dtype_rule: str
    identity: str
    may_raise: bool
    max_ulp_f32: float
    max_ulp_f64: float
    expression: str
    bool_expression: str
    document: str


class DTypeRow(NamedTuple):
    name: str
    c_type: str
    bytes: int
    kind: str
    short_name: str
    numpy: str


# dtypes in which an element-wise op or a fold is computed, by dtype rule; the expression decides about bool.
FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")
NUMBERS = INTEGERS + FLOATS
COMPUTE_DTYPES = {
    "kPromote": ("bool",) + NUMBERS, "kPromoteNumber": NUMBERS, "kPromoteFloat": FLOATS,
    "kPromoteBits": ("bool",) + INTEGERS, "kPromoteInteger": INTEGERS,
    "kCompare": ("bool",) + NUMBERS, "kChoose": ("bool",) + NUMBERS, "kLogical": ("bool",),
    "kConvert": ("bool",) + NUMBERS, "kSum": ("bool", "int32", "int64") + FLOATS, "kMean": FLOATS,
    "kSame": ("bool",) + NUMBERS, "kIndex": ("bool",) + NUMBERS, "kSameBoth": NUMBERS,
}


def _rows(path, macro):
    """Argument lists of each `macro(...)` statement; commas inside parentheses and strings do not separate."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith(("//", "#")))
    for start in re.finditer(rf"\b{macro}\(", text):
        depth, quoted, arguments, current, at = 1, False, [], "", start.end()
        while depth:
            char = text[at]
            at += 1
            if quoted or char == '"':
                quoted = quoted != (char == '"')
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
            if not depth or (char == "," and depth == 1 and not quoted):
                arguments.append(current.strip())
                current = ""
            else:
                current += char
        yield arguments


def _unquote(text):
    return text.strip('"')


def read_ops(path=HERE / "ops.def"):
    return [OpRow(name, op_class, int(arity), rule, identity, raises == "true", float(ulp32), float(ulp64), expression,
                  on_bool, _unquote(document))
            for name, op_class, arity, rule, identity, raises, ulp32, ulp64, expression, on_bool, document
            in _rows(path, "KN_OP")]


def read_dtypes(path=HERE / "dtypes.def"):
    return [DTypeRow(name, c_type, int(size), kind, _unquote(short), _unquote(numpy))
            for name, c_type, size, kind, short, numpy in _rows(path, "KN_DTYPE")]


if __name__ == "__main__":
    for row in read_ops():
        print(row)
