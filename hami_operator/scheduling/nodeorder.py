"""Nodes in the order in which the node policy prefers them, so that not all need be asked.

The load of a node is known before any pod asks. Where nothing else decides between nodes, the
first one in this order that takes a pod is the one that asking all of them would find.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from hami_operator.scheduling import policy, scores, snapshot

Views = tuple[snapshot.NodeView, ...]


class Order:
    """All nodes by load, equally loaded ones by name; kept up to date by what has changed."""

    def __init__(self) -> None:
        self._shown: Views = ()
        self._views: dict[str, snapshot.NodeView] = {}
        self._emptiest: list[tuple[float, str]] = []
        self._fullest: list[tuple[float, str]] = []
        self._deterring: set[str] = set()

    def show(self, views: Views) -> None:
        """Take up all nodes as they are now; quick where few views are other objects."""
        if len(views) == len(self._shown):
            pairs = zip(self._shown, views, strict=True)
            changed: Views | list[snapshot.NodeView] = [
                view for old, view in pairs if old is not view
            ]
        else:
            changed = views
        self._shown = views
        for view in changed:
            if self._views.get(view.name) is not view:
                self._put(view)
        if len(self._views) > len(views):
            for name in self._views.keys() - {view.name for view in views}:
                self._drop(name)

    @property
    def deters(self) -> bool:
        """Whether any node has a taint that makes it less wanted, which may outweigh its load."""
        return bool(self._deterring)

    def by(self, node_policy: str) -> Iterator[snapshot.NodeView]:
        """All nodes, the one that the policy prefers first."""
        ranks = self._fullest if node_policy == policy.BINPACK else self._emptiest
        return (self._views[name] for _, name in ranks)

    def _put(self, view: snapshot.NodeView) -> None:
        self._drop(view.name)
        self._views[view.name] = view
        load = scores.node(view.base)
        bisect.insort(self._emptiest, (load, view.name))
        bisect.insort(self._fullest, (-load, view.name))
        if view.node.deterring:
            self._deterring.add(view.name)

    def _drop(self, name: str) -> None:
        known = self._views.pop(name, None)
        if known is None:
            return
        load = scores.node(known.base)
        del self._emptiest[bisect.bisect_left(self._emptiest, (load, name))]
        del self._fullest[bisect.bisect_left(self._fullest, (-load, name))]
        self._deterring.discard(name)
