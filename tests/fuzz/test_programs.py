"""Random programs, plain against compiled: 20,000 with fixed seeds, or KINTSUGI_FUZZ of them from a seed of the day."""
import os
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import run  # noqa: E402

CHUNK = 500
STRESSED = "KINTSUGI_STRESS" in os.environ or "KINTSUGI_SANITIZED" in os.environ  # slow, and repeated by many switches
ASKED = int(os.environ.get("KINTSUGI_FUZZ", 0))
COUNT = ASKED or (250 if STRESSED else 20_000)
FIRST = int(time.time()) // 86_400 * 1_000_000 if ASKED else 0


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_programs(first):
    failures = run.run_seeds(first, min(CHUNK, FIRST + COUNT - first))
    assert not failures, run.describe(failures, shrunk=1)
