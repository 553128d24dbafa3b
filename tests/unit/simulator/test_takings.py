"""What pods take, as the independent check counts it; it must agree with the ledger."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import registry
from hami_operator.protocol import decision
from hami_operator.scheduling import ledger
from hami_operator.scheduling import pod as pods
from hami_operator.simulator import takings
from tests import builders

KEY = "hami.io/vgpu-devices-allocated"
GPU = "nvidia.com/gpu"
ROWS = registry.default()


def give(card: str, memory_mib: int = 1000, cores: int = 10) -> str:
    return f"{card},NVIDIA,{memory_mib},{cores}:"


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
    assert takings.peak(with_inits()) == {"c": (2, 5000, 50)}


def test_inits_that_have_ended_count_no_more() -> None:
    assert takings.peak(with_inits(ended=True)) == {"c": (2, 3000, 25)}


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
    assert takings.peak(made.raw()) == {
        card: (used.used, used.memory_mib, used.cores)
        for card, used in books.card_usage("n1", "NVIDIA").items()
    }


def test_instances_of_an_init_container_stay_beside_those_of_the_app() -> None:
    listed = (
        '[{"gpuUUID":"G","placement":{"start":0,"size":2}},'
        '{"gpuUUID":"G","placement":{"start":1,"size":2}}]'
    )
    made = builders.pod("p").init().container().on("n1")
    made = made.annotate({"hami.io/vgpu-mig-allocations": listed})
    assert takings.peak(made.raw()) == {
        "G slice 0": (1, 0, 0),
        "G slice 1": (2, 0, 0),
        "G slice 2": (1, 0, 0),
    }


def test_the_keys_written_out_here_are_those_of_the_rows() -> None:
    assert {row.pod.allocated: row.resources.count for row in ROWS} == takings.COUNTED_BY
