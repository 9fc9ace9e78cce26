"""Small programs that several tests of what governs compilation use."""
import kintsugi as kt


def asks(x):
    return kt.compiler.is_compiling(), x + 1


def is_compiled(function, *args):
    """Of asks, however it is wrapped."""
    return function(*args)[0]


def variants(function, *calls):
    """As how many graphs it is compiled for these calls, in turn."""
    cnt = kt._dynamo.testing.CompileCounter()
    fast = kt.compile(function, backend=cnt)
    for arguments in calls:
        fast(*arguments)
    return cnt.frame_count
