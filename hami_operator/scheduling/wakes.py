"""Which waiting pods an event of a node or of another pod wakes."""

from __future__ import annotations

import dataclasses

from hami_operator.protocol import instant
from hami_operator.scheduling import allocator, filters, hints, ledger, nodes, queue
from hami_operator.scheduling import pod as pods


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wake:
    """Something that may help waiting pods.

    Attributes:
        cause: the event, for the ordinary filters.
        words: device types that can take more somewhere than before.
    """

    cause: hints.Event
    words: frozenset[str] = frozenset()


class Wakes:
    """The queue, and how events get to it.

    Args:
        nodes: which types can be used where.
        options: of the ordinary filters.
        ignored_keys: annotations of waiting pods that we write ourselves.

    Attributes:
        queue: the pods that wait.
    """

    def __init__(
        self, nodes: nodes.Nodes, options: filters.Options, ignored_keys: frozenset[str]
    ) -> None:
        self._nodes = nodes
        self._options = options
        self.queue: queue.Queue[Wake] = queue.Queue(helps=self._helps, ignored_keys=ignored_keys)

    def by_node(self, change: nodes.Change, now: instant.Instant) -> None:
        """Wake by a node that was added or changed."""
        usable = {
            word
            for word, standing in self._nodes.standings(change.name).items()
            if standing.because is None
        }
        cause = hints.NodeChange(old=change.before, new=change.after, devices=bool(change.words))
        self.queue.wake(Wake(cause=cause, words=change.words & usable), now)

    def by_pod(
        self,
        before: pods.Pod | None,
        after: pods.Pod | None,
        transition: ledger.Transition,
        now: instant.Instant,
    ) -> None:
        """Wake by what a pod gave back, on the node where the ledger had it."""
        entry = transition.before
        if entry is None or before is None:
            return
        freed = transition.freed
        if after is not None and not (freed or transition.shrank or before.labels != after.labels):
            return
        old = before if before.node_name else dataclasses.replace(before, node_name=entry.node)
        self.queue.wake(Wake(cause=hints.PodChange(old=old, new=after), words=freed), now)

    def _helps(self, event: Wake, item: queue.Item) -> bool:
        """Devices are looked at by type, all else by the filters' own hints.

        A pod that nobody rejected, since there was no node, is helped by anything.
        """
        if not item.plugins:
            return True
        if allocator.PLUGIN in item.plugins and event.words & item.words:
            return True
        plugins = item.plugins - {allocator.PLUGIN}
        return hints.may_help(plugins, item.pod, event.cause, self._options)
