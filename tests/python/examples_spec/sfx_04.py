# an exception that leaves the function
log = []

@kt.compile(backend=cnt)
def f(x):
    log.append("start")
    x = x + 1
    raise KeyError("gone")

try:
    f(kt.ones(1))
except KeyError as e:
    print("KeyError", e.args)
print(log, cnt.frame_count)
try:
    kt.compile(lambda x: {}["nope"], backend=cnt, fullgraph=True)(kt.ones(1))
except Exception as e:
    print(type(e).__name__)

# output:
# | KeyError ('gone',)
# | ['start'] 0
# | Unsupported
# counts: graphs 0; breaks reported 1 (skipped 1) at 1 source line; recompiles 0.
