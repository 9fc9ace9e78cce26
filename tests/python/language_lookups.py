"""hasattr(), getattr() with a default and class patterns where what they ask raises AttributeError."""
from language_programs import followed, x3


class Named:
    """As modules look names up: a Python __getattr__ that raises."""

    def __init__(self, **names):
        self.names = names

    def __getattr__(self, name):
        if name in self.names:
            return self.names[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class Chained(Named):
    def __getattr__(self, name):
        try:
            return self.names[name]
        except KeyError as error:
            raise AttributeError(name) from error


class Computed:
    asked = 0

    @property
    def missing(self):
        raise AttributeError("nothing here")

    @property
    def inherited(self):
        return self.nothing

    @property
    def caught(self):
        try:
            return self.missing
        except AttributeError:
            return 5


@followed(lambda: (x3(), Named(gain=2.0)))
def names_that_a_getattr_refuses(x, named):
    found = [hasattr(named, name) for name in ("gain", "bias", "names", "__len__")]
    return x * getattr(named, "gain", 1.0) + getattr(named, "bias", 3.0), found, getattr(named, "none", None)


@followed(lambda: (x3(), Chained(a=1)))
def names_refused_with_a_cause(x, chained):
    try:
        value = getattr(chained, "b", 4)
    except AttributeError:
        value = 0
    return x + value, getattr(chained, "a", 7), hasattr(chained, "b"), [getattr(chained, n, n) for n in "abc"]


@followed(lambda: (x3(), Computed()))
def properties_that_raise(x, c):
    return x + getattr(c, "missing", 2), hasattr(c, "missing"), hasattr(c, "inherited"), getattr(c, "caught", 0), hasattr(c, "caught")


@followed(lambda: (x3(), Computed()))
def handlers_around_what_is_taken(x, c):
    log = []
    try:
        raise KeyError("outer")
    except KeyError as error:
        log.append(getattr(c, "missing", error.args[0]))
        try:
            c.missing
        except AttributeError as inner:
            log.append((str(inner), repr(inner.__context__)))
    finally:
        log.append(hasattr(c, "missing"))
    return x + 1, log


@followed(lambda: (x3(), [Named(a=1), Named(b=2), Computed()]))
def patterns_over_refused_names(x, things):
    found = []
    for thing in things:
        match thing:
            case Named(a=value) | Named(b=value):
                found.append(value)
            case Computed(missing=value):
                found.append("never")
            case _:
                found.append("other")
    return x + 1, found
