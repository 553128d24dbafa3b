"""One test per row about Bindings: what the API server answers, and what our bind makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from hami_operator.cluster.memory import refusals, store
from hami_operator.runtime.outcome import Ending
from hami_operator.scheduling import effects, written
from hami_operator.scheduling import pod as pods
from tests import builders
from tests.cases import loader
from tests.runtime import bench

Case = Mapping[str, Any]
FILE = "kube-semantics.yaml"
ROWS = [row for row in loader.rows(FILE) if row["filter"] == "Binding"]
KEY = ("default", "p")

DOES = {
    "done": {Ending.BOUND},
    "treat-as-bound": {Ending.BOUND},
    "forget": {Ending.GONE, Ending.TAKEN},
    "forget-and-park": {Ending.GATED},
}
"""What a row says is to be done, as our ways to end a bind."""


def _hold(objects: store.Store, case: Case) -> None:
    """Put the pod of a row, with its UID, into a store."""
    if "pod" not in case:
        return
    spec = case["pod"]["spec"]
    made = builders.pod(case["pod"]["metadata"]["name"]).container("c")
    for name, value in spec.items():
        made = made.put(f"spec.{name}", value)
    raw = made.raw()
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del raw["metadata"][field]
    objects._new_id = lambda: case["pod"]["metadata"]["uid"]
    objects.create("pods", orjson.dumps(raw))


def _order(case: Case) -> effects.Bind:
    """The bind that leads to the Binding of a row."""
    sent = case["binding"]
    metadata = sent["metadata"]
    pod = builders.pod(metadata["name"]).uid(metadata["uid"]).container("c").raw()
    del pod["metadata"]["resourceVersion"]
    decision = written.Decision(
        node=sent["target"]["name"],
        annotations=metadata.get("annotations", {}),
        labels=metadata.get("labels", {}),
    )
    return effects.Bind(pod=pods.read(pod), node=decision.node, decision=decision)


def _check_pod(raw: Case, want: Case) -> None:
    metadata, spec, status = raw["metadata"], raw["spec"], raw["status"]
    if "nodeName" in want:
        assert spec["nodeName"] == want["nodeName"]
    if "PodScheduled" in want:
        found = {each["type"]: each["status"] for each in status["conditions"]}
        assert found["PodScheduled"] == want["PodScheduled"]
    assert want.get("annotations", {}).items() <= metadata.get("annotations", {}).items()
    assert want.keys() <= {"nodeName", "PodScheduled", "annotations"}


@pytest.mark.parametrize("case", loader.params(ROWS, {}))
def test_the_answer_of_the_server(case: Case) -> None:
    objects = store.Store()
    _hold(objects, case)
    want = case["expect"]
    body = orjson.dumps(case["binding"])
    if want["http"] != 201:
        with pytest.raises(refusals.Refused) as refused:
            objects.bind(KEY, body)
        assert refused.value.code == want["http"]
        assert want.get("messageContains", "") in refused.value.message
        return
    _check_pod(objects.bind(KEY, body).copy("pods"), want.get("podAfter", {}))


@pytest.mark.parametrize("case", loader.params(ROWS, {}))
async def test_what_our_bind_makes_of_it(case: Case) -> None:
    async with bench.running() as on:
        on.lagging = True
        _hold(on.store, case)
        order = _order(case)
        on.intake.nodes.upsert(builders.roomy(order.node).raw())
        result = await on.binder.bind(order)
        assert result.ending in DOES[case["expect"]["do"]]
        binding = on.api.body("POST pods/p/binding", 0)
        assert binding["target"] == case["binding"]["target"]
        assert case["binding"]["metadata"].items() <= binding["metadata"].items()
        if result.is_bound:
            _check_pod(on.pod(), case["expect"].get("podAfter", {}))


def test_every_row_says_what_is_to_be_done() -> None:
    assert ROWS or loader.OTHER
    assert {row["expect"]["do"] for row in ROWS} <= set(DOES)
