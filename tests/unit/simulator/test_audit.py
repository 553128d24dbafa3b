"""The independent check: it must find what is wrong, and agree with the ledger on what is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import registry
from hami_operator.protocol import decision, register
from hami_operator.scheduling import ledger
from hami_operator.scheduling import pod as pods
from hami_operator.simulator import audit, catalogue
from tests import builders

KEY = "hami.io/vgpu-devices-allocated"
GPU = "nvidia.com/gpu"
ROWS = registry.default()


def cards(*ids: str) -> list[register.Card]:
    return [
        register.Card(id=id, index=index, count=3, memory_mib=10000, cores=100)
        for index, id in enumerate(ids)
    ]


def node(name: str = "n1", form: register.Form = register.Form.JSON) -> dict[str, Any]:
    made = builders.node(name)
    return made.register("nvidia", cards("GPU-0", "GPU-1"), form=form, handshake=None).raw()


def pod(name: str = "p", *segments: str, on: str = "n1", **annotations: str) -> dict[str, Any]:
    made = builders.pod(name)
    for segment in segments:
        made = made.container(limits={GPU: segment.count(":")} if segment else {"cpu": "1"})
    value = "".join(f"{segment};" for segment in segments)
    return made.on(on).annotate({KEY: value, "hami.io/vgpu-node": on, **annotations}).raw()


def give(card: str, memory_mib: int = 1000, cores: int = 10) -> str:
    return f"{card},NVIDIA,{memory_mib},{cores}:"


@pytest.mark.parametrize("form", [register.Form.JSON, register.Form.TEXT])
def test_cards_of_a_register(form: register.Form) -> None:
    assert dict(audit.cards(node(form=form))) == {
        "GPU-0": (3, 10000, 100),
        "GPU-1": (3, 10000, 100),
    }


def test_cards_of_capacity() -> None:
    capacity = {
        "cambricon.com/mlu.smlu.vcore": "200",
        "cambricon.com/mlu.smlu.vmemory": "192",
        "mthreads.com/sgpu-core": "16",
        "mthreads.com/sgpu-memory": "96",
    }
    assert dict(audit.cards(builders.node("n").capacity(capacity).raw())) == {
        "n-cambricon-mlu-0": (100, 24576, 100),
        "n-cambricon-mlu-1": (100, 24576, 100),
        "n-mthreads-0": (100, 49152, 16),
    }


def test_a_register_replaces_the_capacity_of_its_type() -> None:
    capacity = {"cambricon.com/mlu.smlu.vcore": "100", "cambricon.com/mlu.smlu.vmemory": "96"}
    made = builders.node("n").capacity(capacity)
    made = made.register("mlu", cards("MLU-0"))
    assert dict(audit.cards(made.raw())) == {"MLU-0": (3, 10000, 100)}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param([pod("p", give("GPU-0", 10000, 100))], [], id="a whole card is no sin"),
        pytest.param(
            [pod("p", give("GPU-0", 10001))],
            ["n1 GPU-0: 10001 of 10000 MiB given to default/p"],
            id="a MiB too many",
        ),
        pytest.param(
            [pod("p", give("GPU-0", 1, 60)), pod("q", give("GPU-0", 1, 41))],
            ["n1 GPU-0: 101 of 100 cores given to default/p, default/q"],
            id="cores of two pods",
        ),
        pytest.param(
            [pod(name, give("GPU-1", 1, 1)) for name in "abcd"],
            [f"n1 GPU-1: 4 of 3 slots given to {', '.join(f'default/{n}' for n in 'abcd')}"],
            id="a slot too many",
        ),
        pytest.param(
            [pod("p", give("GPU-9", 1, 0))],
            [
                "n1 GPU-9: 1 of 0 slots given to default/p",
                "n1 GPU-9: 1 of 0 MiB given to default/p",
            ],
            id="a card that nobody registered",
        ),
        pytest.param(
            [{**pod("p", give("GPU-0", 99999)), "status": {"phase": "Succeeded"}}],
            [],
            id="a pod that has ended takes nothing",
        ),
        pytest.param(
            [pod("p", give("GPU-0"), **{"hami.io/vgpu-node": "n2"})],
            ["default/p: is on n1, decided for n2"],
            id="decided for another node",
        ),
        pytest.param(
            [builders.pod("p").container(limits={GPU: 1}).on("n1").raw()],
            [f"default/p: {KEY} gives [] cards to containers that ask for [1]"],
            id="bound without a decision",
        ),
        pytest.param(
            [builders.pod("p").container(limits={GPU: 1}).raw()], [], id="not bound at all"
        ),
        pytest.param(
            [builders.pod("p").container(limits={"cpu": 1}).on("n1").raw()],
            [],
            id="bound, and asks for no card",
        ),
        pytest.param(
            [
                builders.pod("p")
                .container()
                .container(limits={GPU: 1})
                .on("n1")
                .annotate({KEY: give("GPU-0") + ";;", "hami.io/vgpu-node": "n1"})
                .raw()
            ],
            [f"default/p: {KEY} gives [1, 0] cards to containers that ask for [0, 1]"],
            id="cards in another container's slot",
        ),
    ],
)
def test_findings(found: list[Any], want: list[str]) -> None:
    assert list(audit.findings([node()], found)) == want


def with_inits(*, ended: bool = False) -> dict[str, Any]:
    made = (
        builders.pod("p")
        .sidecar("s", limits={GPU: 1})
        .init("i", limits={GPU: 1})
        .init("j", limits={GPU: 1})
        .container("a", limits={GPU: 1})
        .on("n1")
    )
    slots = (give("c", 1000, 10), give("c", 4000, 20), give("c", 100, 40), give("c", 2000, 15))
    made = made.annotate({KEY: "".join(f"{slot};" for slot in slots)})
    return (made.init_ended("i").init_ended("j") if ended else made.init_ended("i")).raw()


def test_inits_count_one_by_one_beside_sidecars() -> None:
    assert audit.peak(with_inits()) == {"c": (2, 5000, 50)}


def test_inits_that_have_ended_count_no_more() -> None:
    assert audit.peak(with_inits(ended=True)) == {"c": (2, 3000, 25)}


slot = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(1, 500), st.integers(0, 50)), max_size=3
)


@given(
    st.lists(slot, max_size=2), st.lists(slot, max_size=2), st.lists(slot, min_size=1, max_size=3)
)
def test_the_check_counts_as_the_ledger_does(inits: Any, sidecars: Any, apps: Any) -> None:
    made = builders.pod("p").on("n1")
    for _ in inits:
        made = made.init(limits={GPU: 1})
    for _ in sidecars:
        made = made.sidecar(limits={GPU: 1})
    for _ in apps:
        made = made.container(limits={GPU: 1})
    picks = tuple(
        tuple(decision.Pick(id=id, memory_mib=memory, cores=cores) for id, memory, cores in one)
        for one in (*inits, *sidecars, *apps)
    )
    made = made.annotate({KEY: decision.encode(picks, "NVIDIA"), "hami.io/vgpu-node": "n1"})
    books = ledger.Ledger(ROWS)
    books.observe(pods.read(made.raw()), ours=True)
    assert audit.peak(made.raw()) == {
        card: (used.used, used.memory_mib, used.cores)
        for card, used in books.card_usage("n1", "NVIDIA").items()
    }


def test_traces_are_finalizers_and_keys_that_nobody_ordered() -> None:
    dirty = builders.pod("p").annotate({"kopf.zalando.org/last": "x", "mine": "y"})
    dirty = dirty.append("metadata.finalizers", "kopf.zalando.org/finalizer")
    assert list(audit.traces([dirty.raw(), node()], {"mine", "hami.io/node-nvidia-register"})) == [
        "default/p: finalizer kopf.zalando.org/finalizer",
        "default/p: annotation kopf.zalando.org/last",
    ]


def test_locks_that_are_left() -> None:
    locked = builders.node("n2").annotate({"cambricon.com/dsmlu.lock": "t"}).raw()
    assert list(audit.locks([node(), locked])) == ["n2: cambricon.com/dsmlu.lock is still t"]


def test_phases_tell_bound_from_pending() -> None:
    found = [pod("a", ""), builders.pod("b").raw(), builders.pod("c").phase("Running").raw()]
    assert audit.phases(found) == {"Bound": 1, "Pending": 1, "Running": 1}


def test_the_keys_written_out_here_are_those_of_the_rows() -> None:
    words = {model.word for model in catalogue.MODELS.values()}
    simulated = [row for row in ROWS if row.keyword in words]
    assert {row.pod.allocated: row.resources.count for row in simulated} == audit.COUNTED_BY
