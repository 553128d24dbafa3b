"""The volumes that are there for one claim, found by node without a look at all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from hami_operator.scheduling import labels, storage


class Offer:
    """What a claim that waits for its node may get.

    Local volumes are pinned to one node each, so they are kept by the label that pins them.

    Args:
        claim: the claim.
        known: every volume.
    """

    def __init__(self, claim: storage.Claim, known: Iterable[storage.Volume]) -> None:
        self.claim = claim
        possible = [volume for volume in known if _is_possible(claim, volume)]
        self._meant = next((volume for volume in possible if volume.is_for(claim)), None)
        self._pinned: dict[tuple[str, str], list[storage.Volume]] = {}
        self._anywhere: list[storage.Volume] = []
        for volume in possible:
            if volume.claim is None and _is_free(claim, volume):
                self._take_up(volume)
        self._keys = frozenset(key for key, _ in self._pinned)

    def best(
        self, node_labels: Mapping[str, str], taken: Collection[str] = ()
    ) -> storage.Volume | None:
        """The volume that was meant for the claim, else the smallest that will do.

        Args:
            node_labels: where it must be reached from.
            taken: names of volumes that are given to other claims.
        """
        meant = self._meant
        if meant is not None and meant.name not in taken:
            return meant if meant.reaches(node_labels) else None
        fitting = (
            volume
            for volume in self._near(node_labels)
            if volume.name not in taken and volume.reaches(node_labels)
        )
        return min(fitting, key=lambda volume: (volume.capacity, volume.name), default=None)

    def _take_up(self, volume: storage.Volume) -> None:
        pins = _pins(volume)
        if not pins:
            self._anywhere.append(volume)
        for pin in pins:
            self._pinned.setdefault(pin, []).append(volume)

    def _near(self, node_labels: Mapping[str, str]) -> Iterator[storage.Volume]:
        yield from self._anywhere
        for key in self._keys:
            yield from self._pinned.get((key, node_labels.get(key, "")), ())


def _pins(volume: storage.Volume) -> frozenset[tuple[str, str]]:
    """Labels of which a node must carry one to reach the volume; none where that says too little.

    The first condition on a label of each term is enough: it only narrows the search.
    """
    terms = volume.affinity.terms if volume.affinity is not None else ()
    pins: set[tuple[str, str]] = set()
    for term in terms:
        listed = [one for one in term.expressions if one.operator is labels.Operator.IN]
        if not listed:
            return frozenset()
        pins |= {(listed[0].key, value) for value in listed[0].values}
    return frozenset(pins)


def _is_possible(claim: storage.Claim, volume: storage.Volume) -> bool:
    """What must hold even of a volume that was meant for the claim."""
    return (
        volume.class_name == claim.class_name
        and (volume.claim is None or volume.is_for(claim))
        and volume.capacity >= (claim.requested or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def _is_free(claim: storage.Claim, volume: storage.Volume) -> bool:
    selected = claim.selector.absent or claim.selector.matches(volume.labels)
    return selected and volume.phase == "Available" and claim.access_modes <= volume.access_modes
