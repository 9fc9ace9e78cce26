"""Writes docs/graph_breaks.md from runtime/breaks.def. `--check`: fails if the page is not what would be written."""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# Graph breaks

Written by `docs/make_breaks.py` from `runtime/breaks.def`; change the row, then run it.

Each reason for which capture ends. The type is the first line of a record (`KINTSUGI_LOGS=graph_breaks`,
`kt._logging.set_logs(graph_breaks=True)`), of `kt._dynamo.exc.Unsupported`, and of a reason in `kt._dynamo.explain`; particulars
follow as "Developer debug context". Here a break costs well under a microsecond: the operation is performed with a real frame, and
the function goes on natively.
"""


def rows():
    """(identifier, type, explanation, hints) of each row."""
    text = re.sub(r"^\s*//.*$", "", (ROOT / "runtime" / "breaks.def").read_text(), flags=re.M)
    string = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    for name, *parts in re.findall(rf"KN_BREAK\((\w+),\s*{string},\s*{string},\s*{string}\)", text):
        yield name, *(ast.literal_eval(f"({part})") for part in parts)


def page():
    out = [HEAD]
    for name, kind, explanation, hints in rows():
        out.append(f"## {kind}\n")
        out.append(f"`{name}`. {explanation}\n")
        out += [f"- {hint}" for hint in hints.split("\n") if hint]
        out.append("")
    return "\n".join(out).replace("\n\n\n", "\n\n")


def main():
    target = ROOT / "docs" / "graph_breaks.md"
    if "--check" not in sys.argv[1:]:
        target.write_text(page())
    elif not target.exists() or target.read_text() != page():
        sys.exit("docs/graph_breaks.md is not what runtime/breaks.def says: run python docs/make_breaks.py")


if __name__ == "__main__":
    main()
