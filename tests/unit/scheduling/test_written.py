"""The keys that a decision leaves on its pod."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

import pytest

from hami_operator import errors
from hami_operator.devices import registry, vendor
from hami_operator.protocol import bindphase, decision, instant, keys
from hami_operator.scheduling import written
from tests import builders

REGISTRY = registry.default()
NOW = instant.Instant(
    monotonic_s=5.0, wall=datetime.datetime(2024, 1, 12, 10, 19, 56, 7, tzinfo=datetime.UTC)
)
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
PHASE, TIME = keys.BIND_PHASE, keys.BIND_TIME


def pick(card: str, memory_mib: int = 3000, cores: int = 0, index: int = 0) -> decision.Pick:
    return decision.Pick(id=card, memory_mib=memory_mib, cores=cores, index=index)


SLOTS = {"NVIDIA": ((pick("GPU-a"),), (), (pick("GPU-a", 5000),))}
VALUE = "GPU-a,NVIDIA,3000,0:;;GPU-a,NVIDIA,5000,0:;"
CORE = {
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-time": "1705054796",
    "hami.io/bind-phase": "allocating",
    "hami.io/bind-time": "1705054796",
}


def write(
    pod: builders.PodBuilder,
    *,
    slots: Mapping[str, decision.Slots] | None = None,
    node: str = "n1",
    rows: registry.Registry = REGISTRY,
) -> written.Decision | written.Unwritable:
    return written.write(
        pod.read(), node=node, slots=SLOTS if slots is None else slots, registry=rows, now=NOW
    )


def test_a_decision_sets_all_keys_of_its_types_and_no_others() -> None:
    assert write(builders.pod("p")) == written.Decision(
        node="n1",
        annotations={TO_ALLOCATE: VALUE, ALLOCATED: VALUE, **CORE},
        labels={"hami.io/vgpu-node": "n1"},
    )


@pytest.mark.parametrize("left", ["", "allocating", "success", "failed", "else"])
def test_whatever_phase_an_earlier_attempt_has_left_it_begins_anew(left: str) -> None:
    found = write(builders.pod("p").annotate({PHASE: left}))
    assert isinstance(found, written.Decision)
    assert found.annotations[PHASE] == "allocating"


def test_the_phase_of_a_bound_pod_is_never_written() -> None:
    with pytest.raises(bindphase.IllegalMove, match="may not move a bound pod"):
        write(builders.pod("p").on("n1"))


def test_two_types_are_written_each_under_their_own_keys() -> None:
    slots = {"HCU": ((pick("h"),),), "MLU": ((pick("m", 6144, 50, 1),),)}
    result = write(builders.pod("p"), slots=slots)
    assert isinstance(result, written.Decision)
    assert result.annotations == {
        "hami.io/hcu-devices-to-allocate": "h,HCU,3000,0:;",
        "hami.io/hcu-devices-allocated": "h,HCU,3000,0:;",
        "hami.io/cambricon-mlu-devices-to-allocate": "m,MLU,6144,50:;",
        "hami.io/cambricon-mlu-devices-allocated": "m,MLU,6144,50:;",
        "CAMBRICON_DSMLU_ASSIGNED": "false",
        "CAMBRICON_DSMLU_PROFILE": "1_50_24",
        **CORE,
    }


def test_a_pod_without_devices_gets_no_key() -> None:
    assert write(builders.pod("p"), slots={}) == written.Decision(
        node="n1", annotations={}, labels={}
    )


@pytest.mark.parametrize(
    ("slots", "want", "want_labels"),
    [
        pytest.param(
            SLOTS,
            ("hami.io/hcu-devices-allocated", "hami.io/vgpu-mig-allocations"),
            (),
            id="what this decision does not set itself",
        ),
        pytest.param(
            {},
            (
                "hami.io/bind-phase",
                "hami.io/hcu-devices-allocated",
                "hami.io/vgpu-devices-allocated",
                "hami.io/vgpu-mig-allocations",
                "hami.io/vgpu-node",
            ),
            ("hami.io/vgpu-node",),
            id="all of it, where the pod gets no devices",
        ),
    ],
)
def test_keys_of_an_earlier_attempt_are_removed(
    slots: dict[str, decision.Slots], want: tuple[str, ...], want_labels: tuple[str, ...]
) -> None:
    pod = builders.pod("p").annotate(
        {
            "example.com/mine": "kept",
            "hami.io/gpu-scheduler-policy": "binpack",
            "hami.io/vgpu-node": "elsewhere",
            "hami.io/bind-phase": "failed",
            "hami.io/vgpu-devices-allocated": "forged",
            "hami.io/hcu-devices-allocated": ";",
            "hami.io/vgpu-mig-allocations": "[]",
        }
    )
    result = write(pod.label("hami.io/vgpu-node", "elsewhere").label("app", "a"), slots=slots)
    assert isinstance(result, written.Decision)
    assert (result.stale_keys, result.stale_labels) == (want, want_labels)


LONG = "n" * 63


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(LONG, {"hami.io/vgpu-node": LONG}, id="63 characters"),
        pytest.param(LONG + "n", {}, id="64 characters"),
        pytest.param("node-" + "x" * 67, {}, id="72 characters"),
        pytest.param("a.b-c", {"hami.io/vgpu-node": "a.b-c"}, id="dots and hyphens"),
        pytest.param("-a", {}, id="no name that a node can have"),
    ],
)
def test_a_node_name_that_is_no_label_value_stays_an_annotation(
    node: str, want: dict[str, str]
) -> None:
    pod = builders.pod("p").label("hami.io/vgpu-node", "stale")
    result = write(pod, node=node)
    assert isinstance(result, written.Decision)
    assert (result.labels, result.annotations["hami.io/vgpu-node"]) == (want, node)
    assert result.stale_labels == (() if want else ("hami.io/vgpu-node",))


def room(pod: builders.PodBuilder) -> int:
    """Bytes that a value under a key of one byte may have before the total is too large."""
    result = write(pod)
    assert isinstance(result, written.Decision)
    total = sum(len(key) + len(text) for key, text in result.annotations.items())
    return written.MAX_TOTAL_BYTES - total - 1


@pytest.mark.parametrize(
    ("more", "letter", "want_fits"),
    [
        pytest.param(0, "x", True, id="full to the last byte"),
        pytest.param(1, "x", False, id="one byte too many"),
        pytest.param(-room(builders.pod("p")) // 2 - 1, "é", True, id="bytes, not characters"),
        pytest.param(-room(builders.pod("p")) // 2 + 1, "é", False, id="bytes above"),
    ],
)
def test_all_annotations_together_have_a_limit(more: int, letter: str, want_fits: bool) -> None:
    size = room(builders.pod("p")) + more
    result = write(builders.pod("p").annotate({"k": letter * size}))
    if want_fits:
        assert isinstance(result, written.Decision)
    else:
        assert isinstance(result, written.Unwritable)
        assert result.reason is errors.Reason.DECISION_TOO_LARGE
        assert "more than 262144" in result.problem


def test_what_is_removed_makes_room() -> None:
    size = room(builders.pod("p"))
    pod = builders.pod("p").annotate({"k": "x" * size, "hami.io/hcu-devices-allocated": "stale"})
    assert isinstance(write(pod), written.Decision)


def test_what_is_replaced_counts_once() -> None:
    pod = builders.pod("p").annotate({ALLOCATED: "x" * (written.MAX_TOTAL_BYTES - 100)})
    assert isinstance(write(pod), written.Decision)


def test_a_value_that_we_could_not_read_again_is_not_written() -> None:
    many = tuple((pick("x" * 100),) for _ in range(1200))
    result = write(builders.pod("p"), slots={"NVIDIA": many})
    assert isinstance(result, written.Unwritable)
    assert result.problem == f"{TO_ALLOCATE} would hold more than 131072 bytes"


def test_a_key_from_the_configuration_is_checked() -> None:
    row = dataclasses.replace(
        REGISTRY.by_word["NVIDIA"], pod=vendor.PodKeys(allocated="not a key!")
    )
    result = write(builders.pod("p"), rows=registry.build([row]))
    assert result == written.Unwritable(
        reason=errors.Reason.DECISION_TOO_LARGE,
        problem="'not a key!' is not a key that an annotation can have",
    )


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("hami.io/vgpu-node", True),
        ("CAMBRICON_DSMLU_ASSIGNED", True),
        ("a", True),
        ("a/" + "b" * 63, True),
        ("a/" + "b" * 64, False),
        ("a" * 253 + "/b", True),
        ("a" * 254 + "/b", False),
        ("a-.b/c", False),
        ("A/b", False),
        ("/b", False),
        ("a/", False),
        ("a/b/c", False),
        ("-a", False),
        ("a_", False),
        ("ä", False),
        ("", False),
        ("a\n", False),
    ],
)
def test_keys_are_qualified_names(key: str, want: bool) -> None:
    assert written.is_qualified_name(key) is want


def test_an_empty_label_value_is_one() -> None:
    assert written.is_label_value("")
