"""An independent check: is any card given away beyond what it has, is any decision malformed?

It reads nothing but Nodes and pods as the API server holds them, and shares no code and no table
with what it checks: see `stock` and `takings`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator.simulator import stock, takings

Raw = Mapping[str, Any]

_LOCKS: Final = ("hami.io/mutex.lock", "cambricon.com/dsmlu.lock")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """A card's totals, and what the pods on it take at most at any moment."""

    total: stock.Amounts
    taken: stock.Amounts = (0, 0, 0)
    owners: tuple[str, ...] = ()


def loads(nodes: Iterable[Raw], pods: Iterable[Raw]) -> dict[tuple[str, str], Load]:
    """(node, card id) to its load; a card that no node has is there with totals of 0."""
    found = {
        (node["metadata"]["name"], card): Load(total=total)
        for node in nodes
        for card, total in stock.cards(node)
    }
    for pod in pods:
        for card, taken in takings.peak(pod).items():
            place = (pod["spec"]["nodeName"], card)
            before = found.get(place, Load(total=(0, 0, 0)))
            found[place] = dataclasses.replace(
                before, taken=takings.plus(before.taken, taken), owners=(*before.owners, name(pod))
            )
    return found


def findings(nodes: Collection[Raw], pods: Collection[Raw]) -> Iterator[str]:
    """Everything that must not be, in words."""
    for (node, card), load in loads(nodes, pods).items():
        for what, taken, total in zip(
            ("slots", "MiB", "cores"), load.taken, load.total, strict=True
        ):
            if taken > total:
                owners = ", ".join(load.owners)
                yield f"{node} {card}: {taken} of {total} {what} given to {owners}"
    partitioned = {card for node in nodes for card in stock.partitioned(node)}
    for pod in pods:
        if pod["spec"].get("nodeName"):
            yield from _misplaced(pod)
            yield from _unmatched(pod, partitioned)


def _misplaced(pod: Raw) -> Iterator[str]:
    """Slots that are not those of the containers, cards that do not match the request."""
    node = pod["spec"]["nodeName"]
    written = pod["metadata"].get("annotations") or {}
    decided = dict(takings.decisions(pod))
    if decided and written.get("hami.io/vgpu-node") != node:
        yield f"{name(pod)}: is on {node}, decided for {written.get('hami.io/vgpu-node')}"
    for key in takings.COUNTED_BY:
        wanted = takings.wanted(pod, key)
        given = takings.given(pod, key, decided.get(key, []))
        if (any(wanted) or given) and given != wanted:
            yield f"{name(pod)}: {key} gives {given} cards to containers that ask for {wanted}"


def _unmatched(pod: Raw, partitioned: Collection[str]) -> Iterator[str]:
    """Partitioned cards without an instance, instances that no card of the decision wants."""
    decided = {
        (place, position, device.id)
        for _, slots in takings.decisions(pod)
        for place, slot in enumerate(slots)
        for position, device in enumerate(slot)
        if device.id in partitioned
    }
    reserved = {
        (one["containerIndex"], one["deviceIndex"], one["gpuUUID"])
        for one in takings.instances(pod)
    }
    for place, position, card in sorted(decided ^ reserved):
        what = "the decision gives no such device"
        if (place, position, card) in decided:
            what = "no instance is reserved"
        yield f"{name(pod)}: device {position} of container {place}, {card}: {what}"


def traces(objects: Iterable[Raw], allowed: Collection[str]) -> Iterator[str]:
    """Finalizers, and annotations that neither the protocol nor a user has put there."""
    for one in objects:
        meta = one["metadata"]
        for finalizer in meta.get("finalizers") or ():
            yield f"{name(one)}: finalizer {finalizer}"
        for key in meta.get("annotations") or ():
            if key not in allowed:
                yield f"{name(one)}: annotation {key}"


def locks(nodes: Iterable[Raw]) -> Iterator[str]:
    """Node locks that nobody has released."""
    for node in nodes:
        for key in _LOCKS:
            value = (node["metadata"].get("annotations") or {}).get(key)
            if value is not None:
                yield f"{name(node)}: {key} is still {value}"


def phases(pods: Iterable[Raw]) -> Counter[str]:
    """How many pods are in each phase; ``Bound`` are those that wait for their devices."""
    return Counter(
        "Bound"
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending"
        else str(pod["status"].get("phase"))
        for pod in pods
    )


def name(found: Raw) -> str:
    """``namespace/name``, or the name of an object without namespace."""
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])
