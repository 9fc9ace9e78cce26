"""Random programs for run.py: a function of tensors, numbers, containers, objects and a log; helpers of its own; and the
arguments to call it with. A seed gives the same program each time.

Some programs are about tensors only (loops, branches, views, in-place updates, breaks), others about one part of Python
or all of it (the tables of language.py). Most finish: the writer keeps track of each tensor's shape (a dimension is a
number or a letter) and kind, and of each other variable's type. Some raise, on purpose or because sizes change between
calls; that is compared too.
"""
import dataclasses
import functools
import random
import re
import warnings

import compound
import language

HEADER = "def f(a, b, c, n, s, items, box, log"


class Statement:
    """One statement: a line, or clauses such as "if x:" with their bodies."""

    def __init__(self, line, *bodies, clauses=()):
        self.clauses = [(line, bodies[0] if bodies else None), *zip(clauses, bodies[1:])]

    def lines(self, indent):
        for head, body in self.clauses:
            yield "    " * indent + head
            if body is not None:
                yield from body_lines(body, indent + 1)


class Lines:
    """Statements written from a template."""

    def __init__(self, lines):
        self.written = lines

    def lines(self, indent):
        return ("    " * indent + line for line in self.written)


def body_lines(body, indent):
    if not body:
        yield "    " * indent + "pass"
    for statement in body:
        yield from statement.lines(indent)


@dataclasses.dataclass(frozen=True)
class Tensor:
    shape: tuple
    kind: str  # f, i, b: floating, integer, bool


@dataclasses.dataclass
class Call:
    """The arguments of one call, as texts."""
    shared: dict  # name -> text: what several arguments are made of, made first
    parts: list   # one an argument
    again: bool = False  # with the objects that the first call had
    before: str = ""     # a statement that runs before it

    def text(self):
        return f"(lambda {', '.join(self.shared)}: ({', '.join(self.parts)}))({', '.join(self.shared.values())})"

    def codes(self):
        return [code_of(text) for text in [*self.shared.values(), *self.parts]]

    def made(self, space):
        known = {name: eval(code_of(text), space) for name, text in self.shared.items()}
        return tuple([eval(code_of(part), space, known) for part in self.parts])


@functools.lru_cache(maxsize=10_000)
def code_of(text, mode="eval"):
    """Of an argument's part: there are few of them, so that most have been compiled for another program."""
    return compile(text, "<arguments>", mode)


@dataclasses.dataclass
class Program:
    seed: int
    source: str  # of f and what it needs beside the library
    calls: list  # of Call


def broadcast(left, right):
    """The shape of left op right, None if they do not fit for sure."""
    longest = max(len(left), len(right))
    result = []
    for x, y in zip((1,) * (longest - len(left)) + left, (1,) * (longest - len(right)) + right):
        if x != y and x != 1 and y != 1:
            return None
        result.append(y if x == 1 else x)
    return tuple(result)


class Writer:
    def __init__(self, seed, attempt=0):
        self.draw = random.Random(seed if attempt == 0 else f"{seed} {attempt}")
        self.flavour = self.draw.choice(FLAVOURS)
        self.tensors = {name: Tensor(self.draw.choice(SHAPES), self.draw.choice("fffi")) for name in "abc"}
        self.parameters = dict(self.tensors)
        self.names = 0
        self.loops = 0      # around the statement being written
        self.budget = self.draw.randrange(4, 14) if self.flavour == "tensors" else self.draw.randrange(3, 9)
        self.variables = {kind: [] for kind in [*language.LEAVES]}  # type -> names
        self.log = "log"
        self.makers = []    # generator functions of this program
        self.anything = self.draw.choice(language.ANYTHING)

    # ---- Expressions: text and Tensor ----

    def number(self):
        return self.draw.choice(["2", "3", "-1", "0", "1", "0.5", "-1.5", "n", "s", "n + 1", "box.count", "total"])

    def known(self, accept=lambda tensor: True):
        names = [name for name, tensor in self.tensors.items() if accept(tensor)]
        return self.draw.choice(names) if names else None

    def tensor(self, depth=2):
        name = self.known()
        if depth == 0 or self.draw.random() < 0.25:
            return name, self.tensors[name]
        rule = self.draw.choice(EXPRESSIONS)
        return rule(self, depth) or (name, self.tensors[name])

    def partner(self, shape, depth):
        """An operand that fits beside a tensor of this shape."""
        name = self.known(lambda tensor: broadcast(tensor.shape, shape) is not None)
        if name is None or self.draw.random() < 0.35:
            return self.number(), Tensor((), "f")
        return name, self.tensors[name]

    def binary(self, depth):
        left, kind = self.tensor(depth - 1)
        right, other = self.partner(kind.shape, depth)
        op = self.draw.choice(["+", "-", "*", "+", "-", "*", "/", "//", "%"])
        if self.draw.random() < 0.15 and not self.is_number(right):
            left, right = right, left
        result = "f" if op == "/" or "f" in (kind.kind, other.kind) else "i"
        return f"({left} {op} {right})", Tensor(broadcast(kind.shape, other.shape), result)

    def is_number(self, text):
        return text not in self.tensors

    def unary(self, depth):
        text, tensor = self.tensor(depth - 1)
        name = self.draw.choice(["exp", "sin", "cos", "tanh", "sqrt", "abs", "relu", "log"])
        kind = tensor.kind if name in ("abs", "relu") else "f"
        return f"kt.{name}({text})", Tensor(tensor.shape, kind)

    def negation(self, depth):
        text, tensor = self.tensor(depth - 1)
        return f"(-{text})", tensor

    def by_bits(self, depth):
        left, kind = self.tensor(depth - 1)
        right, other = self.partner(kind.shape, depth)
        draw = self.draw
        if kind.kind == "f":
            left = f"{left}.{draw.choice(['int', 'long'])}()"
        if draw.random() < 0.2:
            return f"(~{left})", Tensor(kind.shape, "b" if kind.kind == "b" else "i")
        if self.is_number(right):
            right, other = draw.choice(["n", "3", "-1", "n + 1", "33", "255", "True"]), Tensor((), "i")
        elif other.kind == "f":
            right = f"{right}.long()"
        if draw.random() < 0.2:
            left, right = right, left
        result = "b" if kind.kind == other.kind == "b" else "i"
        return f"({left} {draw.choice(['&', '|', '^', '<<', '>>'])} {right})", Tensor(broadcast(kind.shape, other.shape), result)

    def compare(self, depth):
        text, tensor = self.tensor(depth - 1)
        right, other = self.partner(tensor.shape, depth)
        op = self.draw.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({text} {op} {right})", Tensor(broadcast(tensor.shape, other.shape), "b")

    def choose(self, depth):
        text, tensor = self.tensor(depth - 1)
        other, kind = self.partner(tensor.shape, depth)
        if self.draw.random() < 0.5:
            return f"kt.where({text} > 0, {text}, {other})", Tensor(broadcast(tensor.shape, kind.shape), tensor.kind)
        if self.is_number(other):
            return None
        name = self.draw.choice(["maximum", "minimum"])
        return f"kt.{name}({text}, {other})", Tensor(broadcast(tensor.shape, kind.shape), tensor.kind)

    def reduction(self, depth):
        text, tensor = self.tensor(depth - 1)
        name = self.draw.choice(["sum", "sum", "mean", "amax", "amin", "any", "all", "argmax"])
        if name == "mean" and tensor.kind != "f":
            name = "sum"
        kind = {"any": "b", "all": "b", "argmax": "i"}.get(name, tensor.kind if tensor.kind == "f" else "i")
        if not tensor.shape or self.draw.random() < 0.4:
            return f"{text}.{name}()", Tensor((), kind)
        dim = self.draw.randrange(len(tensor.shape))
        keep = self.draw.random() < 0.5
        shape = tensor.shape[:dim] + ((1,) if keep else ()) + tensor.shape[dim + 1:]
        return f"{text}.{name}(dim={dim}{', keepdim=True' if keep else ''})", Tensor(shape, kind)

    def view(self, depth):
        text, tensor = self.tensor(depth - 1)
        shape, draw = tensor.shape, self.draw
        if not shape:
            return f"{text}.reshape(1)", Tensor((1,), tensor.kind)
        kind = draw.randrange(8)
        if kind == 0:
            return f"{text}[{draw.choice([0, 1, -1])}]", Tensor(shape[1:], tensor.kind)
        if kind == 1:
            return f"{text}[1:]", Tensor((f"{shape[0]}-1", *shape[1:]), tensor.kind)
        if kind == 2:
            return f"{text}[:-1]", Tensor((f"{shape[0]}-1", *shape[1:]), tensor.kind)
        if kind == 3:
            return f"{text}[::2]", Tensor((f"{shape[0]}/2", *shape[1:]), tensor.kind)
        if kind == 4:
            return f"{text}.T", Tensor(shape[::-1], tensor.kind)
        if kind == 5:
            return f"{text}.reshape(-1)", Tensor(("*".join(map(str, shape)),), tensor.kind)
        if kind == 6:
            return f"{text}.unsqueeze(0)", Tensor((1, *shape), tensor.kind)
        return f"{text}[None, ..., :2]", Tensor((1, *shape[:-1], 2), tensor.kind)

    def arranged(self, depth):
        """Powers, whole numbers, scans, elements by their numbers or by a mask."""
        text, tensor = self.tensor(depth - 1)
        draw, shape, kind = self.draw, tensor.shape, tensor.kind
        if kind == "b":
            text, kind = f"{text}.float()", "f"
        number = self.number()
        if not shape or draw.random() < 0.4:
            return draw.choice([
                (f"({text} ** {number})", Tensor(shape, "f")), (f"(2.0 ** {text})", Tensor(shape, "f")),
                (f"{text}.pow(2)", Tensor(shape, kind)), (f"kt.{draw.choice(['floor', 'ceil', 'round', 'trunc', 'sign'])}({text})", Tensor(shape, kind)),
                (f"{text}.clamp(-1, {number})", Tensor(shape, "f")), (f"{text}.masked_fill({text} > 0, -1)", Tensor(shape, kind))])
        mask = (f"?{draw.randrange(1000)}",)  # a size that nobody knows
        return draw.choice([
            (f"{text}.cumsum(0)", Tensor(shape, kind)), (f"{text}.argsort(0)", Tensor(shape, "i")),
            (f"{text}.sort({len(shape) - 1}).values", Tensor(shape, kind)), (f"{text}.max(0).values", Tensor(shape[1:], kind)),
            (f"{text}.topk(1, 0).indices", Tensor((1, *shape[1:]), "i")), (f"{text}[kt.tensor([0, -1, 0])]", Tensor((3, *shape[1:]), kind)),
            (f"{text}[..., kt.tensor([[1, 0]])]", Tensor((*shape[:-1], 1, 2), kind)), (f"{text}[[n % 2, 0]]", Tensor((2, *shape[1:]), kind)),
            (f"{text}[{text} > {draw.choice('01')}]", Tensor(mask, kind)), (f"{text}.argmin(0)", Tensor(shape[1:], "i")),
            (f"{text}.chunk(2)[0]", Tensor((f"{shape[0]}/2", *shape[1:]), kind))])

    def product(self, depth):
        name = self.known(lambda tensor: len(tensor.shape) in (1, 2) and tensor.kind == "f")
        if name is None:
            return None
        left = self.tensors[name]
        other = self.known(lambda tensor: tensor.kind == "f" and len(tensor.shape) in (1, 2)
                           and tensor.shape[0] == left.shape[-1])
        if other is None:
            return f"({name} @ {name}.T)", Tensor(left.shape[:-1] * 2, "f")
        return f"({name} @ {other})", Tensor(left.shape[:-1] + self.tensors[other].shape[1:], "f")

    def joined(self, depth):
        text, tensor = self.tensor(depth - 1)
        if len(tensor.shape) > 2:
            return None
        if not tensor.shape or self.draw.random() < 0.5:
            return f"kt.stack([{text}, {text} + 1])", Tensor((2, *tensor.shape), tensor.kind)
        length = f"{tensor.shape[0]}+{tensor.shape[0]}"
        return f"kt.cat([{text}, {text}])", Tensor((length, *tensor.shape[1:]), tensor.kind)

    def cast(self, depth):
        text, tensor = self.tensor(depth - 1)
        method, kind = self.draw.choice([("float", "f"), ("double", "f"), ("long", "i"), ("clone", tensor.kind)])
        return f"{text}.{method}()", Tensor(tensor.shape, kind)

    def called(self, depth):
        text, tensor = self.tensor(depth - 1)
        kind = "f" if tensor.kind == "b" else tensor.kind
        return self.draw.choice([
            (f"scale({text})", Tensor(tensor.shape, kind)),
            (f"scale({text}, {self.number()}, plus={self.number()})", Tensor(tensor.shape, "f")),
            (f"scale({text}, 3, 1, *[2, n])", Tensor(tensor.shape, "f")),
            (f"pick({text}, n > 2)", Tensor(tensor.shape, kind)),
            (f"opaque({text})", tensor),
            (f"disabled({text})", tensor),
            (f"(lambda x, k=n: x + k)({text})", Tensor(tensor.shape, kind)),
            (f"Box({text}).twice", Tensor(tensor.shape, kind)),
            (f"sum([{text} * i for i in range(3)])", Tensor(tensor.shape, kind)),
            (f"max([{text}, {text} + 1], key=lambda t: t.sum().item())", tensor),
        ])

    def condition(self):
        text, tensor = self.tensor(1)
        return self.draw.choice([
            f"{text}.sum().item() > {self.draw.choice('0132')}", f"({text} > {self.draw.choice('012')}).any()",
            f"({text} >= 0).all()", "n > 2", "n % 2 == 0", "s < 1.0", "box.count > n", "len(items) > 2",
            "n in (1, 2, 5)", "isinstance(s, float) and n != 3", "log",
            f"{text}.shape[0] > 3" if tensor.shape else "not items",
        ])

    # ---- Statements ----

    def fresh(self, tensor, scope):
        self.names += 1
        name = f"t{self.names}"
        self.tensors[name] = tensor
        scope.append(name)
        return name

    def assign(self, scope):
        text, tensor = self.tensor(3)
        same = self.known(lambda known: known == tensor)
        if same and self.draw.random() < 0.4:
            return Statement(f"{same} = {text}")
        return Statement(f"{self.fresh(tensor, scope)} = {text}")

    def in_place(self, scope):
        target = self.known(lambda tensor: tensor.kind != "b")
        if target is None:
            return self.assign(scope)
        tensor, draw = self.tensors[target], self.draw
        value, _ = self.partner(tensor.shape, 1)
        if value in self.tensors and len(self.tensors[value].shape) > len(tensor.shape):
            value = self.number()
        choices = [f"{target} {draw.choice(['+=', '-=', '*='])} {value}",
                   f"{target}.{draw.choice(['add_', 'mul_'])}({value})",
                   f"{target}.copy_({value} + {target})"]
        if tensor.shape:
            choices += [f"{target}[{draw.choice(['0', '-1', 'n % 3', '1:', '::2', ':'])}] = {self.number()}",
                        f"{target}[0] += {target}[-1]", f"{target}[1:] = {target}[:-1]", f"{target}.T.mul_(2)",
                        f"{target}[:-1] += {target}[1:]", f"{target}[:] = {value}", f"{target}[{target} > 1] = {self.number()}",
                        f"{target}[kt.tensor([0, -1])] {draw.choice(['=', '+='])} {self.number()}"]
        return Statement(draw.choice(choices))

    def effect(self, scope):
        text, tensor = self.tensor(2)
        number = self.number()
        return Statement(self.draw.choice([
            f"log.append({text}.sum().item())", f"log.append({number})", f"items.append({text})", f"box.value = {text}",
            "box.count += 1", f"box.grow(by={number})", f"items[0] = {text}", f"print({text}.sum().item(), n)",
            "count_calls()", "kt._dynamo.graph_break()", f"opaque({text})", f"setattr(box, 'extra', {number})",
            f"n = {self.draw.choice(['n + 1', 'n * 2 % 7', 'len(items)', f'int({text}.sum() > 0)'])}",
            f"s = {self.draw.choice(['s * 0.5', 's + n', f'float({text}.sum())'])}",
            f"log.extend([len(items), {number}])", f"log.append(({text} > 1).any().item())", "del items[-1:]",
        ]))

    def branch(self, scope):
        clauses = [self.body()]
        heads = []
        if self.draw.random() < 0.3:
            heads.append(f"elif {self.condition()}:")
            clauses.append(self.body())
        if self.draw.random() < 0.5:
            heads.append("else:")
            clauses.append(self.body())
        return Statement(f"if {self.condition()}:", *clauses, clauses=heads)

    def loop(self, scope):
        self.names += 1
        index = f"i{self.names}"
        trips = ["2", "3"] if self.loops else ["2", "3", "12", "n", "n + 1", "40"]
        head = self.draw.choice([
            f"for {index} in range({self.draw.choice(trips)}):", f"for {index}, item in enumerate(items[:3]):",
            f"for {index} in (1, 2, 0):", f"for {index} in zip(items[:2], 'xyz'):",
            f"for {index} in {self.known()}[:3]:", "while n > 0:", f"while len(log) < {self.draw.choice([4, 9])}:",
        ])
        self.loops += 1
        body = self.body()
        self.loops -= 1
        if head == "while n > 0:":
            stop = Statement("if len(log) > 30:", [Statement("break")])
            body = [Statement("n -= 1"), Statement("log.append(n)"), stop, *body]
        elif head.startswith("while"):
            body = [Statement("log.append(len(log))"), *body]
        elif "range" in head and self.draw.random() < 0.5:
            name = self.known(lambda tensor: tensor.kind == "f")
            if name:
                body.append(Statement(f"{name} = {name} * 0.5 + {index}"))
        orelse = [self.body()] if self.draw.random() < 0.15 else []
        return Statement(head, body, *orelse, clauses=["else:"] * len(orelse))

    def attempt(self, scope):
        risky = self.draw.choice([
            "raise ValueError('asked for')", "log.append(must_be_small(n))", "log.append(7 // (n % 2))",
            "log.append(items[n])", "box.missing", f"{self.known()}[n]", f"{self.known()} // (n % 2)",
            "opaque(1 // (n % 3))", f"{self.known()} @ kt.ones(99)", "kt.tensor([1, 2]) // kt.tensor([1, n % 2])",
        ])
        body = self.body()
        body.insert(self.draw.randrange(len(body) + 1), Statement(risky))
        caught = self.draw.choice(["ValueError", "(IndexError, ZeroDivisionError)", "Exception", "RuntimeError"])
        handler = [Statement("log.append(str(error))"), *self.body()]
        last = [self.body()] if self.draw.random() < 0.3 else []
        clauses = [f"except {caught} as error:", "finally:"][:1 + len(last)]
        return Statement("try:", body, handler, *last, clauses=clauses)

    def managed(self, scope):
        swallows = self.draw.choice(["", ", True"])
        return Statement(f"with Noting(log{swallows}):", self.body())

    def leave(self, scope):
        if self.loops and self.draw.random() < 0.6:
            return Statement(f"if {self.condition()}:", [Statement(self.draw.choice(["break", "continue"]))])
        return Statement(f"if {self.condition()}:", [Statement(f"return {self.known()}, n")])

    def closure(self, scope):
        text, tensor = self.tensor(1)
        self.names += 1
        name = f"g{self.names}"
        result = self.fresh(tensor, scope)
        return (Statement(f"def {name}(k):", [Statement(f"return {text} * 1 + k * n")]),
                Statement(f"{result} = {name}({self.number()})"))

    def body(self):
        """A block. Variables that it makes are forgotten after it: they may be unbound there."""
        scope, statements = [], []
        saved = self.known_variables()
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            statements += self.statement(scope)
        for name in scope:
            self.tensors.pop(name, None)
        self.variables = saved
        return statements

    def statement(self, scope):
        self.budget -= 1
        rules = RULES[self.flavour]
        if self.budget <= 0:
            rules = [rule for rule in rules if rule[0] in SHORT]
        written = self.draw.choices([rule for rule, _ in rules], [weight for _, weight in rules])[0](self, scope)
        return list(written) if isinstance(written, tuple) else [written]

    # ---- Templates of language.py ----

    def known_variables(self):
        return {kind: list(names) for kind, names in self.variables.items()}

    def one_of(self, kind, depth=2, quoted=False):
        """An expression of the type. `quoted`: inside an f-string, where it must stay simple."""
        draw = self.draw
        if kind == "any":
            kind = draw.choice(ANY)
        if kind == "ints":
            return self.filled(draw.choice(INTS), {}, depth)
        if kind == "iterable":
            kind = draw.choice(["list", "tuple", "iter", "set", "deque"])
        if kind == "tensor":
            return self.tensor(1)[0] if self.log == "log" else "kt.ones(3)"
        if kind == "iter" and self.makers and draw.random() < 0.3:
            return self.filled(f"{draw.choice(self.makers)}($int, $small)", {}, depth - 1)
        if quoted or depth <= 0 or kind not in language.EXPRESSIONS or draw.random() < 0.3:
            names = self.variables[kind]
            if names and draw.random() < 0.75:
                return draw.choice(names)
            leaf = draw.choice(language.LEAVES[kind])
            return leaf.replace("'", '"') if quoted else leaf
        return self.filled(draw.choice(EXPRESSION_ROWS[kind]), {}, depth - 1)

    def filled(self, template, names, depth=2):
        """A line of a template with every placeholder filled in; `names` are those of the whole template."""
        quoted = "f'" in template
        made = []

        def place(found):
            kind, name, of = found.groups()
            if name:
                if name not in names:
                    self.names += 1
                    names[name] = f"{name if name in 'fg' else 'v'}{self.names}"
                if of:
                    made.append((of, names[name]))
                return names[name]
            if kind in ("log", "errors", "about", "raisable", "trips"):
                return self.log if kind == "log" else self.filled(self.draw.choice(WORDS[kind]), names, depth)
            if kind.endswith("_name"):
                return self.draw.choice(self.variables[kind[:-5]] or [self.log])
            if kind.startswith("set_"):
                return self.draw.choice(self.variables[kind[4:]] or ["unknown"])
            text = self.one_of(kind, depth, quoted)
            return text if SIMPLE_TEXT.fullmatch(text) else f"({text})"

        text = PLACE.sub(place, template)
        for kind, name in made:
            if name not in self.variables[kind]:
                self.variables[kind].append(name)
        return text

    def template(self, template):
        names, lines = {}, []
        for line in template.split("\n"):
            text = line.lstrip()
            indent = line[:len(line) - len(text)]
            if text == "$body":
                written = body_lines(self.body(), 0)
            elif text in ("$helper", "$risk"):
                saved = self.known_variables()
                rows = language_rows(text == "$risk", nested=True, module=self.log != "log")
                written = self.row(self.chosen_row(rows))
                self.variables = saved
            else:
                written = [self.filled(text, names)]
            lines += [indent + part for part in written]
        return lines

    def row(self, row):
        names = {}
        return [self.filled(part, names) for part in row.split(" ;; ")]

    def chosen_row(self, rows):
        """One whose variables there are."""
        for _ in range(9):
            row = self.draw.choice(rows)
            if all(self.variables[kind] for kind in CHANGED.findall(row)):
                break
        return row

    def simple(self, scope):
        return Lines(self.row(self.chosen_row(language_rows())))

    def risk(self, scope):
        return Lines(self.row(self.chosen_row(language_rows(risky=True))))

    def compound(self, scope):
        part = self.flavour if self.flavour in compound.COMPOUND else self.draw.choice([*compound.COMPOUND])
        saved = self.known_variables()
        self.loops += 1  # enough to have branches and few turns inside
        lines = self.template(self.draw.choice(compound.COMPOUND[part]))
        self.loops -= 1
        self.variables = saved
        return Lines(lines)

    def definitions(self):
        """Functions and generators beside f."""
        lines, saved = [], self.known_variables()
        self.log = "NOTES"
        for rows in self.draw.choice([(), (compound.HELPERS,), (compound.GENERATORS,),
                                      (compound.HELPERS, compound.GENERATORS)]):
            self.variables = {kind: [] for kind in self.variables}
            self.variables["int"] = ["p", "q"]
            written = self.template(self.draw.choice(rows))
            lines += [*written, "", ""]
            name = written[0].split()[1].split("(")[0]
            if rows is compound.HELPERS:
                saved["fn"].append(name)
            else:
                self.makers.append(name)
        self.log, self.variables = "log", saved
        return lines

    def whole(self):
        """The text of the program."""
        scope, statements, before, more = [], [], [], ""
        if self.flavour != "tensors":
            before = self.definitions()
            more = ", w, xs, d, o, u"
            for kind, name in (("int", "n"), ("float", "s"), ("str", "w"), ("list", "xs"), ("dict", "d"), ("object", "o"), ("other", "u")):
                self.variables[kind].append(name)
            statements.append(Lines(["global total"]))
        while self.budget > 0:
            statements += self.statement(scope)
        alive = list(self.tensors)
        self.draw.shuffle(alive)
        others = [name for names in self.variables.values() for name in names if name not in ("n", "s")]
        shown = alive[:3] + self.draw.sample(others, min(len(others), 4))
        statements.append(Statement(f"return {', '.join(shown)}, n, s"))
        return "\n".join([*before, HEADER + more + "):", *body_lines(statements, 1)]) + "\n"

    # ---- Arguments ----

    def arguments(self, size, change):
        """A call. `change`: how likely each argument differs from the first call's."""
        draw = self.draw
        shared = {}
        for name, tensor in self.parameters.items():
            sizes = tuple(size if dim == "N" else dim for dim in tensor.shape)
            dtype = {"f": "float32", "i": "int64", "b": "bool"}[tensor.kind]
            if draw.random() < change:
                dtype = draw.choice(["float64", "float32", "int64", "int32"])
            layout = draw.choice(["", "transposed", "strided"]) if draw.random() < change else ""
            shared[name] = f"make({sizes}, {dtype!r}, {draw.randrange(9)}, {layout!r})"
        n, s = (draw.randrange(-1, 9), draw.choice([0.25, 1.5, -2.0])) if draw.random() < change else (2, 0.5)
        shared["i"], shared["j"] = shared["a"], shared["b"]  # others like these
        items = ["i", "j", "1.5"][:draw.randrange(1, 4) if draw.random() < change else 2]
        alias = "a" if draw.random() < 0.1 else "b"
        held, more = "a", []
        if self.flavour != "tensors":
            changed = [draw.random() < change for _ in range(5)]
            w = draw.choice(["'a b c'", "''", "'12'"]) if changed[0] else "'word'"
            shared["xs"] = draw.choice(["[]", "[5]", "[2, 2, 0, -3]", "[1.5, 2]", "[1, 'x']"]) if changed[1] else "[3, 1, 4, 1]"
            d = draw.choice(["{}", "{'q': 3, 'p': 0}", "{'a': 1, 2: 4}", "Counter('pq')"]) if changed[2] else "{'p': 2, 'q': 7}"
            o = draw.choice(language.OWN_OBJECTS) if changed[3] else "Base(3)"
            u = draw.choice(language.ANYTHING) if changed[4] else self.anything
            more = [w, "xs", d, o, u]
            held = draw.choice("aa") if draw.random() > change else "xs"
        return Call(shared, ["a", alias, "c", str(n), str(s), f"[{', '.join(items)}]", f"Box({held})", "[]", *more])


SHAPES = [("N",), ("N",), ("N", 3), (3, "N"), ("N", "N"), (), (1, "N"), (3,), (2, 3, "N")]
EXPRESSIONS = [Writer.binary] * 6 + [Writer.by_bits] * 2 + [Writer.unary] * 3 + [Writer.view] * 4 + [Writer.arranged] * 2 + [
    Writer.negation, Writer.compare, Writer.choose, Writer.choose, Writer.reduction, Writer.reduction, Writer.product,
    Writer.joined, Writer.cast, Writer.called, Writer.called]
STATEMENTS = [(Writer.assign, 8), (Writer.in_place, 4), (Writer.effect, 4), (Writer.branch, 3), (Writer.loop, 2),
              (Writer.attempt, 2), (Writer.managed, 1), (Writer.leave, 1), (Writer.closure, 1)]
SHORT = (Writer.assign, Writer.in_place, Writer.effect, Writer.simple)
LANGUAGE = [(Writer.assign, 2), (Writer.effect, 1), (Writer.branch, 1), (Writer.leave, 1), (Writer.simple, 9),
            (Writer.risk, 0.5), (Writer.compound, 8)]
FLAVOURS = ["tensors", "tensors", "mixed", *compound.COMPOUND, *compound.COMPOUND, "everything", "everything"]
RULES = {"tensors": STATEMENTS, "mixed": STATEMENTS + [(Writer.simple, 8), (Writer.compound, 6)],
         **{part: LANGUAGE for part in [*compound.COMPOUND, "everything"]}}

# ---- The tables of language.py, split ----

PLACE = re.compile(r"\$(\w+)|@([1-9fg])\b(?::(int|str|list|dict|set|iter|tuple|object|fn|float|deque)\b)?")
SIMPLE_TEXT = re.compile(r"\w+|'[^']*'")
ANY = "int int float str list tuple dict set object thing thing other other tensor bool iter fn deque".split()
INTS = ["$deque", "$tuple", "$list[:4]", "sorted($list)", "$set", "range(3)", "[*$tuple, $int]", "Walkable(1, $int)", "(2, $int, 0)"]
WORDS = {"errors": language.ERRORS, "about": language.ABOUT, "trips": ["2", "3", "3", "5", "n"],
         "raisable": ["ValueError($int)", "Numbered(1)", "KeyError('k')", "TypeError('t')"]}


def split(table):
    return [row.strip() for line in table.strip().split("\n") for row in line.strip().split(" | ")]


EXPRESSION_ROWS = {kind: split(table) for kind, table in language.EXPRESSIONS.items()}
ROWS = {False: split(language.SIMPLE), True: split(language.RISKS)}
BINDS = re.compile(r"\$(set_|list_name|dict_name|deque_name)\w* [-+*|&^]?= |total|xs")      # a variable of the function around
ARGUMENTS = re.compile(r"\b(o|box|items|xs|a|u)[.\[ ,)]|\(o,|\$(set_|list_name|dict_name|deque_name)|total")  # what only f has
CHANGED = re.compile(r"\$(set|list|dict|deque)_name")
ROWS_OF = {(risky, nested, module): [row for row in rows if not (nested and BINDS.match(row))
                                     and not (module and ARGUMENTS.search(row))]
           for risky, rows in ROWS.items() for nested in (False, True) for module in (False, True)}


def language_rows(risky=False, nested=False, module=False):
    return ROWS_OF[risky, nested, module]


@functools.lru_cache(maxsize=1)
def compiled(source):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, "<program>", "exec")


def program(seed):
    for attempt in range(100):
        writer = Writer(seed, attempt)
        source = writer.whole()
        try:
            compiled(source)
        except SyntaxError:  # an assignment expression where none may stand, and the like
            continue
        break
    first, draw = writer.arguments(4, 0), writer.draw
    calls = [first, first, writer.arguments(4, 0.3), first, writer.arguments(draw.choice([5, 7, 1, 0]), 0.2),
             writer.arguments(6, 0.5)]
    if writer.flavour != "tensors" and draw.random() < 0.5:
        calls[3] = dataclasses.replace(first, before=draw.choice(language.BETWEEN), again=draw.random() < 0.3)
        calls[4].before = draw.choice(["", *language.BETWEEN])
    elif draw.random() < 0.3:
        calls[1] = dataclasses.replace(first, again=True)
    return Program(seed, source, calls)
