"""``Allocate``: whom a plugin serves, what it hands out, and what it writes afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.devices import registry, vendor
from hami_operator.protocol import bindphase, decision, keys
from hami_operator.simulator import allocation, catalogue, kubelet, plugin
from tests import builders

ROWS = registry.default()
NVIDIA, MLU, HCU, MT = (ROWS.by_word[word] for word in ("NVIDIA", "MLU", "HCU", "Mthreads"))
NVIDIA_KEY = "hami.io/vgpu-devices-to-allocate"
HCU_KEY = "hami.io/hcu-devices-to-allocate"
MLU_KEY = "hami.io/cambricon-mlu-devices-to-allocate"
LOCKED = "2026-03-01T12:00:00Z,default,p"


def bound(name: str = "p", /, phase: str = "allocating", **annotations: str) -> dict[str, Any]:
    made = builders.pod(name).container("a").on("n1")
    made = made.annotate({keys.VGPU_NODE: "n1", keys.BIND_TIME: "1", keys.BIND_PHASE: phase})
    return made.annotate(annotations).raw()


def node(value: str | None = None, key: str = keys.NODE_LOCK) -> dict[str, Any]:
    made = builders.node("n1")
    return (made if value is None else made.annotate({key: value})).raw()


def ask(
    row: vendor.Vendor,
    pod: Any,
    served: allocation.Served,
    amount: int,
    *,
    family: str = "",
    by: str = "count",
) -> allocation.Granted | allocation.Refused:
    """One call to the plugin of the row's first, or some, product."""
    every = catalogue.MODELS
    model = every[family or next(name for name in every if every[name].word == row.keyword)]
    one = plugin.install(row, catalogue.Equipment(model=model, number=1), "n1")
    call = kubelet.Call(container="a", word=row.keyword, amount=amount, measure=model.asked[by])
    return allocation.allocate(one, ROWS, pod, served, call)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(None, None, id="no lock: nobody is named"),
        pytest.param("2026-03-01T12:00:00Z", None, id="a time alone names nobody"),
        pytest.param("2026-03-01T12:00:00Z,,", None, id="empty names name nobody"),
        pytest.param(LOCKED, ("default", "p"), id="a full lock names its pod"),
        pytest.param(
            "yesterday,default,p",
            allocation.Refused(
                why="hami.io/mutex.lock: time: 'yesterday' is not a time", marks=False
            ),
            id="an unreadable lock fails every allocation and marks nothing",
        ),
    ],
)
def test_who_holds_the_lock(value: str | None, want: object) -> None:
    assert allocation.holder(NVIDIA, node(value)) == want
    assert allocation.holder(HCU, node(value)) == want


@pytest.mark.parametrize("row", [MLU, MT], ids=lambda row: row.keyword)
def test_plugins_without_a_share_in_the_lock_do_not_look_at_it(row: Any) -> None:
    assert not allocation.shares_lock(row)
    assert allocation.holder(row, node(LOCKED)) is None


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(bound(), True, id="allocating"),
        pytest.param(bound(phase="success"), True, id="served by another plugin"),
        pytest.param(bound(phase="failed"), False, id="failed"),
        pytest.param(
            builders.pod("p").container("a").on("n1").raw(), False, id="a pod without a decision"
        ),
        pytest.param(bound(**{keys.VGPU_NODE: "n2"}), False, id="a decision for another node"),
        pytest.param({**bound(), "status": {"phase": "Running"}}, False, id="running already"),
    ],
)
def test_whom_a_plugin_finds_without_a_lock(pod: Any, want: bool) -> None:
    found = allocation.first_waiting("n1", [pod])
    missing = allocation.Refused(why="no binding pod found on node n1", marks=False)
    assert found == (pod if want else missing)


def test_the_first_waiting_pod_is_taken() -> None:
    first, second = bound("a"), bound("b")
    assert allocation.first_waiting("n1", [first, second]) == first


def test_a_plugin_of_its_own_way_takes_the_oldest_that_it_has_not_finished() -> None:
    one = bound("a", **{MLU_KEY: "c,MLU,1,1:;c,MLU,1,1:;"})
    other = bound("b", **{MLU_KEY: "c,MLU,1,1:;"})
    third = bound("c")
    pods = [third, one, other]
    assert allocation.oldest_unserved(MLU, pods, {}) == one
    assert allocation.oldest_unserved(MLU, pods, {("uid-a", "MLU"): 1}) == one
    assert allocation.oldest_unserved(MLU, pods, {("uid-a", "MLU"): 2}) == other
    served = {("uid-a", "MLU"): 2, ("uid-b", "MLU"): 1}
    refused = allocation.Refused(why="no pod waits for MLU", marks=False)
    assert allocation.oldest_unserved(MLU, pods, served) == refused


def pick(id: str, memory_mib: int, cores: int) -> decision.Pick:
    return decision.Pick(id=id, memory_mib=memory_mib, cores=cores)


def test_the_recorded_pod_of_three_containers() -> None:
    pod = bound(**{NVIDIA_KEY: ";GPU-1,NVIDIA,3000,30:;GPU-2,NVIDIA,5000,0:;"})
    first = ask(NVIDIA, pod, {}, 1)
    assert first == allocation.Granted(
        slot=1,
        picks=(pick("GPU-1", 3000, 30),),
        remaining=";;GPU-2,NVIDIA,5000,0:;;",
        finished=False,
    )
    pod["metadata"]["annotations"][NVIDIA_KEY] = first.remaining
    assert ask(NVIDIA, pod, {}, 1) == allocation.Granted(
        slot=2, picks=(pick("GPU-2", 5000, 0),), remaining=";;;;;", finished=True
    )


def test_a_plugin_that_erases_nothing_goes_on_where_it_stopped() -> None:
    pod = bound(**{HCU_KEY: ";H-1,HCU,1,1:;H-2,HCU,2,2:H-3,HCU,2,2:;"})
    assert ask(HCU, pod, {}, 1) == allocation.Granted(
        slot=1, picks=(pick("H-1", 1, 1),), remaining=None, finished=False
    )
    served = {("uid-p", "HCU"): 1}
    assert ask(HCU, pod, served, 2) == allocation.Granted(
        slot=2,
        picks=(pick("H-2", 2, 2), pick("H-3", 2, 2)),
        remaining=None,
        finished=True,
    )


@pytest.mark.parametrize(
    ("annotations", "wanted", "want_why"),
    [
        pytest.param({}, 1, f"{NVIDIA_KEY} is missing", id="its own value is missing"),
        pytest.param(
            {NVIDIA_KEY: "GPU-1,NVIDIA,x,0:;"},
            1,
            f"{NVIDIA_KEY}: memory: 'x' is not a 32-bit number",
            id="its own value cannot be read",
        ),
        pytest.param(
            {NVIDIA_KEY: "GPU-1,NVIDIA,1,0:;", HCU_KEY: "nonsense:;"},
            1,
            f"{HCU_KEY}: fields: slot 0 holds 'nonsense'",
            id="another type's value cannot be read",
        ),
        pytest.param(
            {NVIDIA_KEY: "GPU-1,NVIDIA,1,0:;"},
            2,
            "device number not matched: 1 decided, 2 asked for",
            id="fewer cards than kubelet asks for",
        ),
        pytest.param(
            {NVIDIA_KEY: ";;"},
            1,
            f"no pending device allocation found in {NVIDIA_KEY}",
            id="nothing left",
        ),
    ],
)
def test_refusals_fail_the_pod(annotations: dict[str, str], wanted: int, want_why: str) -> None:
    answer = ask(NVIDIA, bound(**annotations), {}, wanted)
    assert answer == allocation.Refused(why=want_why, marks=True)


def test_a_value_without_its_last_separator_is_served_too() -> None:
    answer = ask(NVIDIA, bound(**{NVIDIA_KEY: "GPU-1,NVIDIA,1,0:"}), {}, 1)
    assert answer == allocation.Granted(
        slot=0, picks=(pick("GPU-1", 1, 0),), remaining=";;", finished=True
    )


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
)
def test_every_container_gets_its_own_segment_and_no_other(counts: list[int]) -> None:
    slots = tuple(
        tuple(pick(f"GPU-{slot}-{place}", slot + 1, 0) for place in range(count))
        for slot, count in enumerate(counts)
    )
    pod = bound(**{NVIDIA_KEY: decision.encode(slots, "NVIDIA")})
    rounds = 0
    for slot in filter(None, slots):
        answer = ask(NVIDIA, pod, {}, len(slot))
        assert isinstance(answer, allocation.Granted)
        assert answer.picks == slot
        rounds += 1
        pod["metadata"]["annotations"][NVIDIA_KEY] = answer.remaining
        assert answer.finished == (rounds == sum(map(bool, slots)))
    assert pod["metadata"]["annotations"][NVIDIA_KEY] == ";" * (len(slots) + rounds)


@pytest.mark.parametrize(
    ("word", "by", "amount", "value", "fits"),
    [
        pytest.param("Enflame", "count", 3, "c,Enflame,20480,50:;", True, id="three sixths"),
        pytest.param("Enflame", "count", 1, "c,Enflame,6144,17:;", True, id="one, rounded up"),
        pytest.param("Enflame", "count", 2, "c,Enflame,6144,17:;", False, id="a slice too few"),
        pytest.param("Enflame", "memory", 10, "c,Enflame,20480,50:;", True, id="GB tell nothing"),
        pytest.param("AWSNeuron", "count", 2, "a,AWSNeuron,0,3:b,AWSNeuron,0,3:;", True, id="two"),
        pytest.param(
            "AWSNeuron", "count", 1, "a,AWSNeuron,0,3:b,AWSNeuron,0,3:;", False, id="one"
        ),
        pytest.param(
            "AWSNeuron", "cores", 4, "a,AWSNeuron,0,3:b,AWSNeuron,0,3:;", True, id="bits"
        ),
        pytest.param("AWSNeuron", "cores", 1, "a,AWSNeuron,0,2:;", True, id="the second core"),
        pytest.param("AWSNeuron", "cores", 2, "a,AWSNeuron,0,2:;", False, id="a core too few"),
    ],
)
def test_a_pick_is_measured_in_what_was_asked_for(
    word: str, by: str, amount: int, value: str, fits: bool
) -> None:
    row = ROWS.by_word[word]
    answer = ask(row, bound(**{row.pod.allocated: value}), {}, amount, by=by)
    assert isinstance(answer, allocation.Granted) is fits


def reserved(container: int, device: int, card: str, start: int, **made: object) -> dict[str, Any]:
    return {
        "containerIndex": container,
        "deviceIndex": device,
        "gpuUUID": card,
        "profile": "1g.5gb",
        "placement": {"start": start, "size": 1},
        **made,
    }


MIG_KEY = "hami.io/vgpu-mig-allocations"
MIG_VALUE = "G,NVIDIA,5120,14:;;G,NVIDIA,5120,14:H,NVIDIA,5120,14:;"


def partitioned(value: str, listed: list[Any] | str) -> dict[str, Any]:
    text = listed if isinstance(listed, str) else json.dumps(listed)
    return bound(**{NVIDIA_KEY: value, MIG_KEY: text})


def test_instances_are_made_container_by_container_as_they_were_reserved() -> None:
    listed = [reserved(0, 0, "G", 6), reserved(2, 1, "H", 0), reserved(2, 0, "G", 5)]
    pod = partitioned(MIG_VALUE, listed)
    first = ask(NVIDIA, pod, {}, 1, family="nvidia-mig")
    assert isinstance(first, allocation.Granted)
    assert first.made is not None
    made, *rest = json.loads(first.made)
    assert made.pop("migUUID").startswith("MIG-")
    assert made == reserved(0, 0, "G", 6, gpuInstanceID=6, computeInstanceID=0)
    assert rest == listed[1:]

    pod["metadata"]["annotations"] |= {NVIDIA_KEY: first.remaining, MIG_KEY: first.made}
    second = ask(NVIDIA, pod, {}, 2, family="nvidia-mig")
    assert isinstance(second, allocation.Granted)
    assert second.finished
    every = json.loads(second.made or "")
    assert len({one["migUUID"] for one in every}) == 3
    assert [one["gpuInstanceID"] for one in every] == [6, 0, 5]


@pytest.mark.parametrize(
    ("listed", "want_why"),
    [
        pytest.param(
            [],
            f"{MIG_KEY}: reserves nothing for container 0, decided is G",
            id="nothing is reserved",
        ),
        pytest.param(
            [reserved(0, 0, "H", 0)],
            f"{MIG_KEY}: reserves H for container 0, decided is G",
            id="another card",
        ),
        pytest.param(
            [reserved(1, 0, "G", 0)],
            f"{MIG_KEY}: reserves nothing for container 0, decided is G",
            id="another container",
        ),
        pytest.param(
            [reserved(0, 0, "G", 0), reserved(0, 1, "G", 1)],
            f"{MIG_KEY}: reserves G, G for container 0, decided is G",
            id="one instance too many",
        ),
        pytest.param("{", f"{MIG_KEY}: json: is not JSON", id="not JSON"),
    ],
)
def test_a_list_that_is_not_that_of_the_decision_fails_the_pod(
    listed: list[Any] | str, want_why: str
) -> None:
    pod = partitioned(MIG_VALUE, listed)
    assert ask(NVIDIA, pod, {}, 1, family="nvidia-mig") == allocation.Refused(why=want_why)


def test_a_flag_inside_json_turns_too() -> None:
    row = ROWS.by_word["Enflame"]
    value = '{"a":{"allocated":false,"request":1},"b":{"allocated":false,"request":2}}'
    given = {"assigned-containers": value, "enflame.com/gcu-assigned": "false"}
    pod = bound(**given, **{"enflame.com/gcu-request-size": "1", "other": "false"})
    assert allocation.marks(row, pod, bindphase.Phase.SUCCESS) == {
        keys.BIND_PHASE: "success",
        "assigned-containers": value.replace("false", "true"),
        "enflame.com/gcu-assigned": "true",
    }


def test_marks_of_a_good_end_turn_a_plugins_own_flag() -> None:
    pod = bound(**{"CAMBRICON_DSMLU_ASSIGNED": "false", "CAMBRICON_DSMLU_PROFILE": "0_1_1"})
    success, failed = bindphase.Phase.SUCCESS, bindphase.Phase.FAILED
    assert allocation.marks(MLU, pod, success) == {
        keys.BIND_PHASE: "success", "CAMBRICON_DSMLU_ASSIGNED": "true",
    }  # fmt: skip
    assert allocation.marks(MLU, pod, failed) == {keys.BIND_PHASE: "failed"}
    assert allocation.marks(NVIDIA, pod, success) == {keys.BIND_PHASE: "success"}


@pytest.mark.parametrize(
    ("row", "found", "want"),
    [
        pytest.param(NVIDIA, node(), None, id="no lock"),
        pytest.param(NVIDIA, node(LOCKED), keys.NODE_LOCK, id="the pod's own"),
        pytest.param(NVIDIA, node(LOCKED + "x"), None, id="another pod's"),
        pytest.param(NVIDIA, node("2026-03-01T12:00:00Z"), None, id="nobody's"),
        pytest.param(MT, node(LOCKED), None, id="a row without lock"),
        pytest.param(
            MLU, node("2026-03-01T12:00:00Z", MLU.lock), MLU.lock, id="a lock that names nobody"
        ),
        pytest.param(MLU, node(LOCKED), None, id="not that of other rows"),
    ],
)
def test_which_lock_is_released(row: Any, found: Any, want: str | None) -> None:
    assert allocation.releasable(row, found, bound()) == want
