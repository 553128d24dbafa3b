"""DynamicResources: claims whose devices are chosen already are honoured, others are refused.

To choose devices for a claim takes the allocator of kube-scheduler; a pod that needs that waits
here, and its text says so in kube-scheduler's words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hami_operator.scheduling import pod as pods
from hami_operator.scheduling import rejection, resourceclaims, surroundings
from hami_operator.scheduling.filters import check

NAME: Final = "DynamicResources"
_ELSEWHERE: Final = rejection.final(NAME, "resourceclaim not available on the node")
_UNALLOCATED: Final = rejection.final(NAME, "cannot allocate all claims")


def plan(
    pod: pods.Pod, options: check.Options, around: surroundings.Surroundings
) -> check.Planned:
    """Rejects nodes from which the claimed devices cannot be used."""
    del options
    if not pod.resource_claims:
        return None
    found = claims(pod, around)
    if isinstance(found, str):
        return rejection.final(NAME, found)
    complete = all(claim.allocated for claim in found)
    selectors = tuple(claim.selector for claim in found if claim.selector is not None)

    def judge(view: check.View) -> rejection.Rejection | None:
        if not complete:
            return _UNALLOCATED
        node = view.node
        reached = all(one.matches(node.name, node.labels) for one in selectors)
        return None if reached else _ELSEWHERE

    return judge


def prefilter(pod: pods.Pod, around: surroundings.Surroundings) -> rejection.Rejection | None:
    """What keeps a pod from being tried at all: a claim that is missing, or not to be had."""
    found = _present(pod, around) if pod.resource_claims else ()
    return rejection.final(NAME, found) if isinstance(found, str) else None


def claims(
    pod: pods.Pod, around: surroundings.Surroundings
) -> tuple[resourceclaims.Claim, ...] | str:
    """The claims that the pod needs, or why it can be nowhere for now."""
    found = _present(pod, around)
    return found if isinstance(found, str) else _refusal(found, pod, around) or found


def _present(
    pod: pods.Pod, around: surroundings.Surroundings
) -> tuple[resourceclaims.Claim, ...] | str:
    """The claims, or which of them is not there for the pod."""
    found = []
    for wanted in pod.resource_claims:
        if wanted.missing:
            return f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet'
        if not wanted.claim:
            continue
        claim = around.objects.resource_claims.get(wanted.claim, pod.namespace)
        if claim is None:
            return f'could not find ResourceClaim "{pod.namespace}/{wanted.claim}"'
        problem = _problem(claim, wanted, pod)
        if problem:
            return problem
        found.append(claim)
    return tuple(found)


def _problem(claim: resourceclaims.Claim, wanted: resourceclaims.Wanted, pod: pods.Pod) -> str:
    if claim.terminating:
        return f'resourceclaim "{claim.name}" is being deleted'
    if wanted.generated and claim.owner != pod.uid:
        of = f"ResourceClaim {claim.namespace}/{claim.name}"
        return f"{of} was not created for Pod {pod.namespace}/{pod.name} (Pod is not owner)"
    return ""


def _refusal(
    found: Iterable[resourceclaims.Claim], pod: pods.Pod, around: surroundings.Surroundings
) -> str:
    """Why the claims are of no use for now, though all of them are there."""
    for claim in found:
        full = len(claim.users) >= resourceclaims.MOST_USERS and pod.uid not in claim.users
        if claim.allocated and full:
            return "resourceclaim in use"
        for request, name in () if claim.allocated else claim.classes:
            if around.objects.device_classes.get(name) is None:
                return f"request {request}: device class {name} does not exist"
    return ""
