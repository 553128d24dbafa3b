"""What becomes of a pod: rows have their say, rules are kept, then the object is changed.

Steps of one admission, in this order: whose pod is it; rows, container by container; who may not
have devices; the namespace's limits; preferences; what is written into the object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from hami_operator.admission import edit, pod, quota, rules, validate, verdict
from hami_operator.devices import admit, request, vendor

_EXCLUDED: Final = "namespace is excluded from admission"
_OTHERS: Final = "pod already has different scheduler assigned"
_NODE: Final = (
    "pod has node assigned: {node}; remove spec.nodeName, which goes past the scheduler, "
    "and write spec.nodeSelector with kubernetes.io/hostname: {node}"
)
_PRIVILEGED: Final = (
    "container {name} is privileged, sees every card and keeps to no limit; "
    "remove securityContext.privileged, or move it to a pod that asks for no devices"
)
_CROWD: Final = (
    "more than {most} containers ask for devices, and a decision has no room for so many; "
    "write several pods"
)
MOST_CONTAINERS: Final = 1000
"""Bounds the time of one admission; the devices of one pod are bounded anyway."""
_FORGED: Final = "{where} {key} is written by the scheduler or a device plugin only; remove it"
_REMOVED: Final = "{where} {key} was removed: only the scheduler or a device plugin writes it"

_Takes = tuple[vendor.Vendor, request.Request]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Treated:
    """The pod after the rows.

    Attributes:
        inits: init containers and sidecars.
        apps: the pod's own containers.
        pod: its annotations and runtime class, without forged keys.
        taken: per row what each container takes.
    """

    inits: tuple[admit.Container, ...]
    apps: tuple[admit.Container, ...]
    pod: admit.Pod
    taken: dict[vendor.Vendor, list[quota.Taken]]


def admit_pod(raw: pod.Raw, namespace: str, known: rules.Rules) -> verdict.Verdict:
    """Judge a pod that is to be created.

    Args:
        raw: the object as the API server shows it; never changed.
        namespace: where it is to be.
        known: what admission goes by.

    Raises:
        errors.DecodeError: a field that matters has the wrong type.
    """
    if namespace in known.excluded:
        return verdict.Allowed(raw=raw, message=_EXCLUDED)
    given = pod.read(raw)
    if not given.apps:
        return verdict.Denied(message="pod has no containers")
    if known.leaves_to_others(given.scheduler_name):
        return verdict.Allowed(raw=raw, message=_OTHERS)
    forged = validate.forged(given, known.registry)
    treated = _treat(given, known, forged)
    if isinstance(treated, verdict.Denied):
        return treated
    ours = bool(treated.taken) or given.scheduler_name == known.scheduler_name != ""
    forged = forged if ours else ()
    denied = _refusal(given, treated, known, namespace, forged)
    if denied is not None:
        return denied
    return verdict.Allowed(
        raw=_rewritten(given, treated, known, forged),
        warnings=_warnings(given, known, forged),
    )


# ---- the rows


def _treat(
    given: pod.Pod, known: rules.Rules, forged: Iterable[validate.Path]
) -> _Treated | verdict.Denied:
    hidden = {key for where, key in forged if where == "annotations"}
    annotations = {key: text for key, text in given.annotations.items() if key not in hidden}
    about = admit.Pod(
        annotations=annotations, runtime_class=given.runtime_class, cards=known.cards
    )
    taken: dict[vendor.Vendor, list[quota.Taken]] = {}
    containers: list[admit.Container] = []
    crowd = 0
    for one in given.containers:
        treated = _treat_one(one, about, known)
        if isinstance(treated, verdict.Denied):
            return treated
        values, about, takes = treated
        containers.append(values)
        for row, wanted in takes:
            taken.setdefault(row, []).append((one.kind, wanted))
        crowd += bool(takes)
        if crowd > MOST_CONTAINERS:
            return verdict.Denied(message=_CROWD.format(most=MOST_CONTAINERS))
    middle = len(given.inits)
    return _Treated(
        inits=tuple(containers[:middle]), apps=tuple(containers[middle:]), pod=about, taken=taken
    )


def _treat_one(
    one: pod.Container, about: admit.Pod, known: rules.Rules
) -> tuple[admit.Container, admit.Pod, list[_Takes]] | verdict.Denied:
    """One container after all rows, and what it takes of which."""
    values = one.values
    takes: list[_Takes] = []
    for row in known.rows((*values.limits, *values.requests)):
        answer = _ask(row, values, about)
        if isinstance(answer, admit.Denied):
            return verdict.Denied(message=validate.denial(row, answer))
        values, about = answer.container, answer.pod
        wanted = admit.read(row, values) if answer.takes else None
        if isinstance(wanted, request.Request):
            takes.append((row, wanted))
    return values, about, takes


def _ask(
    row: vendor.Vendor, values: admit.Container, about: admit.Pod
) -> admit.Admitted | admit.Denied:
    """The row's own words come first; what it does not read is looked at all the same."""
    answer = admit.admit(row, values, about)
    if isinstance(answer, admit.Denied):
        return answer
    return validate.amount_problem(row, values) or answer


# ---- the rules


def _refusal(
    given: pod.Pod,
    treated: _Treated,
    known: rules.Rules,
    namespace: str,
    forged: tuple[validate.Path, ...],
) -> verdict.Denied | None:
    if forged and known.strict:
        return _forbidden(_FORGED.format(where=forged[0][0][:-1], key=forged[0][1]))
    if treated.taken:
        why = _device_problem(given, known, namespace)
        if why:
            return _forbidden(why)
    if treated.taken and known.limits is not None:
        accounts = known.limits(namespace)
        why = quota.problem(treated.taken, accounts, namespace) if accounts else ""
        if why:
            return _forbidden(why)
    if known.preferences is not None:
        wishes = known.preferences(given.annotations)
        if wishes.error:
            return verdict.Denied(message=wishes.error)
    return None


def _device_problem(given: pod.Pod, known: rules.Rules, namespace: str) -> str:
    """Why a pod with devices may not come in, whatever they are."""
    name = validate.privileged(given.containers)
    if name:
        return _PRIVILEGED.format(name=name)
    if given.node_name:
        return _NODE.format(node=given.node_name)
    if known.strict and namespace not in known.unlimited:
        return validate.limiter_problem(given.containers)
    return ""


def _forbidden(message: str) -> verdict.Denied:
    return verdict.Denied(message=message, cause=verdict.Cause.FORBIDDEN)


def _warnings(
    given: pod.Pod, known: rules.Rules, forged: Iterable[validate.Path]
) -> tuple[str, ...]:
    removed = [_REMOVED.format(where=where[:-1], key=key) for where, key in forged]
    wishes = known.preferences(given.annotations).warnings if known.preferences else ()
    return (*removed, *known.registry.vain(given.annotations), *wishes)


# ---- the object


def _rewritten(
    given: pod.Pod, treated: _Treated, known: rules.Rules, forged: Iterable[validate.Path]
) -> pod.Raw:
    raw: Any = given.raw
    for where, key in forged:
        raw = edit.drop(raw, ("metadata", where, key))
    for key, text in treated.pod.annotations.items():
        if given.annotations.get(key) != text:
            raw = edit.put(raw, ("metadata", "annotations", key), text)
    if treated.pod.runtime_class != given.runtime_class:
        raw = edit.put(raw, ("spec", "runtimeClassName"), treated.pod.runtime_class)
    if treated.taken and known.scheduler_name not in ("", given.scheduler_name):
        raw = edit.put(raw, ("spec", "schedulerName"), known.scheduler_name)
    raw = _with_containers(raw, "initContainers", given.inits, treated.inits)
    found: pod.Raw = _with_containers(raw, "containers", given.apps, treated.apps)
    return found


def _with_containers(
    raw: Any, key: str, before: tuple[pod.Container, ...], after: tuple[admit.Container, ...]
) -> Any:
    if all(old.values is new for old, new in zip(before, after, strict=True)):
        return raw
    listed = [
        _with_values(item, old.values, new)
        for item, old, new in zip(raw["spec"][key], before, after, strict=True)
    ]
    return edit.put(raw, ("spec", key), listed)


def _with_values(item: Any, old: admit.Container, new: admit.Container) -> Any:
    for key, before, after in (
        ("limits", old.limits, new.limits),
        ("requests", old.requests, new.requests),
    ):
        for name, amount in after.items():
            if before.get(name) != amount:
                item = edit.put(item, ("resources", key, name), amount)
    if new.env is not old.env:
        item = edit.put(item, ("env",), list(new.env))
    return item
