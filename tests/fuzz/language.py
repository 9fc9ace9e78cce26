"""The grammar of random programs beyond tensors: tables of templates by type, used by programs.Writer.

`$int` stands for an expression of that type (the tables below), `$body` on its own line for a block, `$simple` and
`$risk` for one statement, `$any` for a value of any type. `@1` is a name made for this use of a template; `@1:int`
says besides that from the next line on it is a variable of that type. `$log` is a list that takes notes.

Most expressions cannot fail; those that can stand in `RISKS` and, few, in the other tables. Values stay small: what
feeds on itself is cut or reduced, so that no loop blows it up.
"""

# Without names, for any scope. Variables of the type come beside them.
LEAVES = {
    "int": "0 1 2 3 -1 7 12 0 1 2 3 True 300".split(),
    "small": "0 1 2 -1 1 0".split(),
    "float": "0.5 -1.5 2.0 0.0 1e3".split(),
    "str": ["'abc'", "'x y'", "''", "'Abc d'", "'p'"],
    "key": ["'p'", "'q'", "'z'"],
    "list": ["[3, 1, 2]", "[]", "[4, 4, 0, 9]", "[1]", "[3, 1, 2]", "[0, 7]", "Stack([2, 5])"],
    "tuple": ["(1, 2)", "(3, 1, 2)", "()", "(5,)"],
    "dict": ["{'p': 1, 'q': 2}", "{}", "dict(z=4, p=0)", "{'p': 1, 'q': 2}", "OrderedDict(q=1, p=3)", "defaultdict(int, z=2)", "Filling(p=4)"],
    "set": ["{1, 5}", "set()", "{3, 2, 1}", "frozenset((1, 4))"],
    "deque": ["deque([2, 1])", "deque((1, 2, 3), 3)", "deque()"],
    "bool": ["True", "False"],
    "iter": ["iter((1, 2, 3))", "iter([])"],
    "fn": ["abs", "(lambda v: v + 1)", "int"],
    "object": ["Base(3)", "Left(1)"],
    "thing": ["Point(1, 2)", "Fixed(2)"],
    "other": ["None", "...", "b'ab'", "2 ** 70", "1j", "NotImplemented", "range(3)", "slice(1, None)", "-2 ** 63", "float('nan')", "-0.0"],
}

EXPRESSIONS = {
    "int": """
        $int + $int | $int - $int | $int * $small | $int // 3 | $int % 5 | -$int | abs($int) | ~$int | $int & $int
        $int | 4 ^ $small | $int << 2 | $int >> 1 | divmod($int, 3)[1] | pow($int, 3, 7) | $int ** 2 % 11
        len($list) | len($dict) | len($str) | len($set) | len($tuple) | sum($ints) | min($ints, default=$int)
        max($ints, key=lambda v: -v, default=$int) | max($int, $int) | min($int, $int, key=lambda v: v % 3)
        ($tuple or (1,))[0] | ($list + [5])[$small] | (0, $int, *$tuple)[1:][0] | $dict.get($key, $int)
        $dict.setdefault($key, $int) | $dict.pop($key, $int) | ($list or [7]).pop() | $list.count($int)
        ($int if $bool else $int) | (@1 := $int) + @1 | int($bool) | ord(($str or 'e')[0]) | int('12') | int(7.9)
        next(iter($tuple), $int) | int($tensor.sum()) | $tensor.shape[0] if $tensor.shape else 0 | next($iter, $int) | next((v for v in $ints if v > $int), -5)
        reduce(lambda p, q: (p * 3 + q) % 101, $ints, 1) | $fn($int) | spread($int, $small)[1] | only(2, k=$int)
        factorial(4) | factorial($small) | kept($int) | plus_one($int) | remembered($small) | counter($int)(2)
        answer_anyway($small) | Base.twice($int) | Base(2).v | Pair($int).right | Row('k').doubled().value
        Point($int).moved(2).x | Slim(2).v | Level.HIGH + $int | Colour.BLUE.value | Square(3).area()
        sum(1 for _ in $iterable) | len(Walkable(1, 2)) | Indexed(9)[4] | Countdown(3).__next__() | TABLE['p']
        TABLE.get($key, 0) | total | math.gcd($int, 6) | math.floor($float) | round($float) | operator.add($int, 2)
        operator.itemgetter(0)([4]) | sum([v * w for v in $tuple[:2] for w in (1, 2)]) | len({v % 2 for v in $ints})
        int.from_bytes(b'ab', 'big') | ($int).bit_length() | (2 ** 70 + $int) % 97 | (10 ** 20 * $int) % 13
        sum(map(abs, $ints)) | sum(map(operator.mul, $tuple, (1, 2, 3))) | sum(filter(None, $ints))
        [*$tuple, $int][-1] | (lambda p, *q, k=2: p + len(q) + k)($int, *$tuple) | hash($str) - hash($str)
        int(abs(3 + 4j)) | (lambda: $int)() | deque($list, maxlen=2).maxlen | Counter($list)[1] | defaultdict(int)[2]
        Filling()[$int] | list(count_to(3))[-1] | functools.partial(spread, k=3)(1)[3] | 'abcabc'.find('c')
        'abca'.count('a') | len($str.split()) | (-7) // 2 | -7 % 3 | int(-7 / 2) | True + $int | len(range($small, 9, 2))
        len($deque) | $deque.count($int) | sum($deque) | ($deque or [4])[0] | ($deque or [5])[-1] | (2 ** 62 + $int) * 4 >> 62
        (2 ** 63 - 1 + $int) % 1000 | int.from_bytes((300 + abs($int) % 9).to_bytes(2, 'big'), 'little') | b'abc'[$small % 3]
        len(frozenset($ints) | $set) | reduce(operator.add, $ints, $int) | functools.partial(only, k=$int)(1) | Stack($ints).top
        round($int, -1) | ($int).__add__(2) | len($str.encode())
        operator.attrgetter('v')(Base($int)) | operator.methodcaller('count', 1)($list) | sum(v for row in [$ints, $tuple] for v in row)
        range(9)[$small] | $object.v | getattr($object, 'v', $int) | len(sorted($set)) | copy.copy(Point(3)).x
        """,
    "bool": """
        $int > $int | $int == $int | $int <= $int < 9 | 0 < $int != 3 | not $bool | $bool and $int > 1 | $bool or $list
        $int in $list | $int not in $tuple | $key in $dict | $int in $set | $str in 'abc xy' | $list == $list
        $tuple < (1, 3) | $set <= {1, 2, 5} | $object is $object | $other is None | isinstance($any, (int, str))
        isinstance($object, Base) | any(v > 2 for v in $ints) | all($ints) | any(map(bool, $list)) | bool($str)
        callable($any) | hasattr($object, 'v') | $str.startswith('a') | $str == $str | $str.isalpha() | $float > 0.0
        $float == $float | Fixed(1) < Fixed($small) | Point(1) == Point($small) | Colour.RED is Colour(1)
        Access.READ in Access.READ | Access.WRITE | 2 in Walkable(1, 2) | issubclass(Both, Left) | $dict == $dict
        $dict.keys() >= {'p'} | $dict.items() == {}.items() | isinstance(1, int) is True | type($int) is int
        $set.isdisjoint($ints) | $set < {1, 2, 3, 4, 5} | $set >= frozenset($ints) | frozenset((1, 4)) == {1, 4} | $deque == deque([2, 1])
        $int in $deque | $tuple is $tuple | isinstance($any, collections.abc.Iterable) | isinstance($any, collections.abc.Hashable)
        $int > $float | $float != $float | $str > 'abc' | $str.endswith(('c', 'd')) | b'a' in b'abc' | $dict.keys().isdisjoint('zq') | bool($deque)
        math.isclose($float, 0.5) | $int is not None | (@1 := $int) > 1 and @1 < 9 | $list is $list | Box(1) == Box(1)
        """,
    "float": """
        $float + $float | $tensor.sum().item() | $float * 0.5 | -$float | $int / 4 | abs($float) | float($int) | $float - $int
        max($float, 0.25) | round($float, 1) | math.sqrt(abs($float)) | float('1.5') | $float // 2 | $float % 1.5
        sum([0.5, $float]) | math.fsum([$float, 1]) | (1 + 2j).imag | complex($float, 1).real | min($float, $int)
        Slim(1).w | $float if $bool else $float | math.pi * $float | 2.0 ** $small | float(len($list)) | $int * 1.0
        """,
    "str": """
        ($str + $str)[-9:] | $str.upper() | $str.title() | ($str * 2)[:7] | $str[$small:] | $str[::-1] | str($int)
        f'{$int}' | f'{$int:>4}|' | f'{$float:.2f}' | f'{$str[:5]!r:<6}' | f'{$int:#x} {$int:+d}' | f'{$list} {$bool}'
        f'{$float:{8}.{2}e}' | f'{$int=}' | '%d %s' % ($int, $str) | '%r' % ($tuple,) | '%05.1f' % $float
        '{} {}'.format($int, $str) | '{0!r:>5}{k}'.format($int, k=$str) | ' '.join(map(str, $ints))
        '-'.join($str.split()) | ','.join(sorted($dict)) | $str.replace('a', 'bb', 2)[:8] | $str.strip('a') | $str.zfill(4)
        $str.center(5, '*') | $str.partition('b')[2] | repr($tuple) | repr($float) | str($bool) | chr(97 + $int % 26)
        $str.join('ab') [:6] | $str.swapcase() | 'aXb'.lower() | format($int, 'b') | format(1234567, ',') | ascii('é')
        type($any).__name__ | $str if $bool else $str | named($any) | Base($int).describe() | Both(1).describe()
        repr(Base($int)) | repr(Point(1)) | repr(Fixed($small)) | str(Colour.RED) | Colour.RED.next.name | f'{Level.LOW}'
        Registered(1).tag | $str.encode().decode() | b'ab'.hex() | str(b'x') | 'ab' 'c' | $str.rsplit(' ', 1)[0]
        str(2 ** 70 + $int) | str(1j * $int) | $str.removeprefix('a') | plus_one.__name__ | max($str, 'b') | $str or 'e'
        """,
    "list": """
        [$int, $int] | [*$tuple, $int] | $list + [$int] | $list[1:] | $list[::-1] | ($list * 2)[:5] | sorted($ints)
        sorted($ints, key=lambda v: (v % 3, -v)) | sorted($list, reverse=True) | list($ints) | list(reversed($list))
        [v + 1 for v in $ints] | [v for v in $ints if v > $int] | [v * w for v in (1, 2) for w in $tuple if v != w]
        [(v, w) [0] for v, w in enumerate($ints)] | list(map(lambda v: v * 2, $ints)) | list(filter($fn, $ints))
        [*range($small, 4)] | list(range(5, $small, -2)) | list(islice($iterable, 3)) | list(itertools.chain($ints, (7,)))
        list(itertools.accumulate($ints)) | list(itertools.accumulate($ints, max)) | list($dict.values()) | $list.copy()
        [v for v in (1, 2, 3) if (@1 := v % 2)] | [len(v) for v in ('a', $str)] | list(itertools.repeat($int, 2))
        list(itertools.compress($ints, (1, 0, 1))) | list(itertools.takewhile(lambda v: v < 3, $ints)) | $list or [8]
        list(itertools.dropwhile(lambda v: v < 2, $ints)) | list(itertools.starmap(pow, [(2, 3)])) | sorted($set)
        [v for v, in zip($ints)] | list(deque($ints, 3)) | list(Walkable(1, $int)) | list(Countdown(3)) | [*count_to(3)]
        list(itertools.islice(itertools.count($int, 2), 3)) | [w for v in pairs_of($ints) for w in v] | [1, 2, 3, 4][::2]
        list(map(int, '123')) | list(chained($iter, [4])) | [p for p, q in zip($ints, $str)] | sorted($dict.values())
        list(sum(itertools.zip_longest($ints, (1,), fillvalue=0), ())) [:6] | [k for k in $tuple][:2] | list({1: 2, 3: 4})
        [*$deque] | list(reversed($deque)) | sorted($deque, key=lambda v: -v) | [*itertools.zip_longest((1,), $tuple, fillvalue=$int)][-1:]
        [p - q for p, q in itertools.pairwise($ints)] | sorted($list, key=str) | [v for v in $deque if v] | Stack($list) | list(Stack($ints))
        [*itertools.filterfalse(lambda v: v > 1, $ints)] | [*itertools.chain.from_iterable([$ints, $tuple])] | [*map($fn, $tuple)][::-1]
        [v for v in $ints for _ in range(2)][::2] | $list.__add__([$int]) | list(b'ab') | [*itertools.accumulate($ints, initial=$int)]
        [n for p in itertools.product((1, 2), $tuple[:2]) for n in p][:5] | [len(list(g)) for _, g in itertools.groupby($ints)]
        """,
    "tuple": """
        ($int, $int) | (*$tuple, $int)[:5] | tuple($ints) | $tuple[1:] | $tuple[::-1] | $tuple + (2,) | tuple(sorted($ints))
        tuple(v * 2 for v in $ints) | divmod($int, 4) | spread($int, *$tuple) [:2] | Pair($int, 1) | (len($str),)
        tuple(map(abs, $ints)) | tuple(range($small)) | next(zip($ints, (1, 2)), (0,)) | tuple(set($tuple)) [:1] | (3, $int) * 2
        dataclasses.astuple(Point($int))[:2] | tuple($dict.values()) | (0, $int)[::-1] | Row('a', $int)[1:] | tuple($iter)
        """,
    "dict": """
        {'p': $int, $key: $int} | {k: v for k, v in zip('pqr', $ints)} | {**$dict, 'q': $int} | $dict | {'z': $int} | dict($dict)
        {k: v + 1 for k, v in $dict.items()} | dict(p=$int) | dict(zip('zq', $tuple)) | dict.fromkeys('pq', $int)
        {k: $dict[k] for k in $dict if k != 'p'} | OrderedDict($dict) | defaultdict(int, $dict) | Counter('ppq')
        $dict.copy() | dict([('p', $int)]) | {v: len(v) for v in ('p', $key)} | dict(sorted($dict.items())) | vars(Box(1)) | {}
        """,
    "set": """
        {$int, $int} | {v % 3 for v in $ints} | set($ints) | $set | {$int} | $set & {1, 2} | $set - {$int} | $set ^ {1, 9}
        frozenset($ints) | {*$tuple, 1} | set($list) - set($tuple) | $set.union($list) | set(range($small)) | $set.copy()
        $set.symmetric_difference($ints) | $set | $set ^ $set | frozenset($ints) - $set | {*$ints} & $set | frozenset($set).union($tuple)
        set($deque) | {v for v in $ints if v not in $set} | set($dict.values()) | $set | set(map(abs, $ints))
        $set.intersection($list, (1, 2)) | $set.difference($ints) | {len(k) for k in $dict} | set($dict.values()) | set()
        """,
    "deque": """
        deque($ints) | deque($ints, maxlen=3) | deque($list, $small + 2) | $deque.copy() | $deque + deque([$int]) | $deque * 2 | deque($deque, 2)
        """,
    "iter": """
        itertools.pairwise($ints) | iter($deque) | itertools.chain.from_iterable([$ints, $tuple]) | iter($dict)
        (v for v in $set) | islice(itertools.cycle([1, $int]), 3) | filter($fn, $ints) | itertools.starmap(max, [(1, 2), ($int, 1)]) | reversed($deque)
        iter($list) | iter($tuple) | reversed($list) | (v + 1 for v in $ints) | (v for v in $ints if v > $int) | count_to(4)
        count_to(3, 2) | map($fn, $ints) | filter(None, $ints) | itertools.chain($ints, $iter) | itertools.accumulate($ints)
        iter(Walkable(1, 2)) | iter(Countdown(3)) | iter(Indexed(3)) | islice(itertools.count($int), 3) | itertools.repeat(4, 2)
        iter(range($small, 5)) | (v * w for v in (1, 2) for w in $tuple) | chained(count_to(2), $iter) | iter($dict.values())
        islice($iter, 2) | iter(counter(0), 3) | iter($set) | (len(p) for p in zip($list, $tuple)) | (v for v in [$int])
        """,
    "fn": """
        (lambda v: v * $int) | (lambda v, k=$int: v + k) | functools.partial(operator.add, $int) | counter($int) | plus_one
        Base.twice | math.trunc | (lambda v: must_be_small(v % 4)) | (lambda v, *rest: v - len(rest)) | kept | operator.neg
        remembered | [].count | $list.count | (lambda v: -v if v > 1 else v) | math.trunc | functools.partial(only, k=1)
        """,
    "object": """
        Base($int) | Left($int) | Both($int) | Slim($int) | Slotted($int) | Registered($int) | Proxy(Base($int)) | Left.build($int)
        Base.build($int) | copy.copy(Base($int)) | $object if $bool else $object | copy.deepcopy(Both($int)) | ($object, $int)[0]
        """,
    "thing": """
        Point($int) | Fixed($small) | Gauge(2) | Colour.RED | Pair($int) | Row('k', $int) | Box($int) | Square(2) | Box($any)
        Stack($ints) | Vector($int) | Vector($int) + Vector(2) | Vector(1) * $int | 2 * Vector($int) | Filling($dict) | frozenset($ints) | $deque
        Vector($int) - $int | -Vector($int) | Colour[$str if $str in ('RED', 'BLUE') else 'GREEN'] | Access.READ | Access.WRITE | sorted([Vector(2), Vector($int)])[0]
        Point($int).moved(1) | max(Fixed(1), Fixed($small)) | $object | copy.deepcopy(Point(1, $int)) | Level.HIGH | Access.READ
        dataclasses.replace(Fixed(1), rank=$int) | Proxy($object) | Indexed(2) | Walkable($int) | Countdown(2) | Filling(p=$int)
        """,
    "other": """
        $deque | $set - $set | 2 ** 63 + $int | -(2 ** 63) - $int | (2 ** 62) * $int | $float * 1e308 | complex($float, -0.0) | 1j * $float
        bytes([$small % 2, 65]) + b'x' | b'a,b'.split(b',') | bytearray(b'ab') * 2 | (b'%d' % $int).hex() | memoryview(b'ab')[0] | int(2.0 ** 64)
        $int | $float | $str | $list | $tuple | $dict | $set | $object | $iter | $fn | $bool | $other | type($any) | [$any, $any]
        ($any, $int) | {'p': $any} | lambda: $int | [$list, $list] | spread($int, $any, k=$any, z=$int) | $object.__class__
        complex($int, 1) * 2 | (1 + 2j) ** 2 | 3 ** 50 + $int | -(2 ** 64) >> 3 | 10 ** 30 // 7 | bytes([1, 2]) | b'a' + b'b'
        bytearray(b'xy') | divmod(-(10 ** 20), 7) | $float ** 2 | 7 // 2.0 | [*enumerate($str)] | [*zip($ints, $str)]
        $str.split('a') | $str.partition(' ') | {$key: {$key: [$int]}} | [[v, w] for v in $tuple[:2] for w in 'ab']
        deque($list) | deque($ints, maxlen=2) | Counter($str).most_common(2) | $dict.keys() | $dict.items() | sorted($dict.items())
        (lambda *a, **k: (a, k))(*$tuple, **$dict) | [f'{v}' for v in $tuple] | None if $bool else $any | count_to.__name__
        ValueError($int) | Numbered($int) | KeyError('k') | [None] * 2 | itertools.groupby($ints) | (yes := $any) and [yes, yes]
        list(itertools.permutations($tuple[:3], 2))[:3] | [*itertools.combinations($tuple[:3], 2)] | list(map(list, zip($tuple, $ints)))
        list(map(lambda v, w: (w, v), $ints, $str)) | {v: w for w, v in enumerate($tuple)} | Both.__mro__[1] | super
        """,
}

# One statement each, `;;` between those that belong together as lines.
SIMPLE = """
    $log.append($any) | $log.append($int) | print($any) | print($int, $str, sep='-') | $set_int = $int | $set_int += $int
    $set_str = $str | $set_list = $list | $set_dict = $dict | @1:int = $int | @1:str = $str | @1:list = $list
    @1:dict = $dict | @1:set = $set | @1:iter = $iter | @1:tuple = $tuple | @1:object = $object | @1:fn = $fn | @1:float = $float
    @1:int = @2:int = $int | @1:int, @2:int = $int, $int | @1:int, *@2:list = [$int, *$tuple] | *@1:list, @2:int = (*$tuple, 1)
    (@1:int, @2:int), @3:int = ($int, 2), $int | $list_name.append($int) | $list_name[:1] = $tuple[:2] | $list_name.insert(0, $int)
    $list_name[1:2] = [] | $list_name.extend($tuple[:2]) | $list_name.sort() | $list_name.sort(key=lambda v: -v) | $list_name.reverse()
    $list_name += $tuple[:2] | del $list_name[2:] | $list_name[::2] = $list_name[::2] | $list_name[-1:] = [$int] | $list_name.clear()
    $list_name *= $small ;; del $list_name[6:] | $dict_name[$key] = $int | $dict_name.update(p=$int) | $dict_name.pop($key, None) | $dict_name |= $dict
    $dict_name['p'] = $dict_name.get('p', 0) + 1 | $dict_name.setdefault($key, 5) | $dict_name.update({'q': $int}, z=1)
    @1:set = {1, 2} ;; @1.add($int) ;; @1.discard(2) | @1:set = set($ints) ;; @1 |= {3, $int} ;; @1.update($list) | @1:set = set($ints) ;; @1 -= {1}
    $set_name.add($int) | $set_name.discard($int) | $set_name |= {$int, 2} | $set_name &= {1, 2, 3} | $set_name -= {$int} | $set_name ^= {1, $int}
    $set_name.update($ints) | $set_name.clear() | $set_name.symmetric_difference_update($tuple) | $log.append($set_name.pop() if len($set_name) == 1 else 0)
    @1:deque = $deque | $deque_name.append($int) | $deque_name.appendleft($int) | $deque_name.extend($tuple) | $deque_name.rotate($small) | $deque_name.reverse()
    $log.append($deque_name.popleft() if $deque_name else -1) | $deque_name.extendleft($ints) | del $deque_name[:0] | $deque_name += $tuple | $log.append($deque_name)
    $log.append(u) | @1 = u ;; $log.append((type(@1).__name__, @1 == $any)) | $log.append([$any, u, u]) | $log.append(isinstance(u, (int, list, str)) and u * 2) | $log.append(bool(u))
    @1 = complex($float, $int) ;; $log.append((@1.real, @1 * @1)) | @1 = 2 ** 62 ;; @1 += $int ;; @1 *= 2 ;; $log.append((@1, @1 - 2 ** 63))
    $dict_name.update(zip('pz', $ints)) | $dict_name = {**$dict_name, $key: $int} | $list_name.extend(v for v in $ints) | $list_name[-1:] += [$int] | $list_name[:] = $list_name[::-1]
    $list_name[$small:] = [$int] | del $list_name[$small:$small] | del $list_name[::3] | $list_name.append($list_name[:1]) ;; del $list_name[5:] | @1 = $object ;; del @1.v ;; $log.append(hasattr(@1, 'v'))
    @1 = Vector($int) ;; @1 += Vector(1) ;; @1 -= $int ;; $log.append((@1, @1 == Vector($int), @1 < Vector(3), hash(@1), bool(@1))) | @1 = Stack($ints) ;; @1.append($int) ;; $log.append((@1, @1.top, len(@1)))
    @1 = defaultdict(list) ;; @1[$key].append($int) ;; @1[$key].append(2) ;; $log.append(@1)
    @1 = deque($list, maxlen=4) ;; @1.appendleft($int) ;; @1.rotate(1) ;; @1.extend($tuple) ;; $log.append(@1)
    @1 = Counter($list) ;; @1.update($tuple) ;; @1[3] += 2 ;; $log.append(@1) | @1 = OrderedDict($dict) ;; @1['a'] = 1 ;; @1.move_to_end('a', last=False) ;; $log.append(@1)
    @1 = [$list, $int] ;; @1[0].append(3) ;; $log.append(@1) | @1 = @2:list = $list ;; @1.append($int) | @1 = {'k': [$int]} ;; @1['k'][0] += 2 ;; $log.append(@1)
    @1:int = $int ;; @2:fn = lambda v: v + @1 ;; @1 = $int | @1 = [lambda: v for v in $tuple] ;; $log.append([v() for v in @1])
    @1 = [lambda v=v: v for v in $tuple] ;; $log.append([v() for v in @1]) | @1 = counter($int) ;; @1(2) ;; $log.append(@1())
    @1 = $list ;; $log.append(@1.pop()) if @1 else None | $log.append(locals().get('n')) | count_calls()
    TABLE[$key] = $int | TABLE['p'] += 1 | NOTES.append($any) | $log.append(TABLE.pop('q', None)) | pass
    @1 = $object ;; @1.v = $int ;; $log.append(@1) | @1 = Base($int) ;; @1.v += 2 ;; @1.late = $any ;; $log.append(vars(@1)) | Base.made += 1
    @1 = Point($int) ;; @1.seen.append($int) ;; @1.x, @1.y = @1.y, @1.x ;; $log.append(@1) | @1 = Proxy(Base(1)) ;; @1.v = $int ;; $log.append(@1.inner)
    @1 = Gauge(1) ;; @1.level += 2 ;; $log.append(@1.level) | setattr(Base, 'kind', $str) | Left.kind = $str | box.value, box.count = box.count, $int
    box.extra = $any | box.count += 1 | o.v = $int | o.v += 1 | o.late = $any | $log.append(o.v) | $log.append(getattr(o, 'late', None)) | box.grow($int)
    @1 = echo($log) ;; next(@1) ;; $log.append(@1.send($int)) ;; @1.close() | @1 = echo($log) ;; @1.send(None) ;; $log.append(@1.throw(ValueError('v'))) ;; @1.close()
    @1 = echo($log) ;; next(@1) ;; @1.send($int) ;; $log.append(@1) | @1:iter = count_to(5) ;; next(@1) ;; $log.append(next(@1))
    @1 = zip($ints, itertools.count(1)) ;; $log.append(next(@1, None)) ;; $log.append(@1) | @1, @2 = itertools.tee($iter) ;; $log.append((list(@1), list(@2)))
    @1 = iter($list) ;; $log.append([*zip(@1, @1)]) | @1 = $iter ;; @2 = @1 ;; $log.append((next(@1, 0), next(@2, 0))) | @1:str = 'a' ;; @1 += $str
    @1:int = $int ;; @1 <<= 2 ;; @1 ^= 5 ;; @1 //= 3 ;; @1 **= 2 ;; @1 %= 101 | @1:float = $float ;; @1 /= 2 ;; @1 -= $int | kt._dynamo.graph_break()
    $log.append(opaque($int)) | disabled($list).append(1) | opaque($object) | $log.append(disabled($any)) | @1:list = opaque($list) | import math as @1 ;; $log.append(@1.floor(1.5))
    from math import pi as @1 ;; $log.append(@1) | @1 = $other ;; del @1 | @1 = @2 = $list ;; $log.append((@1, @2)) | total += 1
    kept($int) ;; $log.append(kept.__defaults__) | $log.append(eval('1 + 1')) | @1 = slice($small, 3) ;; $log.append($list[@1]) | box.value = $any ;; $log.append(box)
    @1 = $str.encode() ;; $log.append((@1[:1], @1 + b'!')) | items.append($any) | items[-1:] = [$any] | $log.append(items[0]) | xs, items = items, xs
    @1 = lambda *a, k=$int, **r: (a, k, r) ;; $log.append(@1(*$tuple, **{'z': $int})) | $log.append((a.shape, xs)) | xs[0], xs[-1:] = $int, [$int]
    @1:int = [$int for @2 in range(3)][-1] | $log.append([*map(lambda v, w: v - w, $ints, $ints)]) | $log.append($set) | $log.append($dict)
    @1 = Registered($int) ;; $log.append((@1.tag, type(@1))) | @1 = Colour.RED ;; $log.append((@1, @1.next, Colour['GREEN'], [c.name for c in Colour]))
    @1 = type('Made', (Base,), {'kind': $str, 'extra': $int}) ;; $log.append(@1($int).describe()) | $log.append(sorted([Fixed(2), Fixed($small), Fixed(1, 'a')]))
    @1 = memoryview(b'abc') ;; $log.append(@1[$small]) | assert $int < 50, $str | $log.append(spread(1, *$tuple, **$dict)) | $log.append(spread(k=1, *$tuple, $int))
"""

# What raises, sometimes.
RISKS = """
    raise ValueError($int) | raise ValueError | raise Refused('no', $int) | raise Numbered($int) | raise KeyError($key) from None | assert $bool
    assert $int > 2, f'got {$int}' | $log.append(refuse($int)) | $log.append(refuse_from($int)) | $log.append(refuse_later($int, $log)) | $log.append(must_be_small($int))
    $log.append($dict[$key]) | $log.append($list[$int]) | $log.append($tuple[$small]) | $log.append(7 // $small) | $log.append(int($str)) | $log.append(7 % $small)
    @1, @2 = $tuple | @1, *@2, @3 = $tuple | $log.append(next($iter)) | $log.append(max($list)) | $log.append($list.pop()) | $log.append($list.index($int))
    $log.append($object.missing) | $log.append($str + $any) | $log.append($int + $str) | $list.remove($int) | del $dict[$key] | $log.append(Colour($int))
    Gauge(-1) | Fixed(1).rank = 2 | Shape() | Slotted(1).nothing = 1 | only(1, 2) | spread() | must_be_small() | $log.append({[]: 1}) | $log.append(sum($any))
    opaque(1 // $small) | $log.append($fn($any)) | $log.append($any < $any) | raise StopIteration($int) | raise $any | $log.append(Level['NONE']) | $log.append(float($str))
    del @1 | @1 += 1 | @1 = @1 + 1 | $log.append(undefined) | $log.append(-$any) | for @1, @2 in $list: pass | $log.append([*$any]) | $log.append($any[0]) | $log.append($any()) | 1 / $small
    $log.append(len($any)) | $log.append($tuple.index(9)) | '%d' % $any | $any.v = 1 | with $any: pass | $log.append(Numbered(1).number.x) | range(3)[$int] | $log.append(abs($any))
    $deque_name.remove($int) | $log.append($deque[$small]) | $log.append(deque($ints, 2).index($int)) | OrderedDict($dict).move_to_end($key) | OrderedDict().popitem()
    $log.append(reduce(operator.add, $list)) | $log.append(Vector(1) + $any) | $log.append($any < Vector(1)) | $log.append(u + $int) | u.v = $int | $log.append(u[0]) | $log.append(len(u))
    $log.append(frozenset([$any])) | $log.append({$any: 1}) | frozenset((1, 2)).add(1) | $set_name.remove($int) | $log.append(f'{$int:z}') | '{1}'.format($int) | int('x' + '1') | b'a' + 'b'
    [*$ints][$int] | $list_name[::2] = $tuple | $log.append(next(iter($deque))) | (1).missing | $log.append(math.sqrt($int)) | $log.append(10 ** 400 * 1.0) | chr(2 ** 70) | [1] * 2 ** 70
    $set.remove($int) if isinstance($set, set) else None | $log.append(dict($list)) | $log.append(dict(zip($str, 'a'), **{'p': 1})) | chr(-1) | 'a'.index($str) | deque().pop()
    raise ExceptionGroup('g', [ValueError($int), KeyError('k')]) | $log.append(list(zip([1], $tuple, strict=True))) | raise TypeError('t') from ValueError('v') | 2 ** -1 // 0
"""

ERRORS = ["ValueError", "Exception", "(IndexError, ZeroDivisionError)", "KeyError", "TypeError", "Refused", "LookupError",
          "(ValueError, TypeError)", "ArithmeticError", "(AttributeError, AssertionError)", "Numbered", "StopIteration", "Exception"]
ABOUT = ["str(error)", "type(error).__name__", "error", "error.args", "(error.__cause__, error.__context__)", "repr(error)",
         "isinstance(error, LookupError)", "error.__traceback__.tb_lineno - error.__traceback__.tb_lineno", "sys.exc_info()[0]", "error.__suppress_context__"]

OWN_OBJECTS = ["Left(2)", "Both(1)", "Slotted(4)", "Registered(2)", "Proxy(Base(5))", "Slim(2)", "Base(8)", "Box(1)", "Vector(2)",
               "Point(1, 2)", "Pair(1)", "Colour.GREEN", "Gauge(2)", "Filling(v=1)", "Stack([1])"]

# One parameter may be anything, and of another type in the next call.
ANYTHING = ["3", "3", "{1, 2}", "frozenset((4, 1))", "deque([1, 2])", "deque((1, 2, 3), 3)", "(1, 2)", "[1, [2]]", "iter([1, 2])", "'pq'",
            "count_to(3)", "range(2, 5)", "b'ab'", "1j", "2 ** 64", "2 ** 63 - 1", "-2 ** 63", "True", "None", "float('nan')", "-0.0",
            "Colour.RED", "Level.HIGH", "Point(1)", "Base(2)", "Left(3)", "Both(4)", "Vector(1)", "Stack([3, 1])", "plus_one", "Base.twice",
            "counter(1)", "functools.partial(only, k=2)", "OrderedDict(p=1)", "defaultdict(int, p=2)", "Counter('ppq')", "Filling()",
            "{'p': 1}", "Box(2).grow", "Base", "Pair(1)", "Row('k')", "pairs_of((1, 2, 3))", "a", "xs", "...", "Gauge(1)", "map(abs, (1, -2))",
            "zip((1, 2), 'ab')", "enumerate('ab')", "[1, 2].append", "ValueError('u')", "slice(1, None)", "kt.float32", "math"]

# What happens between two calls. Those whose names a program lacks are left out.
BETWEEN = ["Base.kind = 'changed'", "Left.kind = 'left again'", "Base.made = 2.5", "TABLE['p'] = 9", "TABLE.clear()", "TABLE['new'] = [1]",
           "NOTES.clear()", "NOTES.append('between')", "total += 40", "total = 2 ** 62", "total = 0.5", "plus_one = abs", "del Left.describe",
           "Left.describe = lambda self: 'patched'", "spread.__defaults__ = (8,)", "only.__kwdefaults__ = {'k': 4}", "kept.__defaults__ = ([],)",
           "Base.twice = staticmethod(lambda v: v * 3)", "Base.describe = Base.describe", "Box.twice = 5", "Clamped.__get__ = lambda *_: 7",
           "Countdown.__next__ = Countdown.__next__", "Base.extra = property(lambda self: self.v)", "remembered.cache_clear()",
           "must_be_small.__code__ = (lambda n: n + 100).__code__", "factorial = lambda n: n", "count_to = lambda stop, step=1: iter((stop,))",
           "Point.__eq__ = lambda self, other: True", "Fixed.__hash__ = lambda self: 1", "Walkable.__len__ = lambda self: 0", "opaque = abs",
           "Vector.__add__ = lambda self, other: 'added'", "Vector.__radd__ = None", "del Vector.__mul__", "Stack.top = 3", "Both.__bases__ = (Right, Left)",
           "Filling.__missing__ = lambda self, key: key", "Registered.tag = 'of the class'", "answer_anyway = refuse = None", "Refused.__str__ = lambda self: 'R'",
           "Noting.__exit__ = lambda *_: True", "Box.__len__ = lambda self: 0", "Base.__bool__ = lambda self: False", "Base.__getattr__ = lambda self, name: name",
           "Base.v = property(lambda self: 77, lambda self, v: None)", "del NOTES[:]", "Numbered.__init__ = lambda self, *_: None", "Base.__eq__ = lambda self, other: True"]
