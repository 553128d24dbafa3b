"""Claims of dynamic resource allocation: what a pod names, and the objects that it names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami_operator.scheduling import fields, nodeselector, storage

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""What precedes the name of a DeviceClass in the resource that stands for its devices."""

MOST_USERS: Final = 256
"""How many pods the API server lets share a claim."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One entry of ``spec.resourceClaims``.

    Attributes:
        entry: its name.
        claim: the ResourceClaim; empty where none is needed.
        generated: made from a template for this pod, and to be owned by it.
        missing: the template's claim has not been made yet.
    """

    entry: str
    claim: str = ""
    generated: bool = False
    missing: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A ResourceClaim.

    Attributes:
        classes: name of each request, with the DeviceClass it wants.
        allocated: whether devices are chosen.
        selector: nodes from which these can be used; None for all.
        users: UIDs of the pods that it is reserved for.
        owner: UID of its controller.
    """

    namespace: str
    name: str
    uid: str
    version: str = ""
    classes: tuple[tuple[str, str], ...] = ()
    allocated: bool = False
    selector: nodeselector.NodeSelector | None = None
    users: frozenset[str] = frozenset()
    terminating: bool = False
    owner: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Class:
    """A DeviceClass.

    Attributes:
        resources: resources by which pods may ask for its devices.
    """

    name: str
    uid: str
    resources: frozenset[str] = frozenset()


def wanted(
    spec: Mapping[str, Any], status: Mapping[str, Any], found: fields.Fields
) -> tuple[Wanted, ...]:
    """The claims of a pod."""
    if not spec.get("resourceClaims"):
        return ()
    made = {
        str(item.get("name")): str(item.get("resourceClaimName") or "")
        for _, item in found.items(status, "resourceClaimStatuses", "status.")
    }
    entries = found.items(spec, "resourceClaims", "spec.")
    return tuple(_wanted(item, f"{place}.", made, found) for place, item in entries)


def read_claim(raw: Mapping[str, Any]) -> Claim:
    """A ResourceClaim."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    status = found.mapping(raw, "status", "")
    allocation = status.get("allocation")
    selector = allocation.get("nodeSelector") if isinstance(allocation, dict) else None
    spec = found.mapping(raw, "spec", "")
    users = found.items(status, "reservedFor", "status.")
    return Claim(
        namespace=found.text(meta, "namespace", "metadata.") or "default",
        name=found.text(meta, "name", "metadata."),
        uid=found.text(meta, "uid", "metadata."),
        version=str(meta.get("resourceVersion") or ""),
        classes=tuple(_classes(found.mapping(spec, "devices", "spec."), found)),
        allocated=allocation is not None,
        selector=nodeselector.read(selector, "", found) if isinstance(selector, dict) else None,
        users=frozenset(str(user.get("uid") or "") for _, user in users),
        terminating=meta.get("deletionTimestamp") is not None,
        owner=storage.controller(meta, found),
    )


def read_class(raw: Mapping[str, Any]) -> Class:
    """A DeviceClass."""
    found = fields.Fields()
    meta = found.mapping(raw, "metadata", "")
    name = found.text(meta, "name", "metadata.")
    extended = found.text(found.mapping(raw, "spec", ""), "extendedResourceName", "spec.")
    return Class(
        name=name,
        uid=found.text(meta, "uid", "metadata."),
        resources=frozenset({f"{IMPLICIT}{name}", extended} - {""}),
    )


def _wanted(
    item: Mapping[str, Any], path: str, made: Mapping[str, str], found: fields.Fields
) -> Wanted:
    entry = found.text(item, "name", path)
    named = found.text(item, "resourceClaimName", path)
    if named:
        return Wanted(entry=entry, claim=named)
    if entry not in made:
        return Wanted(entry=entry, generated=True, missing=True)
    return Wanted(entry=entry, claim=made[entry], generated=True)


def _classes(devices: Mapping[str, Any], found: fields.Fields) -> Iterator[tuple[str, str]]:
    for place, request in found.items(devices, "requests", "spec.devices."):
        name = found.text(request, "name", f"{place}.")
        exactly = found.mapping(request, "exactly", f"{place}.")
        plain = exactly or request  # v1beta1 has no such level
        if "deviceClassName" in plain:
            yield name, found.text(plain, "deviceClassName", f"{place}.exactly.")
        for where, option in found.items(request, "firstAvailable", f"{place}."):
            full = f"{name}/{found.text(option, 'name', f'{where}.')}"
            yield full, found.text(option, "deviceClassName", f"{where}.")
