"""Every row of ``devices.yaml`` against the device core, named by its id."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from hami_operator import errors
from hami_operator.devices import (
    account,
    admit,
    capacity,
    fit,
    inventory,
    partition,
    registry,
    request,
    score,
    usage,
    vendor,
)
from hami_operator.protocol import decision, handshake, instant, register
from hami_operator.scheduling import liveness, written
from hami_operator.scheduling import pod as pods
from tests.cases import loader, uncovered

FILE: Final = "devices.yaml"
ROWS: Final = loader.rows(FILE) if loader.document(FILE) is not None else []
TIMEOUT_S: Final = 300.0

Case = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A node as the core sees it."""

    name: str = "n1"
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    capacity: Mapping[str, str] = dataclasses.field(default_factory=dict)
    allocatable: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _registry(case: Case) -> registry.Registry:
    """All rows, under the settings of the case."""
    return registry.build(overrides={case["backend"]: case["input"].get("config", {})})


def _row(case: Case) -> vendor.Vendor:
    return _registry(case).by_word[case["backend"]]


def _kind(kind: str) -> pytest.MarkDecorator:
    found = (row for row in ROWS if row["kind"] == kind)
    return pytest.mark.parametrize("case", loader.params(found, uncovered.DEVICES))


# --- register ------------------------------------------------------------------------------


@_kind("register")
def test_register(case: Case) -> None:
    given, want = case["input"], case["expect"]
    row = _row(case)
    node = Node(
        name=given.get("node", "n1"),
        labels=given.get("labels", {}),
        annotations=given.get("annotations", {}),
        capacity=given.get("capacity", {}),
        allocatable=given.get("allocatable", {}),
    )

    found = inventory.read(node, row)

    got = {
        "state": _state(found, node, given),
        "malformed": [dataclasses.asdict(finding) for finding in found.findings],
        "handshake": _tick(found, node, given),
    }
    assert {name: got[name] for name in want if name != "devices"} == {
        name: value for name, value in want.items() if name != "devices"
    }
    if "devices" in want:
        seen = [_device(card) for card in found.cards]
        assert len(seen) == len(want["devices"])
        for device, wanted in zip(seen, want["devices"], strict=True):
            assert {name: device[name] for name in wanted} == wanted


def _now(given: Case) -> instant.Instant:
    wall = datetime.datetime.fromisoformat(given.get("now", "2026-02-01 08:15:30"))
    return instant.Instant(monotonic_s=100_000.0, wall=wall.replace(tzinfo=datetime.UTC))


def _state(found: inventory.Inventory, node: Node, given: Case) -> str:
    """The state with the age of the handshake taken in."""
    if found.state is not inventory.State.AVAILABLE or found.handshake_key is None:
        return found.state.value
    now, value = _now(given), node.annotations.get(found.handshake_key)
    first_seen = dataclasses.replace(now, monotonic_s=now.monotonic_s - given.get("seen_s", 0))
    ages = liveness.Liveness()
    ages.see(node.name, "word", value, first_seen, at_start=given.get("at_start", False))
    gone = ages.expired(node.name, "word", TIMEOUT_S, now)
    return "unavailable" if gone else "available"


def _tick(found: inventory.Inventory, node: Node, given: Case) -> Mapping[str, str] | None:
    """What the next tick writes."""
    if found.handshake_key is None:
        return None
    kind = handshake.classify(node.annotations.get(found.handshake_key))
    if not handshake.TRANSITIONS[kind].ask:
        return None
    return {"key": found.handshake_key, "value": handshake.encode(_now(given).wall)}


def _device(card: register.Card) -> dict[str, Any]:
    return {
        "id": card.id,
        "index": card.index,
        "count": card.count,
        "memory": card.memory_mib,
        "cores": card.cores,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "health": card.healthy,
        "custominfo": dict(card.custom),
        "migProfiles": json.loads(register.encode([card], register.Form.JSON))[0].get(
            "migProfiles", []
        ),
    }


# --- request -------------------------------------------------------------------------------


@_kind("request")
def test_request(case: Case) -> None:
    given, want = case["input"], case["expect"]

    found = request.read(
        _row(case), limits=given.get("limits", {}), requests=given.get("requests", {})
    )

    got: dict[str, Any] = {"none": found is None}
    if isinstance(found, request.Invalid):
        got["invalid"] = found.resource
    elif found is not None:
        got |= {"count": found.count, "memory": found.memory_mib}
        got |= {"percent": found.percent, "cores": found.cores}
        got |= dict(found.detail)
    assert {name: got.get(name, "not read") for name in want} == want


# --- fit and node score ----------------------------------------------------------------------


@_kind("fit")
def test_fit(case: Case) -> None:
    given, want = case["input"], case["expect"]
    row = _row(case)
    if "given" in given:
        assert score.term(row, _score_facts(case["backend"], given)) == want["score"]
        return

    answer, placed = _place(row, case["backend"], given)

    got: dict[str, Any] = {
        "fit": isinstance(answer, fit.Fit),
        "picks": [[pick.id, pick.memory_mib, pick.cores] for pick in placed],
        "mig": [_instance(pick) for pick in placed if partition.CUSTOM in pick.custom],
        "reason": answer.text() if isinstance(answer, fit.NoFit) else None,
    }
    assert {name: got[name] for name in want} == want


def _instance(pick: decision.Pick) -> list[Any]:
    found = pick.custom[partition.CUSTOM]
    return [found.profile, found.place.start, found.place.size]


def _place(
    row: vendor.Vendor, word: str, given: Case
) -> tuple[fit.Fit | fit.NoFit, list[decision.Pick]]:
    """Place the requests of successive containers, each on what the earlier ones left."""
    candidates = [_candidate(word, given, device) for device in given["devices"]]
    earlier = [tuple(ids) for ids in given.get("earlier", [])]
    placed: list[decision.Pick] = []
    answer: fit.Fit | fit.NoFit = fit.Fit(picks=())
    for wanted in given.get("sequence", [given.get("request")]):
        context = _context(given, tuple(earlier), placed)
        answer = fit.fit(row, _request(word, wanted), candidates, context)
        if isinstance(answer, fit.NoFit):
            return answer, placed
        placed += answer.picks
        earlier.append(tuple(pick.id for pick in answer.picks))
        annotations = context.pod_annotations
        candidates = [_charged(row, each, answer.picks, annotations) for each in candidates]
    return answer, placed


def _charged(
    row: vendor.Vendor,
    standing: usage.CardUsage,
    picks: tuple[decision.Pick, ...],
    annotations: Mapping[str, str],
) -> usage.CardUsage:
    for pick in picks:
        if pick.id == standing.card.id:
            standing = account.charge(row, standing, pick, annotations)
    return standing


def _context(
    given: Case, earlier: tuple[tuple[str, ...], ...], placed: list[decision.Pick]
) -> fit.Context:
    left = given.get("quota", {}).get("memory_left")
    held = sum(pick.memory_mib for pick in placed)

    def quota_fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        return held + sum(pick.memory_mib for pick in picks) + memory_mib <= left

    return fit.Context(
        pod_annotations=given.get("pod", {}).get("annotations", {}),
        node_annotations=given.get("node", {}).get("annotations", {}),
        node_labels=given.get("node", {}).get("labels", {}),
        policy=tuple(word.strip() for word in given.get("policy", "spread").split(",")),
        quota_fits=None if left is None else quota_fits,
        earlier=earlier,
    )


def _request(word: str, wanted: Case) -> request.Request:
    if word in ("Enflame", "AWSNeuron"):  # these are asked in other words
        return request.Request(word=word, count=wanted.get("neuron", 1), detail=wanted)
    return request.Request(
        word=word,
        count=wanted.get("count", 1),
        memory_mib=wanted.get("memory", 0),
        percent=wanted.get("percent"),
        cores=wanted.get("cores", 0),
    )


def _candidate(word: str, given: Case, device: Case) -> usage.CardUsage:
    """A device of the case; what is usual is left out there."""
    counted = given.get("source") == "capacity"
    profiles = json.dumps([{"id": "x", "migProfiles": device.get("migProfiles", [])}])
    card = register.Card(
        id=device["id"],
        index=device.get("index", -1),
        count=device.get("count", 1),
        memory_mib=device.get("memory", 0),
        cores=device.get("cores", 0),
        model=device.get("type", word),
        numa=device.get("numa", 0),
        mode=device.get("mode", ""),
        healthy=device.get("health", True),
        mig_profiles=register.decode(profiles).cards[0].mig_profiles,
        custom=capacity.SOURCE if counted else device.get("custominfo", {}),
    )
    return usage.CardUsage(
        card,
        usage.Usage(
            used=device.get("used", 0),
            memory_mib=device.get("used_memory", 0),
            cores=device.get("used_cores", 0),
            pods=tuple(device.get("pods", ())),
            places=tuple(register.Placement(**place) for place in device.get("mig_in_use", ())),
        ),
    )


def _score_facts(word: str, given: Case) -> score.Facts:
    return score.Facts(
        node_policy=given["node_policy"],
        slots=tuple(tuple(_pick(pick) for pick in slot) for slot in given["given"]),
        before=tuple(_candidate(word, given, device) for device in given["before"]),
        pod_annotations=given.get("pod", {}).get("annotations", {}),
        node_annotations=given.get("node", {}).get("annotations", {}),
    )


# --- decision ------------------------------------------------------------------------------


@_kind("decision")
def test_decision(case: Case) -> None:
    given, want = case["input"], case["expect"]
    if "value" in given:
        _check_reading(given, want)
        return

    annotations = _annotations(case)

    seen = {key: _as_json(annotations.get(key)) for key in want["annotations"]}
    assert seen == {key: _as_json(value) for key, value in want["annotations"].items()}
    assert not set(want.get("absent", ())) & set(annotations)


def _annotations(case: Case) -> Mapping[str, str]:
    """The pod's annotations after the decision."""
    given = case["input"]
    names = given["containers"]
    limits = given.get("limits", [{}] * (len(names["init"]) + len(names["app"])))
    shown = [{"limits": each} for each in limits]
    inits = len(names["init"])
    before = given.get("pod", {}).get("annotations", {})
    pod = pods.read(
        {
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": before},
            "spec": {
                "initContainers": [
                    {"name": name, "resources": each}
                    for name, each in zip(names["init"], shown[:inits], strict=True)
                ],
                "containers": [
                    {"name": name, "resources": each}
                    for name, each in zip(names["app"], shown[inits:], strict=True)
                ],
            },
        }
    )
    extra = {name: given[name] for name in ("cores_per_device",) if name in given}
    slots = tuple(tuple(_pick(extra | pick) for pick in slot) for slot in given["slots"])
    result = written.write(
        pod,
        node=given.get("node", "n1"),
        slots={case["backend"]: slots},
        registry=_registry(case),
        now=_decided_at(given),
    )
    assert isinstance(result, written.Decision)
    kept = {key: value for key, value in before.items() if key not in result.stale_keys}
    return {**kept, **result.annotations}


def _decided_at(given: Case) -> instant.Instant:
    unix_ns = given.get("now_ns", given.get("now_s", 0) * 10**9)
    wall = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=unix_ns // 1000
    )
    return instant.Instant(monotonic_s=0.0, wall=wall, nanoseconds=unix_ns % 1000)


def _pick(pick: Case) -> decision.Pick:
    custom = {name: pick[name] for name in ("type", "cores_per_device") if name in pick}
    custom |= pick.get("custominfo", {}) | pick.get("custom", {})
    if "mig" in pick:
        place = register.Placement(start=pick["mig"]["start"], size=pick["mig"]["size"])
        found = partition.Instance(profile=pick["mig"]["profile"], place=place)
        custom[partition.CUSTOM] = found
    return decision.Pick(
        id=pick["id"],
        memory_mib=pick.get("memory", 0),
        cores=pick.get("cores", 0),
        index=pick.get("index", -1),
        custom=custom,
    )


def _as_json(value: str | None) -> Any:
    """JSON values are compared as JSON."""
    return json.loads(value) if value is not None and value[:1] in ("[", "{") else value


def _check_reading(given: Case, want: Case) -> None:
    if want.get("unreadable"):
        with pytest.raises(errors.DecodeError):
            decision.decode(given["value"], key="key")
        return
    slots = decision.decode(given["value"], key="key")
    assert [[[pick.id, pick.memory_mib, pick.cores] for pick in slot] for slot in slots] == (
        want["slots"]
    )


# --- admission -----------------------------------------------------------------------------


@_kind("admission")
def test_admission(case: Case) -> None:
    given, want = case["input"], case["expect"]
    container = admit.Container(
        name=given["container"]["name"],
        limits=given["container"].get("limits", {}),
        requests=given["container"].get("requests", {}),
        env=tuple(given["container"].get("env", ())),
    )
    pod = admit.Pod(
        annotations=given.get("pod", {}).get("annotations", {}),
        runtime_class=given.get("pod", {}).get("runtimeClassName", ""),
    )

    answer = admit.admit(_row(case), container, pod)

    if isinstance(answer, admit.Denied):
        assert want.get("denied"), answer.text()
        assert [name for name in want.get("names", []) if name not in answer.text()] == []
        return
    assert not want.get("denied")
    got = _admitted(answer)
    named = {name: want[name] for name in want if name != "requests"}
    assert {name: got[name] for name in named} == named
    assert want.get("requests", {}).items() <= got["requests"].items()


def _admitted(answer: admit.Admitted) -> dict[str, Any]:
    return {
        "takes": answer.takes,
        "limits": answer.container.limits,
        "requests": answer.container.requests,
        "env": list(answer.container.env),
        "annotations": answer.pod.annotations,
        "runtimeClassName": answer.pod.runtime_class,
    }


# --- the list of rows ------------------------------------------------------------------------


def test_every_row_that_is_not_covered_exists() -> None:
    assert loader.unknown(FILE, uncovered.DEVICES) == set()


def test_every_kind_of_row_has_a_test() -> None:
    tests: Mapping[str, Callable[[Case], None]] = {
        "register": test_register,
        "request": test_request,
        "fit": test_fit,
        "decision": test_decision,
        "admission": test_admission,
    }
    assert {row["kind"] for row in ROWS} <= set(tests)
