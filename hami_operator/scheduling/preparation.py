"""What has to be done for a pod's claims once its node is chosen, and whether it is done.

Volumes that are there are given to their claims; of other claims it is said on which node their
volume is to be made. Both is done by writes, and completed by others; only then is the pod bound.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import objects, resourceclaims, storage, surroundings
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import dynamic, lookup, volumebinding


class Progress(enum.Enum):
    """How far it is, where nothing went wrong."""

    WAITING = "not every claim has its volume yet"
    DONE = "every claim has its volume"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """What has to be done before a pod is bound.

    Attributes:
        node: where the pod goes.
        labels: of the node; the volumes must be reached from there.
        matched: claims, each with the volume that it is to get.
        provisioned: claims of which it has to be said where their volume is made.
        reserved: claims of devices in which a place has to be taken.
        problem: why it cannot be done, since the node was found before something changed.
    """

    node: str
    labels: Mapping[str, str]
    matched: tuple[tuple[storage.Claim, storage.Volume], ...] = ()
    provisioned: tuple[storage.Claim, ...] = ()
    reserved: tuple[resourceclaims.Claim, ...] = ()
    problem: str = ""

    @property
    def claims(self) -> tuple[storage.Claim, ...]:
        """All claims that get a volume."""
        return (*(claim for claim, _ in self.matched), *self.provisioned)


NOTHING: Final = None


def of(pod: pods.Pod, node: nodes.Node, around: surroundings.Surroundings) -> Preparation | None:
    """What has to be done for a pod on a node that takes it; None for most pods."""
    if not pod.volumes.claims and not pod.resource_claims:
        return NOTHING
    found = volumebinding.claims(pod, around.objects)
    claimed = dynamic.claims(pod, around)
    if isinstance(found, str) or isinstance(claimed, str):
        problem = found if isinstance(found, str) else str(claimed)
        return Preparation(node=node.name, labels=node.labels, problem=problem)
    bound = volumebinding.binding(found.waiting, node, around.objects)
    if isinstance(bound, str):
        return Preparation(node=node.name, labels=node.labels, problem=bound)
    made = Preparation(
        node=node.name,
        labels=node.labels,
        matched=bound.matched,
        provisioned=bound.provisioned,
        reserved=tuple(one for one in claimed if pod.uid not in one.users),
    )
    return made if made.claims or made.reserved else NOTHING


def progress(
    wanted: Preparation, written: Mapping[tuple[str, str], str], kept: objects.Objects
) -> Progress | str:
    """How far it is, or why it will come to nothing.

    Args:
        wanted: what was begun.
        written: claim to the version that our own write made; what is older says nothing.
        kept: the objects as they are known.
    """
    if wanted.problem:
        return wanted.problem
    states = [
        _of_claim(claim, wanted, written.get(claim.key, ""), kept) for claim in wanted.claims
    ]
    for state in states:
        if isinstance(state, str):
            return state
    return Progress.DONE if all(one is Progress.DONE for one in states) else Progress.WAITING


def _of_claim(
    claim: storage.Claim, wanted: Preparation, version: str, kept: objects.Objects
) -> Progress | str:
    now = kept.claims.get(claim.name, claim.namespace)
    if now is None or now.uid != claim.uid:
        return lookup.no_claim(claim.name)
    if now.bound:
        return _of_volume(now, wanted, kept)
    if version and (now.version == claim.version or _is_older(now.version, version)):
        return Progress.WAITING  # our own write has not been seen yet
    if claim in wanted.provisioned and now.selected_node != wanted.node:
        return f"no volume could be made for persistentvolumeclaim {claim.name!r} on the node"
    return Progress.WAITING


def _of_volume(claim: storage.Claim, wanted: Preparation, kept: objects.Objects) -> Progress | str:
    volume = kept.volumes.get(claim.volume)
    if volume is None:
        return Progress.WAITING  # the two watches are not in step
    if not volume.reaches(wanted.labels):
        return f"persistentvolume {volume.name!r} is not reached from node {wanted.node}"
    return Progress.DONE


def _is_older(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
