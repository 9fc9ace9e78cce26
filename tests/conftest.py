"""Settings of every Python test: failures inside the runtime raise, random draws repeat, random programs are as many as
the run can afford. `./dev test` runs the suite again under KINTSUGI_STRESS, KINTSUGI_ISA and the sanitizers."""
import gc
import os
import random
import signal

os.environ.setdefault("KINTSUGI_STRICT", "1")  # before anything imports kintsugi: it is read once

import hypothesis
import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and its children too

STRESS = os.environ.get("KINTSUGI_STRESS", "")
SANITIZED = os.environ.get("KINTSUGI_SANITIZED") == "1"

hypothesis.settings.register_profile(
    "kintsugi", derandomize=True, deadline=None, max_examples=20 if STRESS or SANITIZED else 100)
hypothesis.settings.load_profile("kintsugi")


def pytest_collection_finish():
    """The tests themselves live to the end: collections, which many of them make, need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeds(request):
    """The same draws in every run, different ones in every test."""
    random.seed(request.node.nodeid)


@pytest.fixture
def fresh():
    """Nothing is compiled yet, and nothing counted."""
    import kintsugi as kt
    kt._dynamo.reset()
    kt._dynamo.utils.counters.clear()


@pytest.fixture(scope="session")
def stress():
    """The stress switch of this run, or an empty string."""
    return STRESS


@pytest.fixture
def switches(stress):
    """For tests of what governs compilation: whatever they set is taken back. Nothing is traced under break_everywhere."""
    if stress == "break_everywhere":
        pytest.skip("nothing is traced")
    import kintsugi as kt
    from kintsugi._runtime import _driver
    kt._dynamo.reset()
    yield
    _driver.set_error_on_graph_break(False)
    _driver.set_stance(0, None)
    kt._dynamo.config.reorderable_logging_functions.clear()
    kt._dynamo.config.ignore_logging_functions.clear()
    kt._logging.set_logs()
