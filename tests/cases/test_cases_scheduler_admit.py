"""The rows about admission, each as a review that is answered over the wire."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import orjson
import pytest

from hami_operator import settings as all_settings
from hami_operator.admission import review, rules
from hami_operator.cli import wiring
from hami_operator.devices import registry as registries
from hami_operator.devices import usage, vendor
from hami_operator.scheduling import quota
from tests.cases import loader, scheduler_cluster, uncovered
from tests.unit.admission import given

Case = Mapping[str, Any]
NAMESPACE: Final = "default"
ROWS: Final = [
    row
    for row in (loader.rows(scheduler_cluster.FILE) if scheduler_cluster.DOCUMENT["cases"] else [])
    if row["when"]["op"] == "admit"
]


@pytest.mark.parametrize("case", loader.params(ROWS, uncovered.SCHEDULER))
def test_row(case: Case) -> None:
    stated, when, want = scheduler_cluster.given(case), case["when"], case["expect"]
    pod = when.get("pod") or _pod(when)
    known = _rules(stated)
    reply = review.respond(orjson.dumps(given.reviewed(pod)), known)
    response = orjson.loads(reply.body)["response"]
    message = response.get("status", {}).get("message", "")
    if "allowed" in want:
        assert response["allowed"] is want["allowed"], message
    assert want.get("message_contains", "") in message
    if want.get("set") == {}:
        assert "patch" not in response
    after = given.applied(pod, response)
    for path, value in (want.get("set") or {}).items():
        assert _at(after, path) == value


def _pod(when: Case) -> Mapping[str, Any]:
    spec = {
        key: [
            {"name": f"{key}-{number}", "resources": {"limits": limits}}
            for number, limits in enumerate(when.get(short, ()))
        ]
        for key, short in (("initContainers", "inits"), ("containers", "apps"))
    }
    return {"metadata": {"annotations": when.get("annotations", {})}, "spec": spec}


def _at(obj: Any, path: str) -> Any:
    for key in path.strip("/").split("/"):
        obj = obj.get(key) if obj else None
    return obj


def _rules(stated: Case) -> rules.Rules:
    flags = stated.get("settings", {})
    registry = _registry(stated, flags)
    known = wiring.admission_rules(
        registry, all_settings.Settings(), limits=_limits(stated, registry)
    )
    return dataclasses.replace(
        known, scheduler_name=flags.get("scheduler-name", known.scheduler_name)
    )


def _registry(stated: Case, flags: Case) -> registries.Registry:
    """All rows, with backends that are like another one in its place."""
    rows: dict[str, vendor.Vendor] = dict(registries.default().by_word)
    for word, facts in stated.get("backends", {}).items():
        rows[word] = _like(rows.pop(facts["like"]), word, facts)
    overrides: dict[str, dict[str, Any]] = {}
    for key, value in flags.items():
        section, _, name = key.partition(".")
        for row in rows.values():
            if name and row.file.path[:1] == (section,):
                overrides.setdefault(row.keyword, {})[row.file.names[name]] = value
    return registries.build(rows.values(), overrides=overrides)


def _like(row: vendor.Vendor, word: str, facts: Case) -> vendor.Vendor:
    names = {
        field.name: getattr(row.resources, field.name).replace(row.keyword, word)
        for field in dataclasses.fields(row.resources)
    }
    return dataclasses.replace(
        row,
        keyword=word,
        resources=vendor.Resources(**names),
        memory_factor=facts["memoryFactor"],
    )


def _limits(stated: Case, registry: registries.Registry) -> rules.Limits:
    quotas = quota.Quotas(registry)
    for namespace, hard in stated.get("quota", {}).items():
        meta = {"name": "q", "namespace": namespace, "uid": namespace}
        assert not quotas.seen({"metadata": meta, "spec": {"hard": hard}}).findings

    def limits(namespace: str) -> rules.Accounts | None:
        used = stated.get("quota_used", {}).get(namespace, {})
        return lambda row: quotas.account(
            namespace,
            row,
            usage.Usage(0, used.get(row.resources.memory, 0), used.get(row.resources.cores, 0)),
        )

    return limits


def test_there_are_rows_about_admission() -> None:
    assert len(ROWS) > 15 or loader.OTHER
