"""Containers of a pod on partitioned cards: all of them one after the other, inits included."""

from __future__ import annotations

import json

import pytest

from hami_operator.devices import registry, usage
from hami_operator.protocol import decision, register
from hami_operator.scheduling import cycle, demand, ledger, nodes, rules, snapshot
from hami_operator.settings import Settings
from tests import builders, moments

REGISTRY = registry.default()
RULES = rules.Rules.of(REGISTRY, Settings())
LIST = "hami.io/vgpu-mig-allocations"


def profile(name: str, memory_mib: int, *starts: int, size: int) -> register.Profile:
    return register.Profile(
        name=name,
        memory_mib=memory_mib,
        cores=14 * size,
        slices=size,
        placements=tuple(register.Placement(start=start, size=size) for start in starts),
    )


PARTS = (profile("1g.5gb", 5120, *range(7), size=1), profile("2g.10gb", 10240, 0, 2, 4, size=2))
MIG = register.Card(
    id="GPU-m", count=7, memory_mib=40960, cores=100, mode="mig", mig_profiles=PARTS
)
SHARED = register.Card(id="GPU-s", index=1, count=10, memory_mib=40960, cores=100)


def limits(memory_mib: int, count: int = 1) -> dict[str, int]:
    return {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory_mib}


def run(pod: builders.PodBuilder, *cards: register.Card) -> cycle.Placed | cycle.Unplaced:
    known = nodes.Nodes(REGISTRY, 300)
    node = builders.roomy("n1").register("NVIDIA", cards, form=register.Form.JSON)
    known.seen(node.read(), moments.at(0), at_start=True)
    sight = snapshot.Snapshot(known, ledger.Ledger(REGISTRY))
    read = pod.read()
    asked = demand.read(read, REGISTRY)
    return cycle.run(read, asked, sight, rules=RULES, now=moments.at(1))


def places(outcome: cycle.Placed | cycle.Unplaced) -> list[tuple[int, str, int]]:
    assert isinstance(outcome, cycle.Placed), outcome.message
    listed = json.loads(outcome.decision.annotations[LIST])
    return [(one["containerIndex"], one["profile"], one["placement"]["start"]) for one in listed]


POD = builders.pod("p")


def test_an_init_container_keeps_its_instance_beside_the_others() -> None:
    pod = POD.init(limits=limits(5000)).init(limits=limits(10000)).sidecar(limits=limits(5000))
    pod = pod.container(limits=limits(5000)).container()
    assert places(run(pod, MIG)) == [
        (0, "1g.5gb", 5),
        (1, "2g.10gb", 0),
        (2, "1g.5gb", 6),
        (3, "1g.5gb", 4),
    ]


def test_a_pod_needs_places_for_all_its_containers_at_once() -> None:
    pod = POD.init(limits=limits(10000, 2)).container(limits=limits(10000))
    assert len(places(run(pod, MIG))) == 3
    outcome = run(pod.container(limits=limits(10000)), MIG)
    assert isinstance(outcome, cycle.Unplaced)
    assert outcome.rejections["n1"].detail == "1/1 CardMigTopologyInfeasible"


def test_on_a_shared_card_an_init_container_still_gives_back_what_it_had() -> None:
    pod = POD.annotate({"nvidia.com/vgpu-mode": "hami-core"})
    pod = pod.init(limits=limits(40960)).container(limits=limits(40960))
    outcome = run(pod, MIG, SHARED)
    assert isinstance(outcome, cycle.Placed)
    assert [[pick.id for pick in slot] for slot in outcome.slots["NVIDIA"]] == [["GPU-s"]] * 2
    assert LIST not in outcome.decision.annotations


@pytest.mark.parametrize("stale", ["", "[{"])
def test_a_list_of_an_earlier_attempt_is_removed_or_replaced(stale: str) -> None:
    old = POD.annotate({LIST: stale})
    replaced = run(old.container(limits=limits(5000)), MIG)
    removed = run(old.container(limits=limits(5000)), SHARED)
    assert places(replaced) == [(0, "1g.5gb", 6)]
    assert isinstance(removed, cycle.Placed)
    assert removed.decision.stale_keys == (LIST,)


def test_usage_of_a_placed_pod_is_the_same_for_the_next_one() -> None:
    """What the fit has charged is what the ledger counts."""
    outcome = run(POD.container(limits=limits(5000, 3)), MIG)
    assert isinstance(outcome, cycle.Placed)
    books = ledger.Ledger(REGISTRY)
    books.assume(POD.container().read(), "n1", outcome.slots)
    (one,) = books.standing("n1", "NVIDIA", [MIG])
    want = tuple(register.Placement(start=start, size=1) for start in (6, 5, 4))
    assert one == usage.CardUsage(MIG, usage.Usage(3, 15360, 42, one.usage.pods, want))
    assert isinstance(outcome.slots["NVIDIA"][0][0], decision.Pick)


def test_a_choice_that_did_not_see_everything_is_a_warning() -> None:
    pair_scores = json.dumps([{"uuid": "00", "score": {"01": 5}}])
    many = [
        register.Card(id=f"{number:02}", index=number, count=1, memory_mib=1000, cores=100)
        for number in range(30)
    ]
    known = nodes.Nodes(REGISTRY, 300)
    node = builders.roomy("n1").register("NVIDIA", many, form=register.Form.JSON)
    node = node.annotate({"hami.io/node-nvidia-score": pair_scores})
    known.seen(node.read(), moments.at(0), at_start=True)
    pod = POD.annotate({"hami.io/gpu-scheduler-policy": "topology-aware"})
    read = pod.container(limits=limits(1000, 8)).read()
    sight = snapshot.Snapshot(known, ledger.Ledger(REGISTRY))
    outcome = cycle.run(read, demand.read(read, REGISTRY), sight, rules=RULES, now=moments.at(1))
    assert isinstance(outcome, cycle.Placed)
    assert outcome.warnings == (
        "topology-aware: only the first 200000 sets of cards were compared",
    )
