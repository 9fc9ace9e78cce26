"""Makes a failing program smaller: the ways to leave out or simplify one part of its syntax tree."""
import ast
import copy

BLOCKS = ("body", "orelse", "finalbody")


def lists_of(tree):
    """Every list of the tree with parts that may be left out: (list, fewest that must stay)."""
    for node in ast.walk(tree):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block, 0
        if isinstance(node, (ast.Try, ast.TryStar)):
            yield node.handlers, 0 if node.finalbody and not node.orelse else 1
        if isinstance(node, ast.Match):
            yield node.cases, 1
        if isinstance(node, (ast.With, ast.AsyncWith)):
            yield node.items, 1
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.decorator_list, 0
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Call, ast.JoinedStr, ast.BoolOp)):
            parts = getattr(node, "elts", None) or getattr(node, "args", None) or getattr(node, "values", None)
            if parts:
                yield parts, 2 if isinstance(node, ast.BoolOp) else 0


def inner_blocks(statement):
    """The blocks of a compound statement that may stand in its place."""
    for name in BLOCKS:
        if isinstance(getattr(statement, name, None), list) and getattr(statement, name):
            yield getattr(statement, name)
    for clause in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
        yield clause.body


def expressions_of(tree):
    """(owner, field, index or None) of each expression that something simpler may replace."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.pattern, ast.match_case)):
            continue
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", None), (ast.Store, ast.Del)):
                yield node, field, None
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                for i, part in enumerate(value):
                    if isinstance(part, ast.expr) and not isinstance(getattr(part, "ctx", None), (ast.Store, ast.Del)):
                        yield node, field, i


def replace(owner, field, index, value):
    if index is None:
        setattr(owner, field, value)
    else:
        getattr(owner, field)[index] = value


def variants(source):
    """Texts of slightly smaller programs, big steps first."""
    tree = ast.parse(source)

    def text(edit):
        """The tree after `edit` of a copy of it."""
        changed = copy.deepcopy(tree)
        edit(changed)
        for node in ast.walk(changed):
            if isinstance(getattr(node, "body", None), list) and not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.Pass())
        try:
            return ast.unparse(ast.fix_missing_locations(changed)) + "\n"
        except (ValueError, AttributeError, TypeError):
            return source

    def without(number, start, stop):
        def edit(changed):
            block, _ = list(lists_of(changed))[number]
            del block[start:stop]
        return edit

    def hoisted(number, i, j):
        def edit(changed):
            block, _ = list(lists_of(changed))[number]
            block[i:i + 1] = list(inner_blocks(block[i]))[j]
        return edit

    def simpler(number, j):
        def edit(changed):
            owner, field, index = list(expressions_of(changed))[number]
            value = getattr(owner, field) if index is None else getattr(owner, field)[index]
            parts = [part for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)]
            replace(owner, field, index, parts[j] if j < len(parts) else ast.Constant(1))
        return edit

    for number, (block, fewest) in enumerate(lists_of(tree)):
        for size in sorted({len(block), len(block) // 2, 1} - {0}, reverse=True):
            for start in range(0, len(block) - size + 1, size):
                if len(block) - size >= fewest:
                    yield text(without(number, start, start + size))
        for i, statement in enumerate(block):
            if isinstance(statement, ast.stmt):
                for j, _ in enumerate(inner_blocks(statement)):
                    yield text(hoisted(number, i, j))
    for number, (owner, field, index) in enumerate(expressions_of(tree)):
        value = getattr(owner, field) if index is None else getattr(owner, field)[index]
        children = sum(isinstance(part, ast.expr) for part in ast.iter_child_nodes(value))
        for j in range(children + (not isinstance(value, (ast.Constant, ast.Name)))):
            yield text(simpler(number, j))
