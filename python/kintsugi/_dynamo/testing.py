"""For tests: a function the tracer cannot know."""
from .._runtime import _driver

opaque = _driver.opaque
