# errors raised by compile() itself
try:
    kt.compile(lambda x: x + 1, backend="eagre")
except kt._dynamo.exc.InvalidBackend as e:
    print("InvalidBackend", "eagre" in str(e), "list_backends" in str(e))
try:
    kt.compile(lambda x: x, backend="eager", mode="default", options={"a": 1})
except RuntimeError as e:
    print("RuntimeError", "mode or options" in str(e))
try:
    kt.compile(3, backend="eager")
except AssertionError as e:
    print("AssertionError")

# output:
# | InvalidBackend True True
# | RuntimeError True
# | AssertionError
# counts: graphs 0; breaks 0; recompiles 0.
