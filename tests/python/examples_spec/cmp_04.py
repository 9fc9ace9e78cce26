# fullgraph=True turns the first break into an error
ran = []

@kt.compile(backend=cnt, fullgraph=True)
def fn(x):
    ran.append(1)
    x = x + 1
    kt._dynamo.graph_break(msg="stop here")
    return x + 2

try:
    fn(kt.ones(2))
except kt._dynamo.exc.Unsupported as e:
    text = str(e)
    print("Unsupported", isinstance(e, RuntimeError))
    print("graph_break()" in text, "stop here" in text, "from user code" in text)
print(ran, cnt.frame_count)

# output:
# | Unsupported True
# | True True True
# | [] 0
# counts: graphs 0; breaks 0; recompiles 0.
