"""kt._dynamo.utils.counters: what happened so far, as numbers under headings.

counters['native'] has the native counters; counters['graph_break'], ['hand_over'], ['fallback'] count reasons by their text.
All of them are read from the runtime whenever they are looked at; other headings are ordinary Counters.
"""
import collections

from .._runtime import _driver


class _LiveCounter(collections.Counter):
    """A Counter that shows the runtime's numbers of one heading."""

    def __init__(self, heading):
        super().__init__()
        self._heading = heading

    def _refresh(self):
        now = _driver.counts(self._heading)
        for name in [name for name in dict.keys(self) if name not in now]:
            dict.__delitem__(self, name)
        dict.update(self, now)
        return self

    def __getitem__(self, name):
        return super(_LiveCounter, self._refresh()).__getitem__(name)

    def __iter__(self):
        return super(_LiveCounter, self._refresh()).__iter__()

    def __len__(self):
        return super(_LiveCounter, self._refresh()).__len__()

    def __contains__(self, name):
        return super(_LiveCounter, self._refresh()).__contains__(name)

    def __eq__(self, other):
        return super(_LiveCounter, self._refresh()).__eq__(other)

    __hash__ = None

    def __repr__(self):
        return super(_LiveCounter, self._refresh()).__repr__()

    def __reduce__(self):
        return collections.Counter, (dict(self._refresh()),)

    def get(self, name, default=None):
        return super(_LiveCounter, self._refresh()).get(name, default)

    def keys(self):
        return super(_LiveCounter, self._refresh()).keys()

    def values(self):
        return super(_LiveCounter, self._refresh()).values()

    def items(self):
        return super(_LiveCounter, self._refresh()).items()

    def copy(self):
        return collections.Counter(dict(self._refresh()))


_LIVE = ("native", "frames", "stats", "graph_break", "unimplemented", "resumes", "hand_over", "fallback")


class _Counters(collections.defaultdict):
    """A defaultdict(Counter) whose runtime headings are always there, and whose clear() sets the runtime's back too."""

    def __init__(self):
        super().__init__(collections.Counter)
        self._add_live()

    def _add_live(self):
        for heading in _LIVE:
            self[heading] = _LiveCounter(heading)

    def clear(self):
        super().clear()
        _driver.clear_counts()
        self._add_live()


counters = _Counters()
