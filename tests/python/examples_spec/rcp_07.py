# what is guarded: globals, attributes, lengths, types, keys, arguments
cfg = {"a": 1}
scale = 2
class Box: pass
box = Box(); box.k = 2

@kt.compile(backend=cnt)
def f(x, items, extra=2):
    y = x * scale + box.k + len(items) + extra
    return y + cfg["a"] if "b" not in cfg else y

x = kt.ones(2)
f(x, [1, 2]); f(x, [1, 2]); print(cnt.frame_count)
scale = 5; f(x, [1, 2]); print("global", cnt.frame_count)
box.k = 9; f(x, [1, 2]); print("attribute", cnt.frame_count)
f(x, [1, 2, 3]); print("length", cnt.frame_count)
f(x, (1, 2, 3)); print("type", cnt.frame_count)
cfg["b"] = 1; f(x, (1, 2, 3)); print("key", cnt.frame_count)
f(x, (1, 2, 3), extra=7); print("argument", cnt.frame_count)

# output:
# | 1
# | global 2
# | attribute 3
# | length 4
# | type 5
# | key 6
# | argument 7
# counts: graphs 7 (operations: 5, 5, 5, 5, 5, 4, 4); breaks 0; recompiles 6.
