"""The grammar of random programs beyond tensors: tables of templates by type, used by programs.Writer.

`$int` stands for an expression of that type (the tables below), `$body` on its own line for a block, `$simple` and
`$risk` for one statement, `$any` for a value of any type. `@1` is a name made for this use of a template; `@1:int`
says besides that from the next line on it is a variable of that type. `$log` is a list that takes notes.

Most expressions cannot fail; those that can stand in `RISKS` and, few, in the other tables. Values stay small: what
feeds on itself is cut or reduced, so that no loop blows it up.
"""

# Without names, for any scope. Variables of the type come beside them.
LEAVES = {
    "int": "0 1 2 3 -1 7 12".split(),
    "small": "0 1 2 -1 1 0".split(),
    "float": "0.5 -1.5 2.0 0.0 1e3".split(),
    "str": ["'abc'", "'x y'", "''", "'Abc d'", "'p'"],
    "key": ["'p'", "'q'", "'z'"],
    "list": ["[3, 1, 2]", "[]", "[4, 4, 0, 9]", "[1]"],
    "tuple": ["(1, 2)", "(3, 1, 2)", "()", "(5,)"],
    "dict": ["{'p': 1, 'q': 2}", "{}", "dict(z=4, p=0)"],
    "set": ["{1, 5}", "set()", "{3, 2, 1}", "frozenset((1, 4))"],
    "bool": ["True", "False"],
    "iter": ["iter((1, 2, 3))", "iter([])"],
    "fn": ["abs", "(lambda v: v + 1)", "int"],
    "object": ["Base(3)", "Left(1)"],
    "thing": ["Point(1, 2)", "Fixed(2)"],
    "other": ["None", "...", "b'ab'", "2 ** 70", "1j", "NotImplemented", "range(3)", "slice(1, None)"],
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
        $set.intersection($list, (1, 2)) | $set.difference($ints) | {len(k) for k in $dict} | set($dict.values()) | set()
        """,
    "iter": """
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
        Point($int).moved(1) | max(Fixed(1), Fixed($small)) | $object | copy.deepcopy(Point(1, $int)) | Level.HIGH | Access.READ
        dataclasses.replace(Fixed(1), rank=$int) | Proxy($object) | Indexed(2) | Walkable($int) | Countdown(2) | Filling(p=$int)
        """,
    "other": """
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
    @1 = echo($log) ;; next(@1) ;; $log.append(@1.send($int)) ;; @1.close() | @1 = echo($log) ;; @1.send(None) ;; $log.append(@1.throw(ValueError('v')))
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
    $set.remove($int) if isinstance($set, set) else None | $log.append(dict($list)) | $log.append(dict(zip($str, 'a'), **{'p': 1})) | chr(-1) | 'a'.index($str) | deque().pop()
    raise ExceptionGroup('g', [ValueError($int), KeyError('k')]) | $log.append(list(zip([1], $tuple, strict=True))) | raise TypeError('t') from ValueError('v') | 2 ** -1 // 0
"""

ERRORS = ["ValueError", "Exception", "(IndexError, ZeroDivisionError)", "KeyError", "TypeError", "Refused", "LookupError",
          "(ValueError, TypeError)", "ArithmeticError", "(AttributeError, AssertionError)", "Numbered", "StopIteration", "Exception"]
ABOUT = ["str(error)", "type(error).__name__", "error", "error.args", "(error.__cause__, error.__context__)", "repr(error)",
         "isinstance(error, LookupError)", "error.__traceback__.tb_lineno - error.__traceback__.tb_lineno", "sys.exc_info()[0]", "error.__suppress_context__"]

# Compound statements by part; the parts get equal chances.
COMPOUND = {
    "exceptions": [
        "try:\n    $risk\n    $body\nexcept $errors as error:\n    $log.append($about)",
        "try:\n    $body\n    $risk\nexcept $errors as error:\n    $log.append($about)\n    $body",
        "try:\n    $risk\nexcept $errors:\n    $body\nexcept Exception as error:\n    $log.append($about)\nelse:\n    $body",
        "try:\n    $body\n    $risk\nexcept $errors as error:\n    $body\nelse:\n    $body\nfinally:\n    $log.append($int)",
        "try:\n    $body\n    $risk\nfinally:\n    $body",
        "try:\n    $risk\nexcept:\n    $log.append(sys.exc_info()[1])\n    $body",
        "try:\n    try:\n        $risk\n    except $errors as error:\n        raise Refused($int) from error\nexcept Refused as error:\n    $log.append($about)",
        "try:\n    try:\n        $risk\n    finally:\n        $body\nexcept $errors as error:\n    $log.append($about)",
        "try:\n    try:\n        $risk\n    except $errors:\n        $body\n        raise\nexcept Exception as error:\n    $log.append($about)",
        "try:\n    try:\n        $risk\n    except Exception as error:\n        $risk\nexcept Exception as error:\n    $log.append($about)\n    $log.append(error.__context__)",
        "@1 = None\ntry:\n    $risk\nexcept Exception as error:\n    @1 = error\nif @1:\n    $log.append(@1)\n    $body",
        "for @1:int in range($trips):\n    try:\n        $risk\n        $body\n    except $errors:\n        continue\n    $body",
        "for @1:int in range($trips):\n    try:\n        if @1 == 1:\n            raise KeyError(@1)\n        $body\n    except KeyError as error:\n        $log.append($about)",
        "for @1:int in $tuple:\n    try:\n        $body\n        if @1 > 1:\n            break\n    finally:\n        $log.append(@1)",
        "with contextlib.suppress($errors):\n    $risk\n    $body",
        "with noted($log, $int, $errors) as @1:int:\n    $body\n    $risk",
        "with noted($log, $int):\n    $body",
        "with Noting($log, $bool), noted($log, 2, ValueError) as @1:int:\n    $risk\n    $body",
        "with contextlib.ExitStack() as @1:\n    @1.enter_context(Noting($log, True))\n    @1.callback($log.append, $int)\n    $risk",
        "@contextlib.contextmanager\ndef @1(k):\n    $log.append(k)\n    try:\n        yield k\n    except $errors as error:\n        $log.append($about)\n        if $bool:\n            raise\n    finally:\n        $log.append('left')\nwith @1($int) as @2:int, @1(2):\n    $body\n    $risk",
        "@contextlib.contextmanager\ndef @1():\n    $risk\n    yield $int\n    $risk\ntry:\n    with @1() as @2:int:\n        $body\nexcept Exception as error:\n    $log.append($about)",
        "with Restoring():\n    count_calls()\n    $body",
        "with contextlib.closing(open(0, closefd=False)) if False else Noting($log):\n    $body",
        "def @1():\n    try:\n        return $int\n    finally:\n        $log.append('left')\n$log.append(@1())",
        "def @1():\n    try:\n        $risk\n    except $errors:\n        return $int\n    finally:\n        if $bool:\n            return -3\n$log.append(@1())",
        "def @1():\n    for @2 in range(3):\n        try:\n            return @2\n        finally:\n            if @2 < 1:\n                continue\n$log.append(@1())",
        "try:\n    raise ExceptionGroup('g', [ValueError(1), $raisable])\nexcept* ValueError as error:\n    $log.append(error.exceptions)\nexcept* (TypeError, KeyError) as error:\n    $log.append(error)",
        "try:\n    $risk\nexcept Exception as error:\n    error.add_note($str)\n    $log.append(error)\n    if $bool:\n        raise",
        "@1 = $raisable\ntry:\n    raise @1\nexcept Exception as error:\n    $log.append(error is @1)",
    ],
    "groups and keys": [
        "try:\n    raise ExceptionGroup('g', [ValueError($int), $raisable, ExceptionGroup('h', [KeyError('k'), TypeError(2)])])\nexcept* ValueError as group:\n    $log.append((str(group), len(group.exceptions)))\n    $helper\nexcept* (KeyError, TypeError) as group:\n    $log.append(group.message)\nexcept* Exception as group:\n    $log.append(repr(group))",
        "try:\n    $risk\nexcept* $errors as group:\n    $log.append((str(group), [type(e).__name__ for e in group.exceptions]))\n    $helper\nexcept* Exception as group:\n    $log.append(type(group.exceptions[0]).__name__)",
        "try:\n    try:\n        raise ExceptionGroup('g', [ValueError($int), KeyError('k')])\n    except* $errors as group:\n        $log.append(len(group.exceptions))\nexcept ExceptionGroup as rest:\n    $log.append((rest.message, [type(e).__name__ for e in rest.exceptions], rest.__suppress_context__))",
        "try:\n    try:\n        raise ExceptionGroup('g', [ValueError($int), KeyError('k'), TypeError('t')])\n    except* ValueError:\n        $risk\n    except* KeyError:\n        if $bool:\n            raise\nexcept Exception as error:\n    $log.append((type(error).__name__, str(error)))\n    if isinstance(error, ExceptionGroup):\n        $log.append([(type(e).__name__, str(e)) for e in error.exceptions])",
        "for @1:int in range(3):\n    try:\n        if @1:\n            raise ExceptionGroup('g', [ValueError(k) for k in range(@1)])\n        $body\n    except* ValueError as group:\n        $log.append([e.args for e in group.exceptions])\n        $helper\n    else:\n        $log.append('none')\n    finally:\n        $log.append(@1)",
        "class @1(ExceptionGroup):\n    def derive(self, exceptions):\n        return @1(self.message + '.', exceptions)\ntry:\n    try:\n        raise @1('n', [ValueError($int), KeyError('k')])\n    except* ValueError as group:\n        $log.append((group.message, type(group) is @1))\nexcept @1 as rest:\n    $log.append(rest.message)",
        "@1 = ExceptionGroup('m', [ValueError($int), KeyError('k'), ExceptionGroup('n', [ValueError(3)])])\n@2, @3 = @1.split($errors)\n$log.append((str(@2), str(@3), str(@1.subgroup(lambda e: isinstance(e, ValueError)))))\n$log.append(@1)",
        "class @1:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n    def __hash__(self):\n        return hash((self.a, self.b))\n    def __eq__(self, other):\n        return isinstance(other, @1) and (self.a, self.b) == (other.a, other.b)\n@2 = {@1($int, 1): $int, @1(2, 3): 4}\n@2[@1(2, 3)] = $int\n@2.setdefault(@1(5, 5), $any)\n$log.append((len(@2), @1($int, 1) in @2, @2.get(@1(9, 9)), [k.b for k in @2], @2.pop(@1(2, 3), None)))\n$body\n$log.append([(k.a, v) for k, v in @2.items()])",
        "@1 = {Fixed($small): $int, Fixed(7): 2}\n@1[Fixed($small)] = $any\n$log.append((len(@1), Fixed(7) in @1, list(@1.values())))\ntry:\n    $log.append(@1[Fixed($small)])\nexcept KeyError as error:\n    $log.append(len(error.args))",
        "@1 = {Row('k', $small): 1, ('k', 5): 2}\n@1[Row('k', 5)] = $int\n$log.append((len(@1), ('k', $small) in @1, [v for v in @1.values()]))\n@1[$int] = $str\n$log.append(@1)",
        "class @1:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n        $log.append(('hash', self.n))\n        return self.n % 2\n    def __eq__(self, other):\n        $log.append(('eq', self.n))\n        return self.n == getattr(other, 'n', other)\n@2 = {@1(1): 1, @1($int): 2, 3: 3}\n@2[@1(3)] = 4\n$log.append((len(@2), @1(1) in @2, 1 in @2, @2.get(@1(5))))\n$log.append(len({@1(1), @1($small), 2}))",
        "@1 = $int\nclass @2(Left):\n    made = @1 + 1\n    names = [k for k in ('p', 'q')]\n    def __init__(self, v):\n        super().__init__(v)\n        self.more = @1\n    def grow(self, by=made):\n        nonlocal @1\n        @1 += by\n        return @2(self.v + by)\n    @property\n    def both(self):\n        return self.v, self.more\n    @classmethod\n    def twice(cls, v):\n        return cls(v * 2)\n    @staticmethod\n    def plain(v):\n        return v - 1\n@3 = @2.twice($int).grow()\n$log.append((@3.both, @2.plain(@1), @2.made, @2.__name__, isinstance(@3, Left), type(@3) is @2))\n$body\n$log.append(@3.grow(2).both)",
        "class @1(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n    def g(self):\n        return self.f() + 1\nclass @2(@1):\n    def f(self):\n        $helper\n        return $int\ntry:\n    @1()\nexcept TypeError as error:\n    $log.append(str(error))\n$log.append((@2().g(), issubclass(@2, @1)))",
        "@1 = type('T', (Base,), {'extra': $int, 'f': lambda self, k=2: self.v + k})\n@2:object = @1($int)\n$log.append((@2.f(), @1.extra, @1.__name__, @2.describe(), @1.__mro__[1]))",
        "class @1(Refused):\n    code = $int\n    def __init__(self, *args):\n        super().__init__(*args)\n        self.count = len(args)\ntry:\n    $body\n    raise @1($int, $str)\nexcept @1 as error:\n    $log.append((error.count, error.code, $about))",
        "@functools.lru_cache(maxsize=2)\ndef @1(k):\n    $log.append(k)\n    return k * 2\nfor @2:int in (1, $small, 1, 2, $small, 3):\n    $log.append(@1(@2))\n    $body\n$log.append(@1.cache_info())",
        "@1 = collections.namedtuple('P', 'a b', defaults=[$int])\n@2 = @1($int)\n$log.append((@2, @2.b, @2._replace(a=3), @1._fields, @2 == ($int, $int)))",
        "@1 = []\nfor @2:int in range(3):\n    class @3:\n        n = @2\n        def f(self, k):\n            return k + self.n + @2\n    @1.append(@3)\n    $body\n$log.append([c().f($int) for c in @1])",
        "try:\n    class @1(Base):\n        a = $int\n        $risk\n        def f(self):\n            return self.a\n    $log.append(@1(1).f())\nexcept $errors as error:\n    $log.append($about)",
        "@1 = deque($ints, maxlen=3)\n@1.extendleft($tuple)\n@2 = @1.copy()\n@2.append($int)\n$log.append((@1, @2 == @1, @1.count($int), @2[-1], list(reversed(@1)), @2 + deque([1])))\ntry:\n    @1.remove($int)\n    $log.append(@1.popleft())\nexcept (ValueError, IndexError) as error:\n    $log.append(str(error))",
        "@1 = Counter($list)\n@1.subtract($tuple)\n$log.append((@1.total(), +@1, @1 - Counter($ints), @1 & Counter([1, 2]), sorted(@1.elements()), @1.most_common(1)))",
        "@1 = OrderedDict($dict)\n@1.update(z=$int)\n@1.move_to_end('z', last=$bool)\n$log.append((@1, @1.popitem(last=$bool), list(reversed(@1)), @1 == $dict, @1 | {'n': 1}))",
        "@1 = defaultdict(lambda: $int, p=1)\n@1[$key] += 1\n@2 = @1.copy()\n@2['new'] = @2['other']\n$log.append((@1, @2, 'other' in @2, @1.get('none'), @2.default_factory is not None))",
        "class @1(dict):\n    def __setitem__(self, key, value):\n        super().__setitem__(key, value * 2)\n    def twice(self):\n        return {k: v for k, v in self.items()}\n@2 = @1(p=$int)\n@2['q'] = $int\n@2.update(r=3)\n$log.append((@2, @2.twice(), len(@2), sorted(@2)))",
        "class @1(deque):\n    def push(self, value):\n        self.append(value)\n        return self\n@2 = @1($ints, 3).push($int).push(2)\n$log.append((list(@2), @2.maxlen, type(@2.copy()).__name__, @2[0]))",
    ],
    "generators": [
        "for @1:int in islice($iter, 5):\n    $body",
        "for @1:int in (v + 1 for v in $ints):\n    $body\n    if @1 > 2:\n        break\nelse:\n    $log.append('all')",
        "def @1(k, stop=2):\n    for i in range(stop):\n        $log.append(i)\n        yield i + k\n    return k\nfor @2:int in @1($int):\n    $body",
        "def @1():\n    yield $int\n    yield from $ints\n@2:iter = @1()\n$log.append(next(@2))",
        "def @1():\n    try:\n        got = yield $int\n        $log.append(got)\n        yield got\n    finally:\n        $log.append('done')\n@2 = @1()\nnext(@2)\n$log.append(@2.send($int))\n$log.append(list(@2))",
        "def @1():\n    got = yield from count_to($small)\n    $log.append(got)\n    yield $int\n$log.append([*@1()])",
        "def @1():\n    try:\n        yield $int\n        $risk\n        yield 2\n    except $errors as error:\n        $log.append($about)\n        yield 3\nfor @2:int in @1():\n    $body",
        "def @1():\n    try:\n        got = yield $int\n        $log.append(got)\n    except $errors as error:\n        $log.append($about)\n        got = yield 3\n        $log.append((got, sys.exc_info()[0]))\n    finally:\n        $log.append('left')\n@2 = @1()\nnext(@2)\ntry:\n    $log.append(@2.throw($raisable))\n    $log.append(@2.send($int))\nexcept StopIteration as stop:\n    $log.append(stop.value)\nexcept $errors as error:\n    $log.append($about)",
        "def @1():\n    try:\n        yield $int\n        $risk\n    finally:\n        $log.append(sys.exc_info()[0])\ndef @2():\n    try:\n        $log.append((yield from @1()))\n    except $errors as error:\n        $log.append($about)\n        yield 9\n@3 = @2()\n$log.append(next(@3))\ntry:\n    $log.append(@3.throw($raisable))\nexcept Exception as error:\n    $log.append($about)",
        "def @1():\n    try:\n        yield $int\n    except GeneratorExit:\n        $log.append(sys.exc_info()[0])\n        if $bool:\n            raise\n        if $bool:\n            yield 1\n    finally:\n        $log.append('left')\n@2 = @1()\nnext(@2)\ntry:\n    @2.close()\nexcept RuntimeError as error:\n    $log.append($about)",
        "def @1():\n    try:\n        $risk\n    except Exception as error:\n        yield sys.exc_info()[0]\n        $log.append($about)\n        yield sys.exc_info()[0]\nfor @2 in @1():\n    $log.append((@2, sys.exc_info()[0]))\n    $body",
        "def @1():\n    yield 1\n    $risk\n    yield 2\ntry:\n    for @2 in (list, tuple, sum, max):\n        $log.append(@2(@1()))\nexcept $errors as error:\n    $log.append($about)",
        "@1:iter = count_to(4)\nfor @2:int in @1:\n    if @2 == $small:\n        break\n    $body\n$log.append(list(@1))",
        "def @1():\n    yield $int\n    raise Refused($int)\ntry:\n    $log.append(list(@1()))\nexcept Refused as error:\n    $log.append($about)",
        "def @1():\n    yield 1\n    return $int\n@2 = @1()\ntry:\n    while True:\n        $log.append(next(@2))\nexcept StopIteration as stop:\n    $log.append(stop.value)",
        "def @1():\n    yield 1\n    raise StopIteration\ntry:\n    $log.append([*@1()])\nexcept RuntimeError as error:\n    $log.append($about)",
        "def @1(k):\n    if k > 0:\n        yield k\n        yield from @1(k - 1)\n$log.append(list(@1(3)))",
        "@1 = (v for v in $ints)\n$log.append(next(@1, None))\n$log.append(@1)",
        "def @1():\n    for i in itertools.count():\n        got = yield i\n        if got:\n            return got\n@2 = @1()\n$log.append([next(@2), next(@2)])\n@2.close()\n$log.append(next(@2, 'closed'))",
        "for @1:int, @2:int in zip($ints, $tuple):\n    $body",
        "for @1:int, @2:str in enumerate($str):\n    $body",
        "for @1, @2:int in $dict.items():\n    $body",
        "for @1:int in sorted($ints, key=lambda v: -v):\n    $body",
        "for @1:int in map(lambda v: v * 2, $ints):\n    $body\n    if $bool:\n        continue",
        "for @1:int in Countdown($small):\n    $body",
        "for @1:int in Walkable(1, $int):\n    $body",
        "for @1:int, @2:int in pairs_of($ints):\n    $body",
        "for @1:int in itertools.chain($ints, count_to(2)):\n    $body",
        "def @1():\n    with noted($log, 1):\n        yield $int\n        yield 2\nfor @2:int in @1():\n    $body\n    break",
        "class @1:\n    def __iter__(self):\n        yield from $ints\n    def __len__(self):\n        return $int\nfor @2:int in @1():\n    $body",
        "@1 = echo($log)\nnext(@1)\nfor @2 in (1, 'x', 3, 4):\n    try:\n        $log.append(@1.send(@2))\n    except StopIteration as stop:\n        $log.append(stop.value)\n        break",
        "async def @1():\n    return $int\n@2 = @1()\ntry:\n    @2.send(None)\nexcept StopIteration as stop:\n    $log.append(stop.value)",
    ],
    "classes": [
        "class @1:\n    extra = $int\n    def __init__(self, v):\n        self.v = v\n    def __add__(self, other):\n        return @1(self.v + getattr(other, 'v', 1))\n    def __radd__(self, other):\n        return other - self.v\n    def __eq__(self, other):\n        return isinstance(other, @1) and self.v == other.v\n$log.append((@1($int) + @1(2)).v)\n$log.append($int + @1($int))\n$log.append((@1(1) == @1(1), @1(1) != 1, @1(2) in [@1(2)]))",
        "class @1(Base):\n    def describe(self):\n        return super().describe() * 2\n    @property\n    def half(self):\n        return self.v / 2\n    @half.setter\n    def half(self, value):\n        self.v = value * 2\n@2:object = @1($int)\n@2.half = $int\n$log.append((@2.describe(), @2.half))",
        "class @1:\n    def __init__(self, *values):\n        self.values = list(values)\n    def __len__(self):\n        return len(self.values)\n    def __getitem__(self, i):\n        return self.values[i]\n    def __setitem__(self, i, value):\n        self.values[i] = value\n    def __delitem__(self, i):\n        del self.values[i]\n@2 = @1($int, 2, 3)\n@2[0] = $int\n@2[1] += 2\ndel @2[-1]\n$log.append((len(@2), [*@2], @2[:1], 2 in @2))\nif @2:\n    $body",
        "class @1:\n    def __bool__(self):\n        $log.append('bool')\n        return $bool\nif @1():\n    $body\nelse:\n    $body\n$log.append(not @1())",
        "class @1:\n    def __getattr__(self, name):\n        if name == 'no':\n            raise AttributeError(name)\n        return name * 2\n    def __call__(self, p, k=3):\n        return p + k\n@2 = @1()\n$log.append((@2.ab, getattr(@2, 'no', None), @2($int), hasattr(@2, 'no')))",
        "class @1:\n    def __setattr__(self, name, value):\n        $log.append(name)\n        super().__setattr__(name, value)\n    def __delattr__(self, name):\n        object.__delattr__(self, name)\n@2 = @1()\n@2.p = $int\n@2.p += 1\n$log.append(vars(@2))\ndel @2.p",
        "class @1:\n    __slots__ = 'p', 'q'\n    def __init__(self):\n        self.p = $int\n@2 = @1()\n@2.q = $list\n$log.append((@2.p, @2.q))\ntry:\n    @2.r = 1\nexcept AttributeError as error:\n    $log.append($about)",
        "class @1:\n    def __enter__(self):\n        $log.append('in')\n        return $int\n    def __exit__(self, kind, error, where):\n        $log.append(kind)\n        return $bool\nwith @1() as @2:int:\n    $body\n    $risk",
        "@dataclasses.dataclass\nclass @1:\n    p: int\n    q: int = $int\n    def __post_init__(self):\n        self.r = self.p + self.q\n@2 = @1($int)\n$log.append((@2, @2.r, @2 == @1(1)))",
        "class @1(Base):\n    made = 0\n    def __lt__(self, other):\n        return self.v < other.v\n    def __hash__(self):\n        return 3\n    def __eq__(self, other):\n        $log.append('eq')\n        return self.v == other.v\n$log.append(sorted([@1(3), @1($int), @1(1)]))\n$log.append(@1(1) in {@1(1): 2})\n$log.append(max(@1(1), @1($int)))",
        "class @1:\n    def __iadd__(self, other):\n        self.sum = getattr(self, 'sum', 0) + other\n        return self\n    def __neg__(self):\n        return $int\n    def __matmul__(self, other):\n        return 'at', other\n    __rmatmul__ = __matmul__\n    def __index__(self):\n        return 1\n@2 = @1()\n@2 += $int\n$log.append((@2.sum, -@2, @2 @ 2, 2 @ @2, [5, 6, 7][@2], range(@2)))",
        "class @1:\n    def __iter__(self):\n        self.i = 0\n        return self\n    def __next__(self):\n        self.i += 1\n        if self.i > 3:\n            raise StopIteration\n        return self.i\nfor @2:int in @1():\n    $body\n@3, *@4 = @1()\n$log.append((@3, @4))",
        "class @1(Both):\n    @classmethod\n    def build(cls, v):\n        made = super().build(v + 1)\n        $log.append(cls.__name__)\n        return made\n    def __init__(self, v):\n        super().__init__(v, $int)\n@2:object = @1.build($int)\n$log.append((@2.describe(), @2.more, @2))",
        "class @1(enum.Enum):\n    P = 1\n    Q = $int + 20\n    R = 1\n    def other(self):\n        return @1.Q if self is @1.P else @1.P\n$log.append((@1.P.other().value, @1(1), @1['R'] is @1.P, list(@1), {@1.Q: 1}))",
        "class @1(NamedTuple):\n    p: int\n    q: int = $int\n@2 = @1($int)\n@3:int, @4:int = @2\n$log.append((@2, @2.q, @2._replace(p=0), @2 == (1, 2), @2._asdict()))",
        "class @1:\n    def __get__(self, instance, owner):\n        return 'got', instance is None\n    def __set__(self, instance, value):\n        $log.append(value)\nclass @2:\n    p = @1()\n    q = @1()\n@3 = @2()\n@3.p = $int\n$log.append((@3.p, @2.q))",
        "class @1(list):\n    def append(self, value):\n        super().append(value * 2)\n@2 = @1($list)\n@2.append($int)\n@2 += [1]\n$log.append((@2, len(@2), @2 == [1], sorted(@2)))",
        "class @1(dict):\n    def __missing__(self, key):\n        return $int\n@2 = @1($dict)\n@2['k'] = 1\n$log.append((@2['zz'], @2.get('zz'), @2, 'zz' in @2))",
        "class @1:\n    def __init__(self):\n        self.log = $log\n    def __getitem__(self, key):\n        self.log.append(key)\n        return $int\n    def __contains__(self, key):\n        return key == 2\n    def __format__(self, spec):\n        return f'<{spec}>'\n@2 = @1()\n$log.append((@2[1:2, ...], 2 in @2, f'{@2:abc}', '{:x}'.format(@2)))",
        "class @1:\n    def __eq__(self, other):\n        return NotImplemented\n    def __lt__(self, other):\n        return NotImplemented\n    def __mul__(self, other):\n        return NotImplemented\n    def __rmul__(self, other):\n        return 'r', other\n$log.append((@1() == 1, 2 * @1(), 'ab' * @1()))\ntry:\n    @1() * @1() < 2\nexcept TypeError as error:\n    $log.append(type(error))",
        "class @1:\n    count = 0\n    def __new__(cls, *args):\n        cls.count += 1\n        made = super().__new__(cls)\n        made.order = cls.count\n        return made\n    def __init__(self, v=0):\n        self.v = v\n@2, @3:object = @1(), @1($int)\n$log.append((@2.order, @3.order, @1.count))",
        "@1:object = $object\n@2 = @1\n@2.v = $int\n$log.append(@1.v)",
        "def @1(self):\n    return self.v * 2\nBase.extra = @1\n$log.append(Base($int).extra())",
        "@1 = o.v\no.v = $int\n$body\no.v = @1",
        "@functools.total_ordering\nclass @1:\n    def __init__(self, v):\n        self.v = v\n    def __eq__(self, other):\n        return self.v == other.v\n    def __lt__(self, other):\n        return self.v < other.v\n$log.append((@1(1) >= @1($int), @1($int) > @1(2), @1(1) <= @1(1)))",
        "class @1:\n    @functools.cached_property\n    def p(self):\n        $log.append('computed')\n        return $int\n    @staticmethod\n    def q(v):\n        return v + 1\n@2 = @1()\n$log.append((@2.p, @2.p, @2.q($int), @1.q(1)))",
    ],
    "language": [
        "if $bool:\n    $body\nelse:\n    $body",
        "if (@1:int := $int) > 1:\n    $body\nelif @1:\n    $body",
        "for @1:int in range($trips):\n    $body",
        "@1:int = $trips\nwhile @1 > 0:\n    @1 -= 1\n    $body",
        "while True:\n    $log.append(0)\n    if len($log) > 5:\n        break\n    $body",
        "match $any:\n    case int(@1) if @1 > 2:\n        $log.append(@1)\n    case [@2, *@3]:\n        $log.append((@2, @3))\n    case {'p': @4, **@5}:\n        $log.append((@4, @5))\n    case str() as @6:\n        $log.append(@6)\n    case None | True:\n        $body\n    case _:\n        $body",
        "match $thing:\n    case Point(x=0, y=@1):\n        $log.append(@1)\n    case Point(@1, @2) | Pair(@1, @2):\n        $log.append((@1, @2))\n    case Base(v=@3) if @3 > 1:\n        $log.append(@3)\n    case Colour.RED | Colour.BLUE:\n        $log.append('colour')\n    case Row(key='k', value=@4):\n        $log.append(@4)\n    case object(v=int()):\n        $body",
        "match ($int, $list):\n    case (0, _) | (_, []):\n        $body\n    case (@1, [@2, @3]):\n        $log.append(@1 + @2 + @3)\n    case (@1, [@2, *_, 2]):\n        $log.append((@1, @2))\n    case (1 | 2 | 3 as @1, _):\n        $log.append(@1)",
        "match $dict:\n    case {'p': 1}:\n        $body\n    case {'p': int(@1), 'q': @2}:\n        $log.append((@1, @2))\n    case {}:\n        $log.append('some')",
        "def @1(p, q=$int, *rest, k=$int, **named):\n    $helper\n    return p + q + k + len(rest) + len(named)\n$log.append(@1($int))\n$log.append(@1($int, 2, 3, z=1))\n$log.append(@1(*[$int, 4], **{'k': 2}))",
        "@1:int = $int\ndef @2(k=1):\n    nonlocal @1\n    @1 += k\n    return @1\n$log.append(@2() + @2($int))",
        "def @1(p, /, q, *, k):\n    return p, q, k\n$log.append(@1($int, q=2, k=$int))\ntry:\n    @1(p=1, q=2, k=3)\nexcept TypeError as error:\n    $log.append($about)",
        "def @1():\n    p = $int\n    def inner():\n        nonlocal p\n        p += 1\n        return p\n    def look():\n        return p\n    return inner, look\n@2, @3 = @1()\n@2()\n$log.append((@2(), @3()))",
        "def @1(k):\n    $helper\n    if k > $int:\n        return k\n    $helper\n    return -k\n@2:int = @1($int) + @1(2)",
        "def @1(k):\n    $risk\n    return k\ntry:\n    $log.append(@1($int))\nexcept $errors as error:\n    $log.append($about)",
        "@logged\ndef @1(k):\n    return k * 2\n$log.append(@1($int))",
        "def @1(k, seen=[]):\n    seen.append(k)\n    return seen\n@1($int)\n$log.append(@1(2))",
        "for @1:int in $list[:5]:\n    if @1 == $int:\n        break\n    $body\nelse:\n    $log.append('none')",
        "for $list_name[0:1] in ([1], [2]):\n    $body",
        "for box.count in range(2):\n    $body",
        "for @1:int in range(3):\n    for @2:int in range(2):\n        if @1 == @2:\n            continue\n        $body",
        "@1 = []\nfor @2:int in range(3):\n    @1.append(lambda: @2)\n$log.append([g() for g in @1])",
        "@1:int = 0\nfor @2:int in range(3):\n    @1 += @2 * $int\n    $body",
        "for @1 in range(2):\n    if @1:\n        del @2\n    else:\n        @2 = $int\ntry:\n    $log.append(@2)\nexcept NameError as error:\n    $log.append(str(error) != '')",
        "@1 = {}\nfor @2:int in $ints:\n    @1[@2 % 3] = @1.get(@2 % 3, 0) + 1\n    $body\n$log.append(@1)",
        "for @1 in $dict:\n    $dict_name[@1 + 'x'] = 1\n    if len($dict_name) > 4:\n        break",
        "for @1:int in $list_name[:4]:\n    $list_name.append(@1)\n    $body\ndel $list_name[6:]",
        "for @1:int in $list_name:\n    if len($list_name) > 5:\n        break\n    $list_name.append(@1)\n    $body",
    ],
}

# ---- Definitions of a program's own, beside the function -----------------------------------------------------------

HELPERS = [
    "def @f(p, q=2):\n    $helper\n    $helper\n    return p + q",
    "def @f(p, q=2):\n    if $bool:\n        $helper\n        return q\n    $helper\n    return p",
    "def @f(p, q=2):\n    try:\n        $risk\n        $helper\n    except $errors as error:\n        $log.append($about)\n        return q\n    return p",
    "def @f(p, q=2):\n    for i in range(3):\n        $helper\n        if i > p:\n            return i\n    return q",
    "def @f(p, q=2):\n    with noted(NOTES, p, $errors):\n        $helper\n        $risk\n    return q",
    "def @f(p, q=2):\n    try:\n        $helper\n        return p\n    finally:\n        $helper",
]
GENERATORS = [
    "def @g(p, q=2):\n    $helper\n    yield p\n    $helper\n    yield q",
    "def @g(p, q=2):\n    for i in range(q):\n        $helper\n        yield i + p\n    return p",
    "def @g(p, q=2):\n    try:\n        yield p\n        $risk\n        yield q\n    except $errors as error:\n        $log.append($about)\n        yield -1\n    finally:\n        $helper",
    "def @g(p, q=2):\n    while q > 0:\n        got = yield q\n        q -= 1\n        if got:\n            yield got + p",
    "def @g(p, q=2):\n    yield from $ints\n    got = yield from count_to(q)\n    yield got\n    $helper",
]

OWN_OBJECTS = ["Left(2)", "Both(1)", "Slotted(4)", "Registered(2)", "Proxy(Base(5))", "Slim(2)", "Base(8)", "Box(1)"]
