# limits of reordering
class Thing: pass
def note(*a, **k):
    print("note", len(a), sorted(k))

kt._dynamo.config.reorderable_logging_functions.add(note)
thing = Thing()

@kt.compile(backend=cnt)
def with_kwargs(x):
    x = x + 1
    note(x, tag=1)
    return x + 1

@kt.compile(backend=cnt)
def with_object(x):
    x = x + 1
    note(thing)
    return x + 1

with_kwargs(kt.ones(1)); print(cnt.frame_count)
with_object(kt.ones(1)); print(cnt.frame_count)
kt._dynamo.config.reorderable_logging_functions.clear()

# output:
# | note 1 ['tag']
# | 2
# | note 1 []
# | 4
# counts: graphs 4 (operations: 1, 1, 1, 1); breaks reported 3 (resumed 3) at 3 source lines; recompiles 0.
