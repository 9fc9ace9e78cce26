# logger methods: break, ignore one instance, ignore the class
import logging
class Catch(logging.Handler):
    def emit(self, r): print("log:", r.name, r.getMessage())
a, b = logging.getLogger("a"), logging.getLogger("b")
for l in (a, b):
    l.addHandler(Catch()); l.setLevel("INFO"); l.propagate = False

def count(logger):
    kt._dynamo.reset(); cnt.clear()
    def f(x):
        x = x + 1
        logger.info("hi")
        return x + 1
    kt.compile(f, backend=cnt)(kt.ones(1))
    return cnt.frame_count

print(count(a))
kt._dynamo.config.ignore_logging_functions.add(a.info)
print(count(a), count(b))
kt._dynamo.config.ignore_logging_functions.add(logging.Logger.info)
print(count(b))
kt._dynamo.config.ignore_logging_functions.clear()

# output:
# | log: a hi
# | 2
# | log: b hi
# | 1 2
# | 1
# counts: graphs 6 (operations: 1, 1, 2, 1, 1, 2); breaks reported 2 (resumed 2) at 1 source line; recompiles 0.
