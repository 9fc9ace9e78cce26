"""Results as text: f-strings with formats, join, percent, str methods, tables by columns, ljust."""
import kintsugi as kt


def row(name, values, width=8):
    cells = [f"{value:>{width}.3f}" for value in values]
    return name.ljust(10) + "|" + " ".join(cells)


def report(results):
    lines = []
    for name, tensor in results.items():
        lines.append(row(name, tensor.tolist()))
    longest = max(len(line) for line in lines)
    return "\n".join(["-" * longest, *lines])


def run(x, names):
    results = {}
    for i, name in enumerate(names):
        results[f"{name}_{i}"] = x * (i + 1)
    text = report(results)
    print(text)
    total = x.sum()
    summary = "total=%.2f count=%d" % (total.item(), x.numel())
    key = "_".join(sorted(names)).upper()
    parts = "a=1;b=2".split(";")
    settings = dict(part.split("=") for part in parts)
    return summary, key, {k: int(v) for k, v in settings.items()}, f"{total.item()!r:>12}", text.count("|")


def make_arguments(turn):
    return kt.tensor([1.5, -2.25, 3.0 + turn]), ["speed", "heading", "x"]
