"""kt.einsum: sums of products, dimensions by name. Made of permute, reshape, matmul and sum; loaded when it is named first."""
from . import _runtime as _rt


def einsum(equation, *operands):
    """Sums of products by names of dimensions. `einsum("ij,jk->ik", a, b)` is `a @ b`

    Operands are joined from left to right, two at a time: what only one has and nobody wants is summed, then one matrix product sums
    what both have and nobody wants; without any such name the elements are multiplied. Sizes of 1 are repeated."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands) or not operands:
        raise RuntimeError(f"einsum: {len(terms)} terms in {equation!r} for {len(operands)} operands")
    terms = [_named(term, operand.dim(), equation) for term, operand in zip(terms, operands)]
    output = _named_output(output, terms, equation) if arrow else _implied(terms)
    sizes = {}
    for term, operand in zip(terms, operands):
        for name, size in zip(term, operand.shape):
            known = sizes.get(name, 1)
            if known != 1 and size != 1 and known != size:
                raise RuntimeError(f"einsum: dimension {name!r} of {equation!r} has {known} and {size} elements")
            sizes[name] = known if size == 1 else size
    names, joined = _once(terms[0], operands[0])
    for at in range(1, len(operands)):
        wanted = output + [name for term in terms[at + 1:] for name in term]
        names, joined = _join(names, joined, *_once(terms[at], operands[at]), wanted, sizes)
    names, joined = _summed(names, joined, output)
    joined = joined.permute([names.index(name) for name in output])
    return joined.clone() if len(operands) == 1 else joined


def _named(term, rank, equation):
    """The names of an operand's dimensions: letters; what "..." stands for is ".0", ".1", ... from the right."""
    before, dots, after = term.partition("...")
    spread = rank - len(before) - len(after)
    if spread < 0 or (spread > 0 and not dots):
        raise RuntimeError(f"einsum: {term!r} of {equation!r} is for another number of dimensions than {rank}")
    if not (before + after).isalpha() and before + after:
        raise RuntimeError(f"einsum: names of dimensions are letters, not {term!r} of {equation!r}")
    return [name for name in before] + [f".{spread - 1 - at}" for at in range(spread)] + [name for name in after]


def _spread(terms):
    """What "..." stands for in the result, the most that a term has."""
    most = 0
    for term in terms:
        most = max(most, len([name for name in term if name[0] == "."]))
    return [f".{most - 1 - at}" for at in range(most)]


def _named_output(output, terms, equation):
    before, dots, after = output.partition("...")
    names = [name for name in before] + (_spread(terms) if dots else []) + [name for name in after]
    known = [name for term in terms for name in term]
    for at, name in enumerate(names):
        if name not in known or name in names[:at]:
            raise RuntimeError(f"einsum: {name!r} is in the result of {equation!r} twice, or in no operand")
    return names


def _implied(terms):
    known = [name for term in terms for name in term if name[0] != "."]
    return _spread(terms) + sorted([name for name in known if known.count(name) == 1])


def _once(names, tensor):
    """Where a dimension is named twice, its diagonal."""
    names = list(names)
    at = 0
    while at < len(names):
        first = names.index(names[at])
        if first == at:
            at = at + 1
            continue
        size = tensor.shape[at]
        if tensor.shape[first] != size:
            raise RuntimeError(f"einsum: dimension {names[at]!r} has {tensor.shape[first]} and {size} elements in one operand")
        shape = [size if dim in (first, at) else 1 for dim in range(len(names))]
        diagonal = _rt.eye(size, dtype=_rt.bool).reshape(shape)
        tensor = _rt.where(diagonal, tensor, False).sum(at, dtype=tensor.dtype)
        names.pop(at)
    return names, tensor


def _summed(names, tensor, wanted):
    dims = [at for at, name in enumerate(names) if name not in wanted]
    if not dims:
        return names, tensor
    return [name for name in names if name in wanted], tensor.sum(tuple(dims), dtype=tensor.dtype)


def _join(left, a, right, b, wanted, sizes):
    left, a = _summed(left, a, wanted + right)
    right, b = _summed(right, b, wanted + left)
    both = [name for name in left if name in right]
    kept = [name for name in both if name in wanted]
    gone = [name for name in both if name not in wanted]
    of_a, of_b = [name for name in left if name not in both], [name for name in right if name not in both]
    a = _arranged(left, a, kept + of_a + gone, gone, sizes)
    b = _arranged(right, b, kept + gone + of_b, gone, sizes)
    lead, rows, columns = ([sizes[name] for name in part] for part in (kept, of_a, of_b))
    if gone:
        inner = _count([sizes[name] for name in gone])
        lead = list(a.shape[:len(kept)])
        joined = a.reshape(lead + [_count(rows), inner]) @ b.reshape(list(b.shape[:len(kept)]) + [inner, _count(columns)])
        joined = joined.reshape(list(joined.shape[:len(kept)]) + rows + columns)
    else:
        joined = a.reshape(list(a.shape) + [1] * len(of_b)) * b.reshape(list(b.shape[:len(kept)]) + [1] * len(of_a) + columns)
    return kept + of_a + of_b, joined


def _arranged(names, tensor, order, gone, sizes):
    """The dimensions in this order; those that are summed, and those that only one has, in full size."""
    tensor = tensor.permute([names.index(name) for name in order])
    return tensor.expand([sizes[name] if name in gone else size for name, size in zip(order, tensor.shape)])


def _count(sizes):
    count = 1
    for size in sizes:
        count = count * size
    return count
