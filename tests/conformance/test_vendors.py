"""What holds for every vendor row, whoever wrote it: from the register to the release."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import itertools
import pathlib
import re
from collections.abc import Iterator

import pytest

from hami_operator import errors
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
from hami_operator.scheduling import claim, ledger, nodes, snapshot, written
from hami_operator.scheduling import pod as pods
from tests import builders
from tests.conformance import samples

REGISTRY = samples.REGISTRY
EVERY_ROW = pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in REGISTRY])
NOW = instant.Instant(
    monotonic_s=0.0, wall=datetime.datetime(2026, 2, 1, 8, 15, 30, tzinfo=datetime.UTC)
)
TIMEOUT_S = 300.0
KEY = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,251}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
BARE = builders.node("bare").read()


def _asks() -> Iterator[object]:
    """Every row with every way to ask it."""
    for row in REGISTRY:
        for asked in samples.of(row).asks:
            said = " ".join(f"{name} {amount}" for name, amount in asked.items())
            yield pytest.param(row, samples.limits(row, asked), id=f"{row.keyword}: {said}")


EVERY_ASK = pytest.mark.parametrize(("row", "limits"), list(_asks()))


def cards(row: vendor.Vendor) -> list[usage.CardUsage]:
    """The unused cards of a node."""
    found = inventory.read(samples.node(row).read(), row)
    assert found.state is inventory.State.AVAILABLE, found
    return [usage.CardUsage(card) for card in found.cards]


def asked(row: vendor.Vendor, limits: samples.Limits | None = None) -> request.Request:
    """A request, admitted; the row's first one without limits."""
    limits = limits or samples.limits(row, samples.of(row).asks[0])
    admitted = admit.admit(row, admit.Container(name="main", limits=limits), admit.Pod())
    assert isinstance(admitted, admit.Admitted), admitted
    found = admit.read(row, admitted.container)
    assert isinstance(found, request.Request), found
    return found


def context(row: vendor.Vendor) -> fit.Context:
    node = samples.node(row).read()
    return fit.Context(node_annotations=node.annotations, node_labels=node.labels)


def placed(row: vendor.Vendor, limits: samples.Limits | None = None) -> tuple[decision.Pick, ...]:
    answer = fit.fit(row, asked(row, limits), cards(row), context(row))
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
        row.node.listed,
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


def test_no_decision_key_belongs_to_two_rows() -> None:
    decided = [key for row in REGISTRY for key in (row.pod.to_allocate, row.pod.allocated) if key]
    plugin = {key for row in REGISTRY for key in row.pod.plugin}
    assert len(decided) == len(set(decided))
    assert not plugin & set(decided)
    assert {*decided, *plugin, *keys.DECISION} == REGISTRY.owned_pod_keys


# --- behaviour -------------------------------------------------------------------------------


@EVERY_ROW
def test_a_node_without_the_backend_has_nothing_of_it(row: vendor.Vendor) -> None:
    assert inventory.read(BARE, row) == inventory.ABSENT


@EVERY_ROW
def test_a_register_is_read_in_all_three_encodings(row: vendor.Vendor) -> None:
    if not row.node.register:
        assert row.hooks.devices
        return
    some = samples.cards(row, 2)
    for form, width in ((register.Form.JSON, 0), (register.Form.TEXT, 7), (register.Form.TEXT, 9)):
        value = register.encode(some, form, width=width)
        found = inventory.read(builders.node("n").annotate({row.node.register: value}).read(), row)
        assert found.state is inventory.State.AVAILABLE
        assert [card.id for card in found.cards] == ["card-0", "card-1"]
        assert found.asks is bool(row.node.handshake)


@EVERY_ROW
@pytest.mark.parametrize("value", ["garbage", "[", "[1]", ",,,,,,"])
def test_a_register_of_nothing_well_formed_is_unavailable(row: vendor.Vendor, value: str) -> None:
    if not row.node.register:
        assert row.hooks.devices
        return
    found = inventory.read(builders.node("n").annotate({row.node.register: value}).read(), row)
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


@EVERY_ASK
def test_whoever_is_admitted_takes_devices_and_changes_nothing_when_asked_again(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    given = admit.Container(name="main", limits=limits)
    once = admit.admit(row, given, admit.Pod())
    assert isinstance(once, admit.Admitted)
    assert once.takes
    assert admit.admit(row, once.container, once.pod) == once


@EVERY_ROW
def test_no_unhealthy_card_is_handed_out(row: vendor.Vendor) -> None:
    sick = [usage.CardUsage(dataclasses.replace(one.card, healthy=False)) for one in cards(row)]
    answer = fit.fit(row, asked(row), sick, context(row))
    assert isinstance(answer, fit.NoFit)


@EVERY_ASK
def test_the_cards_run_out(row: vendor.Vendor, limits: samples.Limits) -> None:
    """Placing one container after the other ends, and no limit is broken on the way."""
    standing = {one.card.id: one for one in cards(row)}
    for _ in range(1000):
        answer = fit.fit(row, asked(row, limits), list(standing.values()), context(row))
        if isinstance(answer, fit.NoFit):
            break
        for pick in answer.picks:
            standing[pick.id] = account.charge(row, standing[pick.id], pick)
    else:
        pytest.fail("the cards never ran out")
    assert any(one.usage.used for one in standing.values())
    for one in standing.values():
        assert one.usage.used <= one.card.count
        assert one.usage.memory_mib <= one.card.memory_mib or not one.card.memory_mib


@EVERY_ASK
def test_the_order_of_dictionaries_does_not_matter(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    node = samples.node(row).annotate({"a": "b", "hami.io/device-cordon": ""}).read()
    turned = fit.Context(
        node_annotations=dict(reversed(list(node.annotations.items()))),
        node_labels=dict(reversed(list(node.labels.items()))),
    )
    some = [
        usage.CardUsage(
            dataclasses.replace(one.card, custom=dict(reversed(list(one.card.custom.items()))))
            if one.card.custom
            else one.card
        )
        for one in cards(row)
    ]
    found = fit.fit(row, asked(row, dict(reversed(list(limits.items())))), some, turned)
    assert isinstance(found, fit.Fit)
    assert [(pick.id, pick.memory_mib, pick.cores) for pick in found.picks] == [
        (pick.id, pick.memory_mib, pick.cores) for pick in placed(row, limits)
    ]


@EVERY_ASK
def test_a_decision_writes_exactly_keys_that_the_row_owns(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    written_ = annotate.decision_annotations(
        [row],
        {row.keyword: ((), placed(row, limits), placed(row), ())},
        node_name="n1",
        now=NOW,
        containers=("init", "a", "b", "c"),
        limits=({}, limits, samples.limits(row, samples.of(row).asks[0]), {}),
    )
    assert set(written_) <= set(row.pod.names)
    assert {row.pod.to_allocate, row.pod.allocated} - {""} <= set(written_)


@EVERY_ASK
def test_what_is_encoded_is_decoded(row: vendor.Vendor, limits: samples.Limits) -> None:
    slots = ((), placed(row, limits), ())
    value = decision.encode(slots, row.hooks.word or row.keyword)
    again = decision.decode(value, key="key")
    assert [[(one.id, one.memory_mib, one.cores) for one in slot] for slot in again] == [
        [(one.id, one.memory_mib, one.cores) for one in slot] for slot in slots
    ]
    assert decision.encode(again, row.keyword) == decision.encode(slots, row.keyword)


@EVERY_ROW
def test_unserved_devices_are_recognised(row: vendor.Vendor) -> None:
    written_ = annotate.decision_annotations(
        [row],
        {row.keyword: (placed(row),)},
        node_name="n1",
        now=NOW,
        containers=("main",),
        limits=({},),
    )
    if row.consumes:
        assert decision.unserved(written_[row.pod.to_allocate], row.keyword)
    assert not decision.unserved(";;", row.keyword)


# --- the way of a pod ------------------------------------------------------------------------


@dataclasses.dataclass
class Cluster:
    """A node of one row, and the books about it."""

    row: vendor.Vendor

    def __post_init__(self) -> None:
        self.node = samples.node(self.row).read()
        self.nodes = nodes.Nodes(REGISTRY, TIMEOUT_S)
        self.nodes.seen(self.node, NOW, at_start=True)
        self.books = ledger.Ledger(REGISTRY)
        self.sight = snapshot.Snapshot(self.nodes, self.books)

    def cards(self) -> tuple[usage.CardUsage, ...]:
        (view,) = self.sight.views()
        return view.cards.get(self.row.keyword, ())

    def sums(self) -> dict[str, tuple[int, int, int]]:
        """What is taken of each card, as new pods find it."""
        return {
            one.card.id: (one.usage.used, one.usage.memory_mib, one.usage.cores)
            for one in self.cards()
        }

    def place(self, limits: samples.Limits) -> tuple[decision.Pick, ...]:
        answer = fit.fit(self.row, asked(self.row, limits), self.cards(), context(self.row))
        assert isinstance(answer, fit.Fit), answer.text()
        return answer.picks


def pod(name: str, row: vendor.Vendor, limits: samples.Limits) -> builders.PodBuilder:
    """A pod whose middle container asks, as admission has left it."""
    answer = admit.admit(row, admit.Container(name="main", limits=limits), admit.Pod())
    assert isinstance(answer, admit.Admitted)
    made = builders.pod(name).annotate(answer.pod.annotations).init("setup")
    main = answer.container
    made = made.container("main", limits=main.limits, requests=main.requests)
    return made.container("beside")


def decided(one: pods.Pod, slots: decision.Slots, row: vendor.Vendor) -> written.Decision:
    found = written.write(
        one, node=samples.NODE, slots={row.keyword: slots}, registry=REGISTRY, now=NOW
    )
    assert isinstance(found, written.Decision), found
    return found


@EVERY_ASK
def test_register_request_fit_decision_decode_usage_release(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    here = Cluster(row)
    unused = here.sums()
    assert len(unused) == samples.CARDS
    assert set(unused.values()) == {(0, 0, 0)}
    builder = pod("p", row, limits)
    pending = builder.read()
    slots = ((), here.place(limits), ())
    result = decided(pending, slots, row)

    here.books.assume(pending, samples.NODE, {row.keyword: slots})
    reserved = here.sums()
    bound = builder.on(samples.NODE).annotate(dict(result.annotations)).read()
    claimed = claim.read(bound, REGISTRY)
    here.books.observe(bound, ours=True)
    again = Cluster(row)
    again.books.observe(bound, ours=True)

    assert reserved != unused
    assert claimed.findings == ()
    assert claim.same(claimed.slots, {row.keyword: slots})
    assert here.sums() == reserved
    assert again.sums() == reserved, "a restart counts what the decision says"
    here.books.gone(bound.uid)
    again.books.gone(bound.uid)
    assert here.sums() == again.sums() == unused


@EVERY_ASK
def test_usage_after_a_restart_is_that_of_many_pods_that_came_one_after_the_other(
    row: vendor.Vendor, limits: samples.Limits
) -> None:
    here, again = Cluster(row), Cluster(row)
    for number in itertools.count():
        answer = fit.fit(row, asked(row, limits), here.cards(), context(row))
        if isinstance(answer, fit.NoFit):
            break
        builder = pod(f"p{number}", row, limits)
        slots = ((), answer.picks, ())
        here.books.assume(builder.read(), samples.NODE, {row.keyword: slots})
        result = decided(builder.read(), slots, row)
        bound = builder.on(samples.NODE).annotate(dict(result.annotations)).read()
        again.books.observe(bound, ours=True)

    assert number > 0
    assert again.sums() == here.sums()
    first = fit.fit(row, asked(row, limits), again.cards(), context(row))
    assert first == fit.fit(row, asked(row, limits), here.cards(), context(row))


@EVERY_ROW
def test_a_type_that_kubelet_does_not_offer_or_that_falls_silent_takes_no_pods(
    row: vendor.Vendor,
) -> None:
    here = Cluster(row)
    here_cards = inventory.read(here.node, row)
    offered = samples.of(row).capacity or {row.resources.count: 1}
    none = samples.node(row).allocatable(dict.fromkeys(offered, "0")).read()

    assert inventory.read(none, row).unavailable_because is errors.Reason.TYPE_NOT_ALLOCATABLE
    assert inventory.read(none, row).cards == here_cards.cards
    if here_cards.asks:
        asked_ = here.nodes.due(NOW)[samples.NODE]
        silent = builders.NodeBuilder(samples.node(row).raw()).annotate(asked_).version(2)
        here.nodes.seen(silent.read(), NOW)
        later = dataclasses.replace(NOW, monotonic_s=TIMEOUT_S + 1)
        here.nodes.expire(later)
        because = here.nodes.standings(samples.NODE)[row.keyword].because
        assert because is errors.Reason.TYPE_EXPIRED
        assert here.cards() == ()


# --- the engine ------------------------------------------------------------------------------


def test_every_vendor_file_is_in_the_registry() -> None:
    folder = pathlib.Path(inspect.getfile(vendors)).parent
    source = pathlib.Path(inspect.getfile(registry)).read_text(encoding="utf-8")
    for file in sorted(folder.glob("[!_]*.py")):
        assert re.search(rf"\b{file.stem}\.", source), file.name


def test_no_two_vendor_files_share_six_equal_lines() -> None:
    folder = pathlib.Path(inspect.getfile(vendors)).parent
    owners: dict[tuple[str, ...], str] = {}
    for file in sorted(folder.glob("[!_]*.py")):
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line]
        for start in range(len(lines) - 5):
            six = tuple(lines[start : start + 6])
            imports = all(re.match(r"(from|import) |[a-z_]+,$|\)$", line) for line in six)
            assert imports or owners.setdefault(six, file.name) == file.name, (file.name, six)


def test_the_engine_names_no_vendor() -> None:
    folder = pathlib.Path(inspect.getfile(vendor)).parent
    named = [row.keyword for row in registry.default()]
    named += [file.stem for file in (folder / "vendors").glob("[!_]*.py")]
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, named))})\b", re.IGNORECASE)
    found = {
        file.name: pattern.findall(file.read_text(encoding="utf-8"))
        for file in folder.glob("*.py")
        if file.name != "registry.py"
    }
    assert {name: words for name, words in found.items() if words} == {}
