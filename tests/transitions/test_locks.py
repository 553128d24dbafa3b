"""What the watch says about locks: values, holders, who is in the way, what is left behind."""

from __future__ import annotations

import pytest

from hami_operator.protocol import bindphase, keys, nodelock
from tests import builders
from tests.moments import at
from tests.transitions.stage import TO, Stage, gpus, placed, wants

ALLOCATED = "GPU-0,NVIDIA,1000,0:;"
TIME = "2026-03-01T12:00:00Z"
LOCK = f"{TIME},default,a"
MLU_LOCK = "cambricon.com/dsmlu.lock"
BOUND = placed(wants("a"), "n1", ALLOCATED)
HCU = {"hami.io/hcu-devices-allocated": "H,HCU,1,1:;"}
MLU = {"hami.io/cambricon-mlu-devices-allocated": "M,MLU,1,1:;"}
FREE = {"hami.io/mthreads-vgpu-devices-allocated": "T,Mthreads,1,1:;"}
SERVED = BOUND.version(5).annotate({keys.BIND_PHASE: "success", TO: ";;"})


def locked(value: str | None = LOCK, version: int = 1) -> builders.NodeBuilder:
    made = gpus("n1").version(version)
    return made if value is None else made.annotate({keys.NODE_LOCK: value})


def test_facts_of_a_node_that_nobody_knows() -> None:
    facts = Stage().world.lock_facts("n1")
    assert (facts.known, facts.resource_version, facts.values) == (False, "", {})
    assert facts.holder is nodelock.Trace.UNSEEN


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(None, nodelock.Trace.UNSEEN, id="a holder that was never seen"),
        pytest.param(
            wants("a"),
            nodelock.Holder(uid="uid-a", created=wants("a").read().created, phase="Pending"),
            id="not bound yet",
        ),
        pytest.param(
            BOUND,
            nodelock.Holder(
                uid="uid-a",
                created=wants("a").read().created,
                node_name="n1",
                phase="Pending",
                bind_phase=bindphase.Phase.ALLOCATING,
                unserved=True,
            ),
            id="bound, and its plugin has yet to come",
        ),
        pytest.param(
            SERVED,
            nodelock.Holder(
                uid="uid-a",
                created=wants("a").read().created,
                node_name="n1",
                phase="Pending",
                bind_phase=bindphase.Phase.SUCCESS,
            ),
            id="served",
        ),
        pytest.param(
            BOUND.phase("Succeeded"), nodelock.Trace.UNSEEN, id="ended: only a read can tell"
        ),
    ],
)
def test_facts_about_the_holder(
    pod: builders.PodBuilder | None, want: nodelock.Holder | nodelock.Trace
) -> None:
    stage = Stage()
    stage.node(locked())
    if pod is not None:
        stage.pod(pod)
    assert stage.world.lock_facts("n1").holder == want


def test_facts_carry_every_lock_with_the_time_of_our_first_look() -> None:
    stage = Stage()
    own = {MLU_LOCK: TIME}
    stage.node(locked().annotate(own))
    stage.wait(10)
    stage.node(locked(version=2).annotate(own).label("x"))
    facts = stage.world.lock_facts("n1")
    assert facts.resource_version == "2"
    seen = {
        key: (value.text, value.first_seen, value.at_start) for key, value in facts.values.items()
    }
    assert seen == {
        keys.NODE_LOCK: (LOCK, at(0), False),
        "cambricon.com/dsmlu.lock": ("2026-03-01T12:00:00Z", at(0), False),
    }
    stage.node(locked("2026-03-01T12:00:09Z,default,b", version=3))
    facts = stage.world.lock_facts("n1")
    assert facts.values[keys.NODE_LOCK].first_seen == at(10)


def test_a_lock_that_was_there_before_we_looked_may_be_older() -> None:
    stage = Stage(active=False)
    stage.node(locked())
    assert stage.world.lock_facts("n1").values[keys.NODE_LOCK].at_start is True


def test_a_bind_is_known_to_be_under_way_until_it_lands() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    assert not stage.world.is_binding("uid-a")
    order = stage.order()
    assert stage.world.is_binding("uid-a")
    stage.land(order)
    assert not stage.world.is_binding("uid-a")


def test_a_bind_of_an_earlier_pod_is_not_that_of_a_later_one_of_its_name() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    stage.order()
    stage.pod(wants("a").uid("later"))
    assert not stage.world.is_binding("later")


@pytest.mark.parametrize(
    "value", ["lock", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z,,", "a,b"]
)
def test_a_lock_that_names_nobody_has_no_holder(value: str) -> None:
    stage = Stage()
    stage.node(locked(value))
    stage.pod(BOUND)
    assert stage.world.lock_facts("n1").holder is nodelock.Trace.UNSEEN


@pytest.mark.parametrize(
    ("pod", "seconds", "want"),
    [
        pytest.param(BOUND, 0, "default/a", id="bound and unserved"),
        pytest.param(BOUND, 300, "default/a", id="until the lock's time-out"),
        pytest.param(BOUND, 301, "", id="afterwards it is in nobody's way"),
        pytest.param(SERVED, 0, "", id="served"),
        pytest.param(
            BOUND.annotate({keys.BIND_PHASE: "success"}), 0, "default/a", id="served in part"
        ),
        pytest.param(
            SERVED.annotate({"hami.io/hcu-devices-allocated": "H,HCU,1,1:;"}),
            0,
            "default/a",
            id="served by the first of two plugins; the other erases nothing",
        ),
        pytest.param(BOUND.annotate({keys.BIND_PHASE: "failed"}), 0, "", id="refused"),
        pytest.param(BOUND.phase("Running"), 0, "", id="running"),
        pytest.param(BOUND.on("n2"), 0, "", id="bound elsewhere"),
        pytest.param(wants("a"), 0, "", id="not bound"),
    ],
)
def test_who_is_in_the_way_though_the_lock_is_free(
    pod: builders.PodBuilder, seconds: float, want: str
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(pod)
    stage.wait(seconds)
    facts = stage.world.lock_facts("n1")
    assert facts.in_the_way("uid-b", 300, stage.now) == want
    assert facts.in_the_way("uid-a", 300, stage.now) == ""


def other(decision: dict[str, str]) -> builders.PodBuilder:
    """A pod bound here and allocating, with that decision instead of one for NVIDIA."""
    under_way = {keys.VGPU_NODE: "n1", keys.BIND_PHASE: "allocating"}
    return wants("a").version(2).on("n1").annotate(under_way | decision)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(BOUND, True, id="allocating"),
        pytest.param(SERVED, True, id="served, and its image is being pulled"),
        pytest.param(
            SERVED.put("status.startTime", "2026-03-01T12:00:00Z"), True, id="its inits run"
        ),
        pytest.param(SERVED.terminating(), True, id="served, and being deleted"),
        pytest.param(other(FREE), True, id="of a type that needs no lock"),
        pytest.param(SERVED.phase("Running"), False, id="running"),
        pytest.param(SERVED.phase("Succeeded"), False, id="ended"),
        pytest.param(SERVED.annotate({keys.BIND_PHASE: "failed"}), False, id="refused"),
        pytest.param(SERVED.annotate({keys.VGPU_NODE: "n2"}), False, id="decided for elsewhere"),
        pytest.param(SERVED.on("n2"), False, id="bound elsewhere"),
        pytest.param(builders.pod("a").container().on("n1"), False, id="without a decision"),
        pytest.param(wants("a"), False, id="not bound"),
    ],
)
def test_which_pods_a_plugin_may_take_when_it_finds_no_lock(
    pod: builders.PodBuilder, want: bool
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(pod)
    facts = stage.world.lock_facts("n1")
    assert [one.pod.name for one in facts.others("uid-b")] == ["a"] * want
    assert facts.others("uid-a") == ()
    stage.gone("a")
    assert stage.world.lock_facts("n1").open == ()


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(BOUND, "default/a", id="bound and unserved"),
        pytest.param(SERVED, "", id="served"),
        pytest.param(other(HCU), "default/a", id="allocating, of a type that erases nothing"),
        pytest.param(other(FREE), "", id="allocating, of a type that needs no lock"),
        pytest.param(SERVED.annotate(HCU), "default/a", id="served by one of two plugins"),
        pytest.param(
            SERVED.annotate(MLU),
            "default/a",
            id="served by one of two, the other's lock is its own",
        ),
        pytest.param(
            SERVED.annotate(HCU | MLU).put("status.startTime", "2026-03-01T12:00:00Z"),
            "",
            id="kubelet has asked every plugin",
        ),
        pytest.param(BOUND.phase("Running"), "", id="running"),
    ],
)
def test_which_pod_occupies_the_node_whatever_the_locks_say(
    pod: builders.PodBuilder, want: str
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(pod)
    stage.wait(100_000)
    facts = stage.world.lock_facts("n1")
    assert facts.occupant("uid-b") == want
    assert facts.occupant("uid-a") == ""


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(gpus("n1"), False, id="NVIDIA alone"),
        pytest.param(
            gpus("n1").capacity({"enflame.com/gcu": 4}),
            True,
            id="beside it a type that needs no lock",
        ),
    ],
)
def test_whether_pods_may_come_without_any_lock(node: builders.NodeBuilder, want: bool) -> None:
    stage = Stage()
    stage.node(node)
    assert stage.world.lock_facts("n1").has_free_types is want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(SERVED.version(6).phase("Running"), ["n1: lock changed"], id="it runs"),
        pytest.param(
            SERVED.version(6).put("status.startTime", "2026-03-01T12:00:00Z"),
            ["n1: lock changed"],
            id="kubelet has taken it on",
        ),
        pytest.param(SERVED.version(6).phase("Failed"), ["n1: lock changed"], id="it has ended"),
        pytest.param(SERVED.version(6).label("x"), [], id="nothing that counts"),
    ],
)
def test_a_served_pod_that_moves_on_is_told_to_whoever_waits(
    pod: builders.PodBuilder, want: list[str]
) -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    stage.pod(SERVED)
    assert stage.pod(pod) == want


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(locked(None, 2), ["n1: lock changed"], id="the lock is gone"),
        pytest.param(locked(f"{LOCK}b", 2), ["n1: lock changed"], id="another holder"),
        pytest.param(locked(version=2), [], id="a heartbeat"),
    ],
)
def test_a_changed_lock_is_told_to_whoever_waits(
    node: builders.NodeBuilder, want: list[str]
) -> None:
    stage = Stage()
    assert stage.node(locked()) == ["n1: lock changed"]
    assert stage.node(node) == want


def test_a_node_that_vanishes_is_told_to_whoever_waits_for_its_lock() -> None:
    stage = Stage()
    stage.node(gpus("n1"))
    (effect,) = stage.world.node_gone("n1", stage.now)
    assert effect.node == "n1"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(SERVED, ["n1: lock changed"], id="the holder is served"),
        pytest.param(BOUND.version(5).phase("Running"), ["n1: lock changed"], id="it runs"),
        pytest.param(BOUND.version(5).phase("Failed"), ["n1: lock changed"], id="it has ended"),
        pytest.param(BOUND.version(5).label("x"), [], id="nothing that counts"),
    ],
)
def test_a_holder_that_moves_on_is_told_to_whoever_waits(
    pod: builders.PodBuilder, want: list[str]
) -> None:
    stage = Stage()
    stage.node(locked())
    stage.pod(wants("a"))
    assert stage.pod(BOUND)[-1] == "n1: lock changed"
    assert stage.pod(pod) == want


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(SERVED, id="served"),
        pytest.param(BOUND.version(5).phase("Running"), id="running"),
        pytest.param(BOUND.version(5).phase("Failed"), id="ended"),
        pytest.param(BOUND.version(5).annotate({keys.BIND_PHASE: "failed"}), id="refused"),
    ],
)
def test_a_lock_left_behind_is_removed_after_the_plugin_had_its_chance(
    pod: builders.PodBuilder,
) -> None:
    stage = Stage()
    stage.node(locked())
    stage.pod(BOUND)
    assert stage.wait(100) == []
    stage.pod(pod)
    assert stage.wait(4.9) == []
    assert stage.wait(0.1) == [f"n1: stale lock {LOCK}"]
    assert stage.wait(1) == []
    assert stage.wait(4) == [f"n1: stale lock {LOCK}"]
    stage.node(locked(None, 2))
    assert stage.wait(100) == []


def test_a_lock_that_its_holder_needs_again_is_left_alone() -> None:
    stage = Stage()
    stage.pod(SERVED)
    stage.node(locked())
    stage.wait(3)
    stage.pod(BOUND.version(6).annotate({keys.BIND_PHASE: "allocating"}))
    assert stage.wait(3) == []


def test_the_lock_of_a_pod_that_was_never_seen_is_left_to_whoever_needs_it() -> None:
    stage = Stage()
    stage.node(locked())
    stage.gone("a")
    assert stage.wait(1000) == []


def test_a_pod_that_its_plugin_forgot_is_told_once_and_keeps_everything() -> None:
    stage = Stage(node_lock_timeout_s=60.0)
    stage.node(gpus("n1"))
    stage.pod(wants("a"))
    stage.bind()
    assert stage.wait(60) == []
    told = stage.world.tick(at(61))
    (event,) = told
    assert event.reason == "DeviceAllocationStuck"  # type: ignore[union-attr]
    assert event.message == (  # type: ignore[union-attr]
        "bound to node n1 for more than 1m0s, and its device plugin has not handed out GPU-0; "
        "usage and lock stay"
    )
    assert stage.wait(10) == []
    assert [one.pod.name for one in stage.world.stuck(at(61))] == ["a"]
    assert stage.usage("n1") == {"GPU-0": (1, 1000)}
    stage.pod(wants("z").version(2).on("n1"))
    stage.gone("a")
    assert stage.world.stuck(at(61)) == ()


@pytest.mark.parametrize(
    ("bind_time", "want_s"),
    [
        pytest.param("1772366400", 301, id="bound just at the start"),
        pytest.param("1772366200", 101, id="bound two hundred seconds before"),
        pytest.param("1999999999", 301, id="bound in the future: now"),
        pytest.param("soon", 301, id="bound at no time"),
    ],
)
def test_after_a_restart_the_bind_time_on_the_pod_counts(bind_time: str, want_s: float) -> None:
    stage = Stage(active=False)
    stage.node(gpus("n1"))
    stage.pod(BOUND.annotate({keys.BIND_TIME: bind_time}))
    stage.lead()
    assert stage.wait(want_s - 1) == []
    assert stage.wait(1) == ["a: DeviceAllocationStuck"]


def test_a_follower_tells_of_no_lock_and_of_no_wait_and_a_leader_does() -> None:
    stage = Stage(active=False)
    stage.node(locked())
    stage.pod(BOUND, SERVED.version(3).put("metadata.name", "z").uid("z"))
    assert stage.wait(1000) == []
    stage.lead()
    assert stage.wait(1) == ["a: DeviceAllocationStuck"]


# --- locks that an earlier leader took for pods that it never bound ------------------------------


def own_cards(name: str) -> builders.NodeBuilder:
    return gpus(name, word=f"GPU-{name}")


def test_pods_go_where_locks_bear_their_names_so_that_no_two_wait_for_each_other() -> None:
    stage = Stage()
    for name, holder in (("n1", "b"), ("n2", "a"), ("n3", "c")):
        stage.node(own_cards(name).annotate({keys.NODE_LOCK: f"{TIME},default,{holder}"}))
    stage.pod(wants("a"), wants("b"), wants("c"))
    assert stage.bind() == {"a": "n2", "b": "n1", "c": "n3"}


def test_a_pod_that_does_not_fit_where_a_lock_bears_its_name_goes_elsewhere() -> None:
    stage = Stage()
    stage.node(own_cards("n1"))
    stage.node(own_cards("n2").cordoned().annotate({keys.NODE_LOCK: f"{TIME},default,a"}))
    stage.pod(wants("a"))
    assert stage.bind() == {"a": "n1"}
