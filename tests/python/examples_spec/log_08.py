# set_logs(graph_breaks=True): what a record holds
import logging
lines = []
class Catch(logging.Handler):
    def emit(self, r): lines.append(r.getMessage())

kt._logging.set_logs(graph_breaks=True)
for name in list(logging.root.manager.loggerDict):
    if "graph_breaks" in name:
        logging.getLogger(name).addHandler(Catch())

@kt.compile(backend=cnt)
def f(x):
    x = x + 1
    kt._dynamo.graph_break(msg="why not")
    return x + 1

f(kt.ones(1))
text = lines[0]
for word in ("Graph break in user code at", "Graph Break Reason:", "Explanation:", "why not", "Hint:",
             "Developer debug context:", "User code traceback:", "in f"):
    print(word, word in text)

# output:
# | Graph break in user code at True
# | Graph Break Reason: True
# | Explanation: True
# | why not True
# | Hint: True
# | Developer debug context: True
# | User code traceback: True
# | in f True
# counts: graphs 2 (operations: 1, 1); breaks reported 1 (resumed 1) at 1 source line; recompiles 0.
