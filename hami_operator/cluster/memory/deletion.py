"""Deletion: preconditions, grace of pods that a node runs, finalizers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from hami_operator.cluster.memory import pods, records, refusals, resources


def check_preconditions(
    record: records.Record, resource: resources.Resource, *, uid: str, version: str
) -> None:
    """Refuse to delete another object than the one that is meant.

    Raises:
        refusals.Refused: 409, with the texts of the API server.
    """
    name = record.key[1]
    if uid and uid != record.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({record.uid}). The object might have been deleted and then recreated"
        )
        raise refusals.conflict(resource.kind, name, why)
    if version and version != str(record.version):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({record.version}). The object might have been modified"
        )
        raise refusals.conflict(resource.kind, name, why)


def marked(
    record: records.Record,
    resource: resources.Resource,
    *,
    grace_s: int | None,
    now: datetime.datetime,
) -> dict[str, Any]:
    """The object marked for deletion; the stored one itself if a longer grace was asked for.

    A second deletion can only shorten the grace.
    """
    old = record.obj
    meta = old["metadata"]
    grace = pods.grace_s(old, grace_s) if resource is resources.PODS else 0
    if meta.get("deletionTimestamp") and meta.get("deletionGracePeriodSeconds", 0) <= grace:
        return old
    end = now.astimezone(datetime.UTC) + datetime.timedelta(seconds=grace)
    fresh = {
        "deletionTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "deletionGracePeriodSeconds": grace,
    }
    if meta.get("generation") and not meta.get("deletionTimestamp"):
        fresh["generation"] = meta["generation"] + 1
    return {**old, "metadata": {**meta, **fresh}}


def is_due(obj: Mapping[str, Any]) -> bool:
    """Whether nothing keeps the object any more: marked, no grace left, no finalizer."""
    meta = obj["metadata"]
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("deletionGracePeriodSeconds")
        and not meta.get("finalizers")
    )
