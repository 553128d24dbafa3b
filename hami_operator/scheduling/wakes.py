"""Which waiting pods an event of a node, of another pod or of a quota wakes."""

from __future__ import annotations

import dataclasses

from hami_operator.protocol import instant
from hami_operator.scheduling import (
    allocator,
    filters,
    hints,
    ledger,
    nodes,
    nominations,
    objecthints,
    objects,
    queue,
    quota,
)
from hami_operator.scheduling import pod as pods


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wake:
    """Something that may help waiting pods.

    Attributes:
        cause: the event, for the ordinary filters.
        words: device types that can take more somewhere than before.
        namespace: whose pods hold less of ``words`` than before; empty where none do.
    """

    cause: hints.Event
    words: frozenset[str] = frozenset()
    namespace: str = ""


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
        cause = hints.PodChange(old=old, new=after)
        self.queue.wake(Wake(cause=cause, words=freed, namespace=entry.namespace), now)

    def by_arrival(self, pod: pods.Pod, now: instant.Instant) -> None:
        """Wake by a pod that has come to a node: some want to be near it, or as many elsewhere."""
        cause = hints.PodChange(old=None, new=pod)
        self.queue.wake(Wake(cause=cause), now, among=hints.BY_ARRIVAL)

    def by_promise(self, promise: nominations.Nomination, now: instant.Instant) -> None:
        """Wake by room that a pod was promised and is not held for it any more."""
        left = dataclasses.replace(promise.pod, node_name=promise.node)
        wake = Wake(cause=hints.PodChange(old=left), words=frozenset(promise.slots))
        self.queue.wake(wake, now)

    def by_object(self, change: objects.Change | None, now: instant.Instant) -> None:
        """Wake by a claim, a volume or another object beside pods and nodes."""
        if change is not None:
            among = objecthints.affected(change.kind)
            self.queue.wake(Wake(cause=change), now, among=among)

    def by_quota(self, change: quota.Change, now: instant.Instant) -> None:
        """Wake by a quota that allows more than before."""
        if change.loosened:
            cause = hints.QuotaChange(namespace=change.namespace)
            self.queue.wake(Wake(cause=cause), now)

    def _helps(self, event: Wake, item: queue.Item) -> bool:
        """Devices are looked at by type, all else by the filters' own hints.

        A pod that nobody rejected, since there was no node, is helped by anything.
        """
        if isinstance(event.cause, hints.PodChange) and event.cause.is_end_of(item.pod):
            return False
        if not item.plugins:
            return True
        plugins = item.plugins
        if not isinstance(event.cause, hints.QuotaChange):
            if event.words & item.words and _frees(event, item):
                return True
            plugins -= {allocator.PLUGIN, allocator.QUOTA}
        return hints.may_help(plugins, item.pod, event.cause, self._options)


def _frees(event: Wake, item: queue.Item) -> bool:
    """Whether a pod that waits for devices may have some of those that became free."""
    if allocator.PLUGIN in item.plugins:
        return True
    return allocator.QUOTA in item.plugins and event.namespace == item.pod.namespace
