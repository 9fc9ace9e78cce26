"""What breaks by design, one call each; before and after it code is native. The only part whose rows have breaks."""
import json
import logging
import random
import time
import warnings

from language_programs import effects, followed, x3

logger = logging.getLogger("kintsugi.language")
logger.setLevel(logging.CRITICAL)  # whoever listens to the others does not hear it


async def doubled(x):
    return x * 2


async def waiting(x):
    return await doubled(x) + 1


def finished(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


@followed(lambda: (x3(),))
def async_as_plain(x):
    y = finished(waiting(x))
    return y + x


@followed(lambda: (x3(),))
def text_of_json(x):
    text = json.dumps({"a": [1, 2.5, None], "b": "c"}, sort_keys=True)
    back = json.loads(text)
    return x * back["a"][1], text


@followed(lambda: (x3(),))
def random_numbers(x):
    random.seed(7)
    first, second = random.random(), random.randint(1, 10)
    return x * first + second, first, second


@followed(lambda: (x3(),))
def random_choices(x):
    state = random.Random(3)
    items = [1, 2, 3, 4]
    state.shuffle(items)
    return x * state.choice(items), items, state.sample(items, 2)


@followed(lambda: (x3(),))
def clocks(x):
    start = time.perf_counter()
    y = x * 2
    return y + 1, time.perf_counter() >= start, time.time() > 0, time.monotonic() >= 0


@followed(lambda: (x3(),))
def warned(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful")
    return x * 2 + len(caught), str(caught[0].message)


@followed(lambda: (x3(),))
def logged(x):
    logger.warning("value %s", 3)
    return x * 2 + 1, logger.isEnabledFor(logging.ERROR)


@followed(lambda: (x3(),))
def executed(x):
    names = {"k": 2}
    exec("k = k * 3", names)
    return x * names["k"], eval("k + 1", names)


@followed(lambda: (x3(),))
def written(x):
    print("a", 1, sep="-")
    effects["written"] = True
    return x * 2


@followed(lambda: (x3(),))
def looked_at(x):
    return f"{x}", repr(x), x * 2
