"""One test per row of the cases about the scheduler side, named by its id."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from hami_operator import clock, errors, settings
from hami_operator.cli import gauges, options
from hami_operator.devices import partition, request, score, selection, usage, vendor
from hami_operator.devices import registry as registries
from hami_operator.protocol import decision, miglist, register
from hami_operator.scheduling import (
    containers,
    cycle,
    effective,
    effects,
    nodes,
    policy,
    quota,
    room,
    scores,
    snapshot,
    world,
)
from hami_operator.scheduling import node as records
from hami_operator.server import metrics
from tests import builders
from tests.cases import loader, scheduler_cluster, scheduler_fields, uncovered

Case = Mapping[str, Any]
REGISTRY: Final = registries.default()
NVIDIA: Final = REGISTRY.by_word["NVIDIA"]
LISTED: Final = {**uncovered.SCHEDULER, **uncovered.SCHEDULER_BIND}
ELSEWHERE: Final = frozenset(
    {"lock", "unlock", "bind", "admit", "http", "plugin_allocate", "plugin_pop", "plugin_find"}
)
"""What the other modules named ``test_cases_scheduler_…`` run."""
ROWS: Final = [
    row
    for row in (loader.rows(scheduler_cluster.FILE) if scheduler_cluster.DOCUMENT["cases"] else [])
    if row["when"]["op"] not in ELSEWHERE
    if not (row["when"]["op"] == "tick" and "leader" in row["given"])  # about replicas
]
KINDS: Final = containers.Kind


def _decide(stated: Case, when: Case, want: Case) -> None:
    for model in scheduler_cluster.models(stated):
        cluster = scheduler_cluster.Cluster(stated, model)
        outcome = _outcome(cluster, when)
        _compare_outcome(outcome, want, model)
        if "events" in want:
            assert _node_events(cluster.effects) == want["events"]
        if "ledger" in want:
            assert list(cluster.world.ledger) == (want["ledger"] or [])


def _outcome(cluster: scheduler_cluster.Cluster, when: Case) -> cycle.Placed | cycle.Unplaced:
    pod = scheduler_cluster.pending_pod(when["pod"], cluster.registry)
    names = when.get("node_names")
    return cycle.run(
        pod,
        scheduler_cluster.demanded(when["pod"], pod, cluster.registry),
        [view for view in cluster.views() if names is None or view.name in names],
        rules=cluster.rules,
        now=scheduler_cluster.at(2),
        accounts=cluster.accounts(pod.namespace),
    )


def _compare_outcome(outcome: cycle.Placed | cycle.Unplaced, want: Case, model: str) -> None:
    """``answer`` is the extender's form of the same; the extender's own tests compare it."""
    placed = outcome if isinstance(outcome, cycle.Placed) else None
    message = outcome.message if isinstance(outcome, cycle.Unplaced) else ""
    found = {
        "node": placed.node if placed else None,
        "decision": _values(placed) if placed else None,
        "failed": {name: one.detail for name, one in outcome.rejections.items()} or None,
        "mig": _mig_list(placed),
        "scores": {name: round(one, 2) for name, one in placed.scores.items()} if placed else None,
    }
    for key in found.keys() & want.keys():
        assert found[key] == (want[key] or None), (key, model, message)
    assert want.get("error_contains", "") in message


def _mig_list(placed: cycle.Placed | None) -> Any:
    value = placed.decision.annotations.get(scheduler_cluster.MIG_LIST) if placed else None
    return json.loads(value) if value else None


def _values(placed: cycle.Placed) -> dict[str, str]:
    """Keyword to the decision's value, the same under both keys."""
    found = {}
    for word in placed.slots:
        keys = REGISTRY.by_word[word].pod
        found[word] = placed.decision.annotations[keys.allocated]
        assert placed.decision.annotations[keys.to_allocate] == found[word]
    return found


def _node_events(told: Sequence[effects.Effect]) -> list[dict[str, str]]:
    return [
        {"object": one.node, "reason": one.reason}
        for one in told
        if isinstance(one, effects.NodeEvent)
    ]


def _usage(stated: Case, when: Case, want: Case) -> None:
    found = scheduler_cluster.Cluster(stated).cards()
    for card, facts in want["cards"].items():
        assert {key: found[card][key] for key in facts} == facts, card


def _steps(stated: Case, when: Case, want: Sequence[Case]) -> None:
    cluster = scheduler_cluster.Cluster(stated)
    for step, after in zip(when["steps"], want, strict=True):
        for name, argument in step.items():
            _STEPS[name](cluster, argument)
        _compare_state(cluster, after)


def _compare_state(cluster: scheduler_cluster.Cluster, want: Case) -> None:
    cards = cluster.cards()
    for card, facts in want.get("cards", {}).items():
        assert {key: cards[card][key] for key in facts} == facts, card
    for namespace, used in want.get("quota_used", {}).items():
        found = cluster.quota_used(namespace)
        assert {key: found[key] for key in used} == used
    if "ledger" in want:
        assert list(cluster.world.ledger) == want["ledger"]


def _meddle(cluster: scheduler_cluster.Cluster, what: Sequence[str]) -> None:
    """A reader tries to change all that it was given."""
    assert set(what) == {"ledger", "nodes", "usage", "metrics"}
    here = cluster.world
    for entry in here.ledger:
        for mapping in (entry.slots, entry.usage, entry.requests, *entry.usage.values()):
            _clear(mapping)
    for view in here.snapshot.views():
        for mapping in (view.cards, view.requested, view.unavailable):
            _clear(mapping)
        _clear(here.nodes.standings(view.name))
        for word in view.cards:
            _clear(here.ledger.card_usage(view.name, word))
            _clear(here.ledger.owners(view.name, word))
        _clear(here.ledger.requested(view.name)[0])
    _clear(here.ledger.namespace_usage("default"))


def _clear(mapping: Any) -> None:
    if hasattr(mapping, "clear"):
        mapping.clear()


_STEPS: Final[Mapping[str, Callable[[scheduler_cluster.Cluster, Any], None]]] = {
    "add": scheduler_cluster.Cluster.see,
    "update": scheduler_cluster.Cluster.see,
    "delete": scheduler_cluster.Cluster.delete,
    "reader_changes_what_it_got": _meddle,
}


def _card_score(stated: Case, when: Case, want: Case) -> None:
    ((word, asked),) = when["request"].items()
    wanted = request.Request(
        word=word,
        count=asked["n"],
        memory_mib=asked.get("mem", 0),
        percent=asked.get("percent"),
        cores=asked.get("cores", 0),
    )
    entry = scheduler_cluster.card_usage(stated["card"])
    assert round(scores.card(entry, policy.Weights(), wanted), 2) == want["score"]


def _node_score(stated: Case, when: Case, want: Case) -> None:
    cards = tuple(scheduler_cluster.card_usage(raw) for raw in stated["cards"])
    assert round(scores.node(snapshot.totals({"NVIDIA": cards})), 2) == want["score"]


def _order(stated: Case, when: Case, want: Case) -> None:
    listed = sorted(stated["cards"], key=lambda raw: (raw[4], raw[0]))
    stated_scores = {identity: score for identity, score, *_ in listed}
    cards = [
        usage.CardUsage(register.Card(id=identity, index=index, numa=numa), usage.Usage(used))
        for identity, _, numa, used, index in listed
    ]
    chosen, _ = policy.card_policy(when["policy"], setting="spread")
    criteria = chosen.criteria(numa_bind=when["numa_bind"])
    ranked = scores.order(cards, criteria, lambda entry: stated_scores[entry.card.id])
    assert [entry.card.id for entry in ranked] == want["order"]


def _weights(stated: Case, when: Case, want: Case) -> None:
    found = policy.weights(stated["annotation"])
    if isinstance(found, policy.Weights):
        assert dataclasses.asdict(found) == want
    else:
        assert found == want.get("error", found)
        assert want.get("error_contains", "") in found
        assert want.keys() <= {"error", "error_contains"}


def _encode(stated: Case, when: Case, want: Case) -> None:
    if "profile" in stated:
        card = register.Card(id="c", mig_profiles=scheduler_cluster.profiles([stated["profile"]]))
        assert f'"migProfiles":[{want["value"]}]' in register.encode([card], register.Form.JSON)
        return
    words = {raw[1] for segment in stated["segments"] for raw in segment}
    slots = tuple(
        tuple(scheduler_cluster.pick([raw[0], raw[2], raw[3]]) for raw in segment)
        for segment in stated["segments"]
    )
    assert decision.encode(slots, words.pop() if words else "NVIDIA") == want["value"]


def _mig_place(stated: Case, when: Case, want: Case) -> None:
    listed = scheduler_cluster.profiles(stated["profiles"])
    card = register.Card(id="GPU-a", mode=partition.MODE, mig_profiles=listed)
    taken = scheduler_cluster.places(stated["placed"])
    chosen: list[list[Any] | None] = []
    for wanted in when["wanted"]:
        found = partition.choose(card, wanted, taken)
        chosen.append([found.profile.name, found.place.start] if found else None)
        taken = (*taken, found.place) if found else taken
    assert chosen == want["chosen"]


def _container_of_segment(stated: Case, when: Case, want: Case) -> None:
    pod = builders.pod("p")
    for name in stated["inits"]:
        pod = pod.init(name)
    for name in stated["apps"]:
        pod = pod.container(name)
    names = [one.name for one in pod.read().containers]
    found = [names[slot] if slot < len(names) else None for slot in when["segments"]]
    assert found == want["containers"]


def _backend_score(stated: Case, when: Case, want: Case) -> None:
    row = REGISTRY.by_word[stated["backend"]]
    if "raw" in stated:
        hooks = dataclasses.replace(row.hooks, score=lambda *_: stated["raw"])
        row = dataclasses.replace(row, hooks=hooks)
    picks = tuple(
        scheduler_cluster.pick([f"c{number}", 0, 0]) for number in range(stated.get("cards", 1))
    )
    (annotations,) = stated.get("node_annotations", {"n": {}}).values()
    facts = score.Facts(
        node_policy=stated["node_policy"],
        slots=(picks,),
        before=(),
        pod_annotations={},
        node_annotations=annotations,
    )
    assert score.term(row, facts) == want["score"]


def _decode(stated: Case, when: Case, want: Case) -> None:
    if "mig" in stated:
        with pytest.raises(errors.DecodeError):
            miglist.decode(stated["mig"], key="k")
        assert want["unreadable"]
        return
    if want.get("unreadable"):
        with pytest.raises(errors.DecodeError):
            decision.decode(stated["value"], key="k")
        return
    found = [
        [[one.id, one.memory_mib, one.cores] for one in slot]
        for slot in decision.decode(stated["value"], key="k")
    ]
    assert found == [[[raw[0], raw[2], raw[3]] for raw in slot] for slot in want["segments"]]


def _read_register(stated: Case, when: Case, want: Case) -> None:
    found = register.decode(stated["register"])
    cards = [
        [
            card.id,
            card.count,
            card.memory_mib,
            card.cores,
            card.model,
            card.numa,
            card.healthy,
            card.index,
            card.mode,
        ]
        for card in found.cards
    ]
    assert (cards, [bad.field for bad in found.findings]) == (want["cards"], want["malformed"])
    if "state" in want:
        node = builders.roomy("n").annotate({NVIDIA.node.register: stated["register"]}).read()
        assert _state(_seen(node), "n", "NVIDIA") == want["state"]


def _seen(node: records.Node, registry: registries.Registry = REGISTRY) -> nodes.Nodes:
    found = nodes.Nodes(registry, 300)
    found.seen(node, scheduler_cluster.at(0), at_start=True)
    return found


def _state(found: nodes.Nodes, node: str, word: str) -> str:
    standing = found.standings(node).get(word)
    if standing is None or not (standing.inventory.cards or standing.because):
        return "absent"
    return "available" if standing.because is None else "unavailable"


def _requests(stated: Case, when: Case, want: Case) -> None:
    each = [*stated.get("inits", ()), *stated["apps"]]
    for limits, wanted in zip(each, want["requests"], strict=True):
        texts = {name: str(amount) for name, amount in limits.items()}
        reads = {row.keyword: request.read(row, limits=texts, requests={}) for row in REGISTRY}
        found = {word: one for word, one in reads.items() if one is not None}
        assert found.keys() == wanted.keys()
        for word, asked in wanted.items():
            one = found[word]
            assert isinstance(one, request.Request)
            told = {"n": one.count, "mem": one.memory_mib, "cores": one.cores}
            assert {key: told[key] for key in asked} == asked


def _effective(stated: Case, when: Case, want: Case) -> None:
    by_word = stated.get("segments_by_keyword") or {"": stated["segments"] or []}
    found = {}
    for word, segments in by_word.items():
        slots = tuple(tuple(map(scheduler_cluster.pick, segment)) for segment in segments)
        kinds = _kinds(stated["inits"], max(len(slots) - stated["inits"], 0))
        taken = effective.effective(slots, kinds, released=stated.get("released", False))
        found[word] = {card: [one.memory_mib, one.cores, one.used] for card, one in taken.items()}
    assert found.get("", found) == want["effective"]


def _kinds(inits: int, apps: int) -> tuple[containers.Kind, ...]:
    return (KINDS.INIT,) * inits + (KINDS.APP,) * apps


def _quota_fits(stated: Case, when: Case, want: Case) -> None:
    if "card" in when:
        assert _room(stated, when) is want["fits"]
        return
    row = dataclasses.replace(NVIDIA, memory_factor=stated.get("memory_factor", 1))
    limits = scheduler_cluster.quotas(stated, REGISTRY)
    namespace = when["ns"]
    for step in range(when.get("times", 1)):
        if "meanwhile" in when and step % 50 == 0:
            hard = stated["quota"][namespace]
            limits.seen(scheduler_cluster.resource_quota(namespace, "q", hard))
        assert _asked(stated, when, limits, row) is want["fits"]


def _asked(stated: Case, when: Case, limits: quota.Quotas, row: vendor.Vendor) -> bool:
    if when.get("keyword", "NVIDIA") not in REGISTRY.by_word:
        row = vendor.Vendor(
            keyword=when["keyword"],
            resources=vendor.Resources(count="example.com/x"),
            pod=vendor.PodKeys(allocated="example.com/a"),
        )
    used = scheduler_cluster.stated_usage(stated.get("quota_used", {}), when["ns"], row)
    account = limits.account(when["ns"], row, used)
    return account is None or account.fits(*when["ask"])


def _room(stated: Case, when: Case) -> bool:
    kinds = _kinds(stated["inits"], stated["apps"])
    taken = [tuple(map(scheduler_cluster.pick, each)) for each in stated["taken"]]
    slot = len(taken) - 1
    account = scheduler_cluster.quotas(stated, REGISTRY).account("default", NVIDIA)
    assert account is not None
    asks = room.Room(
        account=account,
        row=NVIDIA,
        kinds=kinds,
        taken=[*taken, *[()] * (len(kinds) - len(taken))],
        slot=slot,
    )
    card, memory_mib, cores = when["card"]
    return asks(taken[slot], memory_mib, cores, card)


def _quota_steps(stated: Case, when: Case, want: Sequence[Case]) -> None:
    limits = quota.Quotas(REGISTRY)
    for step, after in zip(when["steps"], want, strict=True):
        ((verb, raw),) = step.items()
        if verb == "delete":
            limits.gone(raw["ns"], raw["name"])
        else:
            limits.seen(scheduler_cluster.resource_quota(raw["ns"], raw["name"], raw["hard"]))
        assert limits.limits(raw["ns"]) == after["limits"]


def _chosen(stated: Case) -> Callable[[str, str], selection.Chosen]:
    """The demands that ``use`` and ``nouse`` make under the two given keys."""
    given = {key: stated[key] for key in ("use", "nouse") if key in stated}

    def read(use: str, nouse: str) -> selection.Chosen:
        keys = {"use": use, "nouse": nouse}
        return selection.read(NVIDIA.selection, {keys[name]: given[name] for name in given})

    return read


def _uuid_allowed(stated: Case, when: Case, want: Case) -> None:
    chosen = _chosen(stated)("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid")
    allowed = [one for one in when["ids"] if chosen.allows_id(register.Card(id=one))]
    assert allowed == want["allowed"]


def _type_allowed(stated: Case, when: Case, want: Case) -> None:
    chosen = _chosen(stated)("nvidia.com/use-gputype", "nvidia.com/nouse-gputype")
    allowed = [
        one for one in when["models"] if chosen.allows_model(register.Card(id="c", model=one))
    ]
    assert allowed == want["allowed"]


def _tick(stated: Case, when: Case, want: Case) -> None:
    """The first look is at the start, the tick 30 s later."""
    word = {"text": "DCU", "json": "NVIDIA"}[stated["register"]]
    row = REGISTRY.by_word[word]
    form = register.Form(stated["register"])
    node = builders.roomy("n").register(word, builders.cards(1), form=form, handshake=None)
    node = node.annotate({row.node.handshake: stated["handshake"]})
    if stated["allocatable"] is not None:
        node = node.allocatable({row.resources.count: str(stated["allocatable"])})
    found = _seen(node.read())
    if "register_changes_to" in stated:
        node = node.annotate({row.node.register: stated["register_changes_to"]})
        found.seen(node.version(2).read(), scheduler_cluster.at(10))
    now = scheduler_cluster.at(30)
    found.expire(now)
    written = found.due(now).get("n", {}).get(row.node.handshake)
    assert (_state(found, "n", word), written) == (want["state"], want["written"])
    cards = {card.id: card for card in found.standings("n")[word].inventory.cards}
    for card, facts in want.get("cards", {}).items():
        assert facts == {"healthy": cards[card].healthy}


def _register_steps(stated: Case, when: Case, want: Sequence[Case]) -> None:
    (name,) = stated["nodes"]
    registry = registries.build([_answering(word) for word in stated["types"]])
    here = world.World(registry, scheduler_cluster.configured(stated))
    node = builders.roomy(name)
    for number, (step, after) in enumerate(zip(when["steps"], want, strict=True)):
        for word, change in step.items():
            node = _registered(node, registry.by_word[word], change)
        told = here.node_seen(node.version(number + 1).read(), scheduler_cluster.at(number))
        assert not [one for one in told if not isinstance(one, effects.NodeEvent)]
        for word in stated["types"]:
            assert after.get(word, "available") == _state(here.nodes, name, word)
        if "candidates" in after:
            assert _candidates(here) == after["candidates"]


def _answering(word: str) -> vendor.Vendor:
    """A type with a text register that answers the handshake."""
    return vendor.Vendor(
        keyword=word,
        resources=vendor.Resources(count=f"example.com/{word}"),
        node=vendor.NodeKeys(
            register=f"example.com/{word}-register", handshake=f"example.com/{word}-handshake"
        ),
        pod=vendor.PodKeys(allocated=f"example.com/{word}-allocated"),
    )


def _registered(
    node: builders.NodeBuilder, row: vendor.Vendor, change: Case
) -> builders.NodeBuilder:
    raw = node.raw()
    annotations = raw["metadata"].setdefault("annotations", {})
    annotations.pop(row.node.register, None)
    annotations[row.node.handshake] = (
        "Requesting_2024.01.01 00:00:00" if change.get("expired") else builders.ANSWERED
    )
    if change.get("register") == "unreadable":
        annotations[row.node.register] = "unreadable"
    elif "cards" in change:
        cards = [register.Card(id=one, count=1, memory_mib=1) for one in change["cards"]]
        annotations[row.node.register] = register.encode(cards, register.Form.TEXT)
    return builders.NodeBuilder(raw)


def _candidates(here: world.World) -> list[str]:
    return [
        each.card.id
        for view in here.snapshot.views()
        for word in sorted(view.cards)
        for each in view.cards[word]
    ]


def _pod_group_member(stated: Case, when: Case, want: Case) -> None:
    pod = builders.pod("p").merge("metadata.labels", stated.get("labels", {}))
    pod = pod.merge("spec", stated.get("spec", {}))
    assert bool(pod.read().gang.name) is want["member"]


def _metrics(stated: Case, when: Case, want: Case) -> None:
    """What a namespace holds is held by a pod of it."""
    cluster = scheduler_cluster.Cluster(stated)
    for namespace, used in stated.get("quota_used", {}).items():
        value = f"g,NVIDIA,{used['nvidia.com/gpumem']},0:;"
        cluster.see({"name": "p", "ns": namespace, "node": "n", "allocated": {"NVIDIA": value}})
    exported = metrics.Metrics()
    gauges.connect(
        exported,
        cluster.world,
        rows=cluster.registry,
        settings=cluster.settings,
        time=clock.SystemClock(),
        watches={},
    )
    samples = {one.name: one.value for family in exported.collect() for one in family.samples}
    wanted = want.get("samples", {})
    assert {name: samples.get(name) for name in wanted} == wanted
    assert not samples.keys() & set(want.get("absent", ()))
    if "nodes" in stated:
        assert "hami_gpu_memory_limit_bytes" in samples, "cards are told"


def _settings(stated: Case, when: Case, want: Case) -> None:
    parser = argparse.ArgumentParser()
    options.configure(parser)
    found = options.load(
        parser.parse_args([f"--{name}={value}" for name, value in stated["flags"].items()]),
        stated["env"],
    )
    want_s = settings.duration_s(want["node_lock_timeout"], field="node_lock_timeout")
    assert found.node_lock_timeout_s == want_s


OPERATIONS: Final[Mapping[str, Callable[[Case, Case, Any], None]]] = {
    "backend_score": _backend_score,
    "card_score": _card_score,
    "container_of_segment": _container_of_segment,
    "decide": _decide,
    "decode": _decode,
    "effective": _effective,
    "encode": _encode,
    "metrics": _metrics,
    "mig_place": _mig_place,
    "node_score": _node_score,
    "order": _order,
    "pod_group_member": _pod_group_member,
    "quota_fits": _quota_fits,
    "quota_steps": _quota_steps,
    "read_register": _read_register,
    "register_steps": _register_steps,
    "requests": _requests,
    "settings": _settings,
    "steps": _steps,
    "tick": _tick,
    "type_allowed": _type_allowed,
    "usage": _usage,
    "uuid_allowed": _uuid_allowed,
    "weights": _weights,
}


@pytest.mark.parametrize("case", loader.params(ROWS, LISTED))
def test_row(case: Case) -> None:
    OPERATIONS[case["when"]["op"]](scheduler_cluster.given(case), case["when"], case["expect"])


@pytest.mark.parametrize("table", [uncovered.SCHEDULER, uncovered.SCHEDULER_BIND])
def test_only_rows_that_exist_are_listed_as_uncovered(table: Mapping[str, str]) -> None:
    assert loader.unknown(scheduler_cluster.FILE, table) == set()


@pytest.mark.parametrize("case", loader.params(loader.rows(scheduler_cluster.FILE), {}))
def test_no_field_of_a_row_is_passed_over(case: Case) -> None:
    assert scheduler_fields.unknown(case) == set()


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param({"when": {"op": "guess"}}, {"when.op guess"}, id="an operation"),
        pytest.param({"note": "x"}, {"note"}, id="beside the parts"),
        pytest.param({"given": {"vaule": ""}}, {"given.vaule"}, id="in what is given"),
        pytest.param({"when": {"op": "decode", "now": 1}}, {"when.now"}, id="in what happens"),
        pytest.param({"expect": {"slots": []}}, {"expect.slots"}, id="in what is expected"),
        pytest.param({"expect": [{"slots": []}]}, {"expect.slots"}, id="in one step of it"),
        pytest.param(
            {"given": {"nodes": {"n": [{"memory": 1}]}}}, {"given.nodes", "card.memory"}, id="card"
        ),
        pytest.param({"given": {"pods": [{"n": 1}]}}, {"given.pods", "pod.n"}, id="in a pod"),
    ],
)
def test_an_unknown_field_is_found(row: Case, want: set[str]) -> None:
    whole = {"id": "x", "topic": "t", "given": {}, "when": {"op": "decode"}, "expect": {}}
    assert scheduler_fields.unknown({**whole, **row}) == want


def test_no_row_is_listed_twice() -> None:
    assert len(LISTED) == len(uncovered.SCHEDULER) + len(uncovered.SCHEDULER_BIND)
