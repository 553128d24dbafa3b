"""Rules for ``metadata`` that hold for all kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hami_operator.cluster.memory import refusals, resources

ANNOTATIONS_LIMIT_BYTES: Final = 256 * 1024
LABEL_VALUE_LIMIT: Final = 63

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IS_LABEL = re.compile(_LABEL, re.ASCII)
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN, re.ASCII)
_IS_QUALIFIED = re.compile(_QUALIFIED, re.ASCII)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_IMMUTABLE: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def qualified_name_fault(key: str) -> str:
    """What is wrong with a label key, annotation key or finalizer; empty if nothing is."""
    prefix, slash, name = key.rpartition("/")
    if slash and "/" in prefix:
        return (
            f"a valid label key {_QUALIFIED_WORDS} with an optional DNS subdomain prefix and '/'"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (fault := _subdomain_fault(prefix)):
        return f"prefix part {fault}"
    if not name:
        return "name part must be non-empty"
    if len(name) > LABEL_VALUE_LIMIT:
        return f"name part must be no more than {LABEL_VALUE_LIMIT} bytes"
    return "" if _IS_QUALIFIED.fullmatch(name) else f"name part {_QUALIFIED_WORDS}"


def label_value_fault(value: str) -> str:
    """What is wrong with the value of a label; empty if nothing is."""
    if len(value) > LABEL_VALUE_LIMIT:
        return f"must be no more than {LABEL_VALUE_LIMIT} bytes"
    return "" if not value or _IS_QUALIFIED.fullmatch(value) else _VALUE_WORDS


def _subdomain_fault(name: str) -> str:
    if len(name) > 253:
        return "must be no more than 253 bytes"
    return "" if _IS_SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_WORDS


def _label_fault(name: str) -> str:
    if len(name) > 63:
        return "must be no more than 63 bytes"
    return "" if _IS_LABEL.fullmatch(name) else _LABEL_WORDS


def _path_fault(name: str) -> str:
    if name in (".", ".."):
        return f"may not be '{name}'"
    found = next((mark for mark in "/%" if mark in name), "")
    return f"may not contain '{found}'" if found else ""


def name_fault(resource: resources.Resource, name: str) -> str:
    """What is wrong with the name of an object of this kind; empty if nothing is."""
    if resource.path_name:
        return _path_fault(name)
    if resource is resources.NAMESPACES:
        return _label_fault(name)
    return _subdomain_fault(name)


def check_name(resource: resources.Resource, metadata: Mapping[str, Any]) -> list[refusals.Cause]:
    """What is wrong with the name of a new object."""
    name = metadata.get("name", "")
    if not name:
        return [refusals.required("metadata.name", "name or generateName is required")]
    fault = name_fault(resource, name)
    return [refusals.wrong("metadata.name", name, fault)] if fault else []


def check(metadata: Mapping[str, Any]) -> list[refusals.Cause]:
    """What is wrong with labels, annotations, owners and finalizers."""
    labels = metadata.get("labels") or {}
    return [
        *_check_labels(labels),
        *check_annotations(metadata.get("annotations") or {}),
        *_check_owners(metadata.get("ownerReferences") or []),
        *_check_finalizers(metadata.get("finalizers") or []),
    ]


def _check_labels(labels: Mapping[str, str]) -> list[refusals.Cause]:
    causes = []
    for key, value in labels.items():
        if fault := qualified_name_fault(key):
            causes.append(refusals.wrong("metadata.labels", key, fault))
        if fault := label_value_fault(value):
            causes.append(refusals.wrong("metadata.labels", value, fault))
    return causes


def check_annotations(annotations: Mapping[str, str]) -> list[refusals.Cause]:
    """What is wrong with annotations: the syntax of the keys, and 256 KiB for all together."""
    causes = []
    size = 0
    for key, value in annotations.items():
        if fault := qualified_name_fault(key.lower()):
            causes.append(refusals.wrong("metadata.annotations", key, fault))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(refusals.too_long("metadata.annotations", ANNOTATIONS_LIMIT_BYTES))
    return causes


def _check_owners(owners: list[Mapping[str, Any]]) -> list[refusals.Cause]:
    return [
        refusals.wrong(f"metadata.ownerReferences.{name}", "", "must not be empty")
        for owner in owners
        for name in ("apiVersion", "kind", "name", "uid")
        if not owner.get(name)
    ]


def _check_finalizers(finalizers: list[str]) -> list[refusals.Cause]:
    return [
        refusals.wrong("metadata.finalizers", finalizer, fault)
        for finalizer in finalizers
        if (fault := qualified_name_fault(finalizer))
    ]


def settle(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an update with what a client cannot change, or left out, taken from before.

    A UID or deletionTimestamp that is given and differs stays, so that `check_update` sees it.
    """
    settled = dict(new)
    for name in ("name", "namespace", "creationTimestamp", "generation", "resourceVersion"):
        if name in old:
            settled[name] = old[name]
        else:
            settled.pop(name, None)
    for name in (*_IMMUTABLE, "generateName"):
        if settled.get(name) is None:
            settled.pop(name, None)
            if name in old:
                settled[name] = old[name]
    settled.pop("managedFields", None)
    return settled


def check_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[refusals.Cause]:
    """What is wrong with a change of metadata, apart from what `check` finds."""
    causes = [
        refusals.wrong(f"metadata.{name}", new[name], refusals.IMMUTABLE)
        for name in _IMMUTABLE
        if name in new and new[name] != old.get(name)
    ]
    added = [
        entry for entry in new.get("finalizers") or () if entry not in old.get("finalizers", ())
    ]
    if added and old.get("deletionTimestamp"):
        listed = ", ".join(refusals.quoted(entry) for entry in sorted(added))
        why = (
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}"
        )
        causes.append(refusals.forbidden_field("metadata.finalizers", why))
    return causes


def needs_check(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether labels, annotations, owners or finalizers are not the very ones of before."""
    names = ("labels", "annotations", "ownerReferences", "finalizers")
    return any(new.get(name) is not old.get(name) for name in names)
