"""Writes docs/ops.md from kernels/ops.def and the functions made of others. `--check`: fails if the page is not what would be written."""
import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "kernels"))
import ops_table  # noqa: E402

CLASSES = {
    "kElementwise": "Element by element", "kReduction": "Reductions", "kMatmul": "Products", "kCreation": "Creation",
    "kMovement": "Movement", "kScan": "Along a dimension",
}
DTYPES = {
    "kPromote": "promoted", "kPromoteNumber": "promoted, not bool", "kPromoteFloat": "promoted; integers: float32",
    "kPromoteBits": "promoted, not floating", "kPromoteInteger": "promoted, integers only",
    "kCompare": "bool", "kChoose": "that of b and c, promoted", "kLogical": "bool", "kConvert": "as asked",
    "kSum": "the operand's; integers: int64", "kMean": "the operand's, floating", "kSame": "the operand's",
    "kIndex": "int64", "kSameBoth": "the operands', not bool", "kGiven": "as asked", "kGivenFloat": "as asked, floating",
}
HEAD = """# Operators

Written by `docs/make_ops.py` from `kernels/ops.def`, `functions.py` and `elementary.py` in `python/kintsugi`; change the row, then run it.

**Dtypes.** Operands are promoted as in torch: bool < integer < floating, the wider within a kind. A Python number never widens a
tensor within its kind (`int32 + 2` is int32, `int32 + 2.0` is float32); a tensor without dimensions does not widen one that has
some. Integers wrap. Integer `//` and `%` by zero raise ZeroDivisionError; the smallest integer `// -1` is itself. Any NaN
equals any NaN: which one results is not defined. A float outside an integer's range, and NaN, convert to the smallest integer.

**Errors** are in units in the last place, measured at 100,000 points per dtype by `tests/unit/math_test.cpp` over subnormals, huge
arguments, infinities and zeros; 0 means exact or correctly rounded. All CPUs give the same bits.

**Order of reductions**, a function of the logical shape alone. Elements that fold into one result are numbered row-major over
the reduced dims and cut into blocks of 4096. In a block, element i goes to partial i mod 16; partials start at the identity (a
sum at +0.0, so the sum of -0.0 is 0.0), and are joined 8, 4, 2, 1 apart. Blocks are joined in pairs: n blocks are the largest
power of two below n, and the rest. float32 adds up in float32. `mean` divides the sum by the count. The error of a sum of n
elements is below (256 + 4 + log2(n / 4096)) roundings.

**Random numbers** are Philox 4x32-10 of (seed, draw, index of the element): the same eager and compiled, whatever the order.
"""


def ulp(row):
    if not row.max_ulp_f32 and not row.max_ulp_f64:
        return "0"
    return f"{row.max_ulp_f32:g}, {row.max_ulp_f64:g}"


def made_of_others():
    """A row for each function that others make: its name, parameters and what it says of itself; whether tensors have it too."""
    files = ("functions.py", "elementary.py", "_einsum.py")
    body = [each for name in files for each in ast.parse((ROOT / "python" / "kintsugi" / name).read_text()).body]
    methods = {name.id for each in body if isinstance(each, ast.For) for name in each.iter.elts}
    for each in body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            yield (f"| `{each.name}({ast.unparse(each.args)})` | {ast.get_docstring(each).splitlines()[0].replace('|', chr(92) + '|')} | "
                   f"{'yes' if each.name in methods else ''} |")


def page():
    out = [HEAD]
    rows = ops_table.read_ops()
    for op_class, title in CLASSES.items():
        has_error = op_class == "kElementwise"
        out.append(f"## {title}\n")
        out.append("| name | meaning | result dtype |" + (" error f32, f64 |" if has_error else ""))
        out.append("| --- | --- | --- |" + (" --- |" if has_error else ""))
        for row in rows:
            if row.op_class == op_class:
                out.append(f"| `{row.name}` | {row.document} | {DTYPES[row.dtype_rule]} |"
                           + (f" {ulp(row)} |" if has_error else ""))
        out.append("")
    out += ["## Made of others", "", "Python over the operators above, followed in compiled code as what they are made of.", "",
            "| function | meaning | a method too |", "| --- | --- | --- |", *made_of_others(), ""]
    return "\n".join(out)


def main():
    target = ROOT / "docs" / "ops.md"
    if "--check" not in sys.argv[1:]:
        target.write_text(page())
    elif not target.exists() or target.read_text() != page():
        sys.exit("docs/ops.md is not what kernels/ops.def says: run python docs/make_ops.py")


if __name__ == "__main__":
    main()
