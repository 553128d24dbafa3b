"""What holds for every vendor row, whoever wrote it; exceptions would be a table here."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import pathlib
import re
from collections.abc import Mapping

import pytest

from hami_operator.devices import (
    account,
    admit,
    annotate,
    fit,
    inventory,
    registry,
    request,
    usage,
    vendor,
    vendors,
)
from hami_operator.protocol import decision, instant, keys, register

REGISTRY = registry.default()
EVERY_ROW = pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in REGISTRY])
NOW = instant.Instant(
    monotonic_s=0.0, wall=datetime.datetime(2026, 2, 1, 8, 15, 30, tzinfo=datetime.UTC)
)
KEY = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,251}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A node as the core sees it."""

    name: str = "n1"
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    capacity: Mapping[str, str] = dataclasses.field(default_factory=dict)
    allocatable: Mapping[str, str] = dataclasses.field(default_factory=dict)


def cards(row: vendor.Vendor, number: int = 2) -> list[usage.CardUsage]:
    """Unused cards, large enough for one device each."""
    made = [
        register.Card(
            id=f"card-{index}",
            index=index,
            count=4,
            memory_mib=65536,
            cores=100,
            model=row.keyword,
        )
        for index in range(number)
    ]
    return [usage.CardUsage(card) for card in made]


def smallest(row: vendor.Vendor, count: int = 1) -> request.Request:
    """What a container gets that names only the count."""
    found = request.read(row, limits={row.resources.count: str(count)}, requests={})
    assert isinstance(found, request.Request)
    return found


def placed(row: vendor.Vendor, count: int = 1) -> tuple[decision.Pick, ...]:
    answer = fit.fit(row, smallest(row, count), cards(row), fit.Context())
    assert isinstance(answer, fit.Fit), answer
    return answer.picks


# --- names -----------------------------------------------------------------------------------


@EVERY_ROW
def test_the_word_fits_into_a_decision(row: vendor.Vendor) -> None:
    assert row.keyword
    assert not decision.FORBIDDEN.search(row.keyword)


@EVERY_ROW
def test_every_key_is_one_that_the_api_server_accepts(row: vendor.Vendor) -> None:
    picked = row.selection
    named = [
        *row.resources.names,
        *row.pod.names,
        *(row.node.register, row.node.handshake, row.node.legacy_handshake, row.lock),
        *(picked.use_type, picked.skip_type, picked.numa_bind),
        *(*picked.use_uuid, *picked.skip_uuid),
    ]
    assert [key for key in named if key and not KEY.fullmatch(key)] == []


@EVERY_ROW
def test_usage_can_be_read_from_what_a_decision_writes(row: vendor.Vendor) -> None:
    assert row.pod.recorded in row.pod.names
    assert not row.consumes or row.pod.to_allocate


@EVERY_ROW
def test_the_row_has_a_source_of_devices_and_only_asks_registered_ones(
    row: vendor.Vendor,
) -> None:
    assert row.node.register or row.hooks.devices
    assert bool(row.node.handshake) <= bool(row.node.register)
    assert bool(row.node.legacy_handshake) <= bool(row.node.handshake)


@EVERY_ROW
def test_the_row_owns_no_key_of_the_core(row: vendor.Vendor) -> None:
    core = {*keys.DECISION, keys.NODE_POLICY, keys.GPU_POLICY, keys.DEVICE_CORDON}
    assert not core & {*row.pod.names, row.node.register, row.node.handshake}


def test_no_pod_key_belongs_to_two_rows() -> None:
    owned = [key for row in REGISTRY for key in row.pod.names]
    assert len(owned) == len(set(owned))
    assert set(owned) | set(keys.DECISION) == REGISTRY.owned_pod_keys


# --- behaviour -------------------------------------------------------------------------------


@EVERY_ROW
def test_a_node_without_the_backend_has_nothing_of_it(row: vendor.Vendor) -> None:
    assert inventory.read(Node(), row) == inventory.ABSENT


@EVERY_ROW
def test_a_register_is_read_in_all_three_encodings(row: vendor.Vendor) -> None:
    if not row.node.register:
        assert row.hooks.devices
        return
    some = [candidate.card for candidate in cards(row)]
    for form, width in ((register.Form.JSON, 0), (register.Form.TEXT, 7), (register.Form.TEXT, 9)):
        value = register.encode(some, form, width=width)
        found = inventory.read(Node(annotations={row.node.register: value}), row)
        assert found.state is inventory.State.AVAILABLE
        assert [card.id for card in found.cards] == ["card-0", "card-1"]
        assert found.asks


@EVERY_ROW
@pytest.mark.parametrize("value", ["garbage", "[", "[1]", ",,,,,,"])
def test_a_register_of_nothing_well_formed_is_unavailable(row: vendor.Vendor, value: str) -> None:
    if not row.node.register:
        assert row.hooks.devices
        return
    found = inventory.read(Node(annotations={row.node.register: value}), row)
    assert found.state is inventory.State.UNAVAILABLE
    assert found.findings


@EVERY_ROW
@pytest.mark.parametrize("amount", ["-1", "1.5", "1e30", "NaN", "", "16Ti"])
def test_an_absurd_count_is_invalid_at_request_and_at_admission(
    row: vendor.Vendor, amount: str
) -> None:
    limits = {row.resources.count: amount}
    found = request.read(row, limits=limits, requests={})
    denied = admit.admit(row, admit.Container(name="main", limits=limits), admit.Pod())

    assert isinstance(found, request.Invalid)
    assert isinstance(denied, admit.Denied)
    for name in ("main", row.resources.count, amount):
        assert name in denied.text()


@EVERY_ROW
def test_a_container_without_the_resources_is_left_alone(row: vendor.Vendor) -> None:
    given = admit.Container(name="main", limits={"cpu": "1"}, env=({"name": "A", "value": "b"},))
    answer = admit.admit(row, given, admit.Pod())
    assert answer == admit.Admitted(container=given, pod=admit.Pod(), takes=False)


@EVERY_ROW
def test_whoever_is_admitted_takes_devices_and_changes_nothing_when_asked_again(
    row: vendor.Vendor,
) -> None:
    given = admit.Container(name="main", limits={row.resources.count: "1"})
    once = admit.admit(row, given, admit.Pod())
    assert isinstance(once, admit.Admitted)
    assert once.takes
    assert admit.admit(row, once.container, once.pod) == once


@EVERY_ROW
def test_a_request_for_the_count_alone_fits_on_an_unused_card(row: vendor.Vendor) -> None:
    assert [pick.id for pick in placed(row)] == ["card-0"]
    assert [pick.id for pick in placed(row, 2)] == ["card-0", "card-1"]


@EVERY_ROW
def test_no_unhealthy_card_is_handed_out(row: vendor.Vendor) -> None:
    sick = [usage.CardUsage(dataclasses.replace(one.card, healthy=False)) for one in cards(row)]
    answer = fit.fit(row, smallest(row), sick, fit.Context())
    assert isinstance(answer, fit.NoFit)


@EVERY_ROW
def test_a_card_runs_out(row: vendor.Vendor) -> None:
    """Placing one whole card after another ends, and no limit is broken on the way."""
    standing = cards(row, 1)[0]
    for _ in range(standing.card.count + 1):
        answer = fit.fit(row, smallest(row), [standing], fit.Context())
        if isinstance(answer, fit.NoFit):
            break
        standing = account.charge(row, standing, answer.picks[0])
    else:
        pytest.fail("the card never ran out")
    assert standing.usage.memory_mib <= standing.card.memory_mib


@EVERY_ROW
def test_a_decision_writes_exactly_keys_that_the_row_owns(row: vendor.Vendor) -> None:
    slots = ((), placed(row), placed(row, 2), ())
    written = annotate.decision_annotations(
        [row],
        {row.keyword: slots},
        node_name="n1",
        now=NOW,
        containers=("init", "a", "b", "c"),
        limits=({}, {row.resources.count: "1"}, {row.resources.count: "2"}, {}),
    )
    assert set(written) <= set(row.pod.names)
    assert {row.pod.to_allocate, row.pod.allocated} - {""} <= set(written)


@EVERY_ROW
def test_usage_after_a_restart_is_the_usage_of_the_decision(row: vendor.Vendor) -> None:
    slots = ((), placed(row))
    written = annotate.decision_annotations(
        [row], {row.keyword: slots}, node_name="n1", now=NOW, containers=("init", "main")
    )
    again = decision.decode(written[row.pod.recorded], key=row.pod.recorded)

    assert [len(slot) for slot in again] == [0, 1]
    before, after = slots[1][0], again[1][0]
    assert (after.id, after.memory_mib, after.cores) == (
        before.id,
        before.memory_mib,
        before.cores,
    )
    card = cards(row, 1)[0]
    assert account.charge(row, card, after) == account.charge(row, card, before)


@EVERY_ROW
def test_unserved_devices_are_recognised(row: vendor.Vendor) -> None:
    written = annotate.decision_annotations(
        [row], {row.keyword: (placed(row),)}, node_name="n1", now=NOW, containers=("main",)
    )
    if row.consumes:
        assert decision.unserved(written[row.pod.to_allocate], row.keyword)
    assert not decision.unserved(";;", row.keyword)


# --- the engine ------------------------------------------------------------------------------


def test_every_vendor_file_is_in_the_registry() -> None:
    folder = pathlib.Path(inspect.getfile(vendors)).parent
    source = pathlib.Path(inspect.getfile(registry)).read_text(encoding="utf-8")
    for file in sorted(folder.glob("[!_]*.py")):
        assert re.search(rf"\b{file.stem}\.", source), file.name


def test_the_engine_names_no_vendor() -> None:
    folder = pathlib.Path(inspect.getfile(vendor)).parent
    named = [row.keyword for row in REGISTRY]
    named += [file.stem for file in (folder / "vendors").glob("[!_]*.py")]
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, named))})\b", re.IGNORECASE)
    found = {
        file.name: pattern.findall(file.read_text(encoding="utf-8"))
        for file in folder.glob("*.py")
        if file.name != "registry.py"
    }
    assert {name: words for name, words in found.items() if words} == {}
