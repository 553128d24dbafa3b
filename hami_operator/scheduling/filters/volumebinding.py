"""VolumeBinding: claims that have their volume, and claims that get one with the node.

A claim whose class waits for its first pod is matched with a volume that is there, or the class
can make one where the node is; which of both is decided per node.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Final

from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import objects, rejection, storage, surroundings, volumeoffer
from hami_operator.scheduling import pod as pods
from hami_operator.scheduling.filters import check, lookup

NAME: Final = "VolumeBinding"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_UNREACHED: Final = "node(s) didn't match PersistentVolume's node affinity"
_NONE_LEFT: Final = "node(s) didn't find available persistent volumes to bind"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_VANISHED: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """The claims of a pod.

    Attributes:
        bound: those that have their volume.
        waiting: those that get one with the node, the smallest first, with what is there.
    """

    bound: tuple[storage.Claim, ...] = ()
    waiting: tuple[volumeoffer.Offer, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """How the claims of a pod get their volumes on one node.

    Attributes:
        matched: claims, each with the volume that is there for it.
        provisioned: claims whose class makes a volume.
    """

    matched: tuple[tuple[storage.Claim, storage.Volume], ...] = ()
    provisioned: tuple[storage.Claim, ...] = ()


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes that do not reach the pod's volumes, or where none can be had."""
    del options
    if not pod.volumes.claims:
        return None
    found = claims(pod, around.objects)
    if isinstance(found, str):
        return rejection.final(NAME, found)
    kept = around.objects

    def judge(view: check.View) -> rejection.Rejection | None:
        texts = (*_about_bound(found.bound, view.node, kept), *_about_waiting(found, view, kept))
        ordered = tuple(text for text in _ORDER if text in texts)
        return _rejection(ordered) if ordered else None

    return judge


def claims(pod: pods.Pod, kept: objects.Objects) -> Claims | str:
    """The pod's claims, or why it can be nowhere for now."""
    found = []
    for wanted in pod.volumes.claims:
        claim = kept.claims.get(wanted.name, pod.namespace)
        if claim is None:
            return _missing(wanted.name, ephemeral=wanted.ephemeral)
        problem = _problem(claim, pod, ephemeral=wanted.ephemeral)
        if problem:
            return problem
        found.append(claim)
    waiting = [claim for claim in found if not claim.bound]
    for claim in waiting:
        known = kept.classes.get(claim.class_name) if claim.class_name else None
        if known is not None and not known.binding_mode:
            return lookup.no_mode(known.name)
        if known is None or known.binding_mode != storage.WAITS or claim.volume:
            return UNBOUND
    waiting.sort(key=lambda claim: claim.requested or 0)
    return Claims(
        bound=tuple(claim for claim in found if claim.bound),
        waiting=tuple(volumeoffer.Offer(claim, kept.volumes) for claim in waiting),
    )


def binding(
    waiting: Iterable[volumeoffer.Offer], node: nodes.Node, kept: objects.Objects
) -> Binding | str:
    """How claims get their volumes on a node, or why they cannot."""
    matched: list[tuple[storage.Claim, storage.Volume]] = []
    provisioned = []
    for offer in waiting:
        claim = offer.claim
        if claim.selected_node not in {"", node.name}:
            return _NONE_LEFT
        volume = None
        if not claim.selected_node:
            volume = offer.best(node.labels, {volume.name for _, volume in matched})
        if volume is None:
            provisioned.append(claim)
        else:
            matched.append((claim, volume))
    # Those that have been sent here already are judged first, and the first problem is told.
    for claim in sorted(provisioned, key=lambda claim: not claim.selected_node):
        problem = _why_not_made(claim, node, kept)
        if problem:
            return problem
    return Binding(matched=tuple(matched), provisioned=tuple(provisioned))


def _missing(name: str, *, ephemeral: bool) -> str:
    if ephemeral:
        return (
            f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        )
    return lookup.no_claim(name)


def _problem(claim: storage.Claim, pod: pods.Pod, *, ephemeral: bool) -> str:
    if claim.phase == "Lost":
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume '
            f'"{claim.volume}"'
        )
    if claim.terminating:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if ephemeral and claim.owner != pod.uid:
        owned = f"{claim.namespace}/{claim.name}"
        return f"PVC {owned} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
    return ""


def _about_bound(
    bound: Iterable[storage.Claim], node: nodes.Node, kept: objects.Objects
) -> Iterator[str]:
    """The first claim that is wrong here is told."""
    for claim in bound:
        volume = kept.volumes.get(claim.volume)
        if volume is None:
            yield _VANISHED
            return
        if not volume.reaches(node.labels):
            yield _UNREACHED
            return


def _about_waiting(found: Claims, view: check.View, kept: objects.Objects) -> Iterator[str]:
    answer = binding(found.waiting, view.node, kept)
    if isinstance(answer, str):
        yield answer


def _why_not_made(claim: storage.Claim, node: nodes.Node, kept: objects.Objects) -> str:
    """Why no volume can be made for a claim where the node is; empty where one can."""
    found = kept.classes.get(claim.class_name)
    if found is None or not found.provisions or not found.allows(node.labels):
        return _NONE_LEFT
    return "" if _has_space(claim, found, node, kept) else _NO_SPACE


def _has_space(
    claim: storage.Claim, found: storage.Class, node: nodes.Node, kept: objects.Objects
) -> bool:
    """Only drivers that say so publish where how much is left."""
    driver = kept.csi_drivers.get(found.provisioner)
    wanted = claim.requested
    if driver is None or not driver.tracks_capacity or wanted is None:
        return True
    return any(
        one.class_name == found.name
        and one.largest is not None
        and one.largest >= wanted
        and one.topology.matches(node.labels)
        for one in kept.capacities
    )


_ORDER: Final = (_UNREACHED, _NONE_LEFT, _NO_SPACE, _VANISHED)


@functools.lru_cache(maxsize=16)
def _rejection(texts: tuple[str, ...]) -> rejection.Rejection:
    return rejection.Rejection(plugin=NAME, texts=texts, resolvable=False)
