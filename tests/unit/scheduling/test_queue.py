"""The queue: who is tried next, who rests, who is woken by what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

from hami_operator.scheduling import heap, queue
from hami_operator.scheduling import pod as pods
from tests import builders
from tests.moments import at

Place = queue.Place
KEY = "hami.io/vgpu-node"


def waiting(*, helps: Callable[[str, queue.Item], bool] | None = None) -> queue.Queue[str]:
    """A queue whose events are names of filters: an event helps whom that filter rejected."""
    return queue.Queue(
        helps=helps or (lambda event, item: event in item.plugins),
        ignored_keys=frozenset({KEY}),
    )


def pod(name: str, priority: int = 0) -> pods.Pod:
    return builders.pod(name).priority(priority).read()


def popped(line: queue.Queue[str], seconds: float) -> str | None:
    item = line.pop(at(seconds))
    return None if item is None else item.pod.name


def parked(line: queue.Queue[str], name: str, seconds: float, *plugins: str) -> None:
    """Let the pod be tried and rejected by these filters."""
    assert popped(line, seconds) == name
    line.park(f"uid-{name}", frozenset(plugins), at(seconds))


def place(line: queue.Queue[str], name: str) -> Place | None:
    item = line.get(f"uid-{name}")
    return None if item is None else item.place


def test_the_higher_priority_goes_first_then_who_waited_longer() -> None:
    line = waiting()
    for seconds, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 5), ("d", -1)]):
        line.add(pod(name, priority), at(seconds))
    assert [popped(line, 10) for _ in range(5)] == ["b", "c", "a", "d", None]


def test_pods_of_the_same_moment_keep_their_order() -> None:
    line = waiting()
    for name in "zyx":
        line.add(pod(name), at(0))
    assert [popped(line, 0) for _ in range(3)] == ["z", "y", "x"]


def test_a_rejected_pod_is_woken_only_by_an_event_that_may_help() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    parked(line, "a", 0, "Devices", "NodeAffinity")
    assert line.wake("TaintToleration", at(5)) == 0
    assert popped(line, 5) is None
    assert line.wake("Devices", at(6)) == 1
    assert popped(line, 6) == "a"


def test_a_woken_pod_goes_behind_who_is_active() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    parked(line, "a", 0, "Devices")
    line.add(pod("b"), at(4))
    line.wake("Devices", at(5))
    assert [popped(line, 5), popped(line, 5)] == ["b", "a"]


@pytest.mark.parametrize(
    ("failures", "want_s"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (40, 10)],
)
def test_rests_double_up_to_ten_seconds(failures: int, want_s: float) -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    seconds = 0.0
    for _ in range(failures):
        seconds += 20
        assert popped(line, seconds) == "a"
        line.backoff("uid-a", at(seconds))
    assert line.next_due(at(seconds)) == want_s
    assert popped(line, seconds + want_s - 0.01) is None
    assert popped(line, seconds + want_s) == "a"


def test_the_first_attempt_needs_no_rest() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    assert line.next_due(at(0)) == 0
    assert popped(line, 0) == "a"


def test_a_pod_woken_while_it_rests_is_tried_at_once_if_nobody_else_waits() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    parked(line, "a", 0, "Devices")
    line.wake("Devices", at(0.1))
    assert place(line, "a") is Place.BACKOFF
    assert line.next_due(at(0.1)) == 0
    assert popped(line, 0.1) == "a"


def test_a_rest_after_an_error_is_never_cut_short() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    assert popped(line, 0) == "a"
    line.assumed("uid-a", at(0))
    line.backoff("uid-a", at(3))
    assert line.wake("Devices", at(3.5)) == 0
    assert popped(line, 3.9) is None
    assert popped(line, 4) == "a"


def test_a_rejection_after_errors_counts_rejections_again() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    for seconds in (0, 20, 40):
        assert popped(line, seconds) == "a"
        line.backoff("uid-a", at(seconds))
    parked(line, "a", 60, "Devices")
    line.wake("Devices", at(60.5))
    item = line.get("uid-a")
    assert item is not None
    assert (item.errors, item.failures, item.rests_until_s) == (0, 1, at(61).monotonic_s)


def test_rests_that_are_over_end_by_themselves_in_the_order_of_priority() -> None:
    line = waiting()
    for name, priority in (("a", 0), ("b", 9)):
        line.add(pod(name, priority), at(0))
    for name in ("b", "a"):
        parked(line, name, 0, "Devices")
    line.wake("Devices", at(0.5))
    line.flush(at(2))
    assert [place(line, "a"), place(line, "b")] == [Place.ACTIVE, Place.ACTIVE]
    assert [popped(line, 2), popped(line, 2)] == ["b", "a"]


def test_the_net_catches_what_no_event_woke_after_five_minutes() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    parked(line, "a", 0, "Devices")
    assert line.next_due(at(0)) == 300
    line.flush(at(299.9))
    assert popped(line, 299.9) is None
    line.flush(at(300))
    assert popped(line, 300) == "a"
    assert line.next_due(at(300)) is None


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param([], Place.UNSCHEDULABLE, id="nothing came"),
        pytest.param(["TaintToleration"], Place.UNSCHEDULABLE, id="nothing that may help"),
        pytest.param(["TaintToleration", "Devices"], Place.BACKOFF, id="something that may help"),
    ],
)
def test_events_of_the_flight_are_looked_at_when_it_ends(events: list[str], want: Place) -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    line.add(pod("b"), at(0))
    line.wake("Devices", at(0))  # before the flight, so it says nothing about it
    assert popped(line, 1) == "a"
    for event in events:
        line.wake(event, at(1))
    assert popped(line, 1) == "b"
    line.park("uid-a", frozenset({"Devices"}), at(1))
    line.park("uid-b", frozenset({"Devices"}), at(1))
    assert place(line, "a") is want
    assert place(line, "b") is Place.UNSCHEDULABLE


def test_a_gated_pod_is_parked_until_its_gates_are_gone() -> None:
    line = waiting(helps=lambda event, item: True)
    line.add(builders.pod("a").gate("x").read(), at(0))
    assert line.counts()[Place.GATED] == 1
    line.wake("anything", at(1))
    line.flush(at(1000))
    assert popped(line, 1000) is None
    line.update(builders.pod("a").gate("y").read(), at(1001))
    assert popped(line, 1001) is None
    line.update(pod("a"), at(1002))
    assert popped(line, 1002) == "a"


@pytest.mark.parametrize("end", ["park", "backoff"])
def test_a_pod_that_got_gates_during_its_flight_is_gated_afterwards(end: str) -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    assert popped(line, 0) == "a"
    line.update(builders.pod("a").gate("x").read(), at(0))
    if end == "park":
        line.park("uid-a", frozenset(), at(0))
    else:
        line.backoff("uid-a", at(0))
    assert place(line, "a") is Place.GATED


BASE = builders.pod("a").annotate({"nvidia.com/use-gputype": "A10"}).label("l", "1")


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        pytest.param(BASE.version(9), False, id="the version alone"),
        pytest.param(BASE.condition("PodScheduled", "False"), False, id="a condition"),
        pytest.param(BASE.annotate({KEY: "n1"}), False, id="an annotation that we write"),
        pytest.param(BASE.label("l", "2"), True, id="a label"),
        pytest.param(BASE.annotate({"nvidia.com/use-gputype": "T4"}), True, id="a user's wish"),
        pytest.param(BASE.toleration("k", operator="Exists"), True, id="a toleration"),
        pytest.param(BASE.node_selector({"a": "b"}), True, id="a node selector"),
        pytest.param(BASE.container(requests={"cpu": "1"}), True, id="requests"),
    ],
)
def test_which_updates_of_a_parked_pod_count(changed: builders.PodBuilder, want: bool) -> None:
    line = waiting()
    line.add(BASE.read(), at(0))
    parked(line, "a", 0, "Devices")
    line.update(changed.read(), at(5))
    assert place(line, "a") is (Place.ACTIVE if want else Place.UNSCHEDULABLE)
    item = line.get("uid-a")
    assert item is not None
    assert item.pod == changed.read()


def test_a_changed_priority_counts_at_once() -> None:
    line = waiting()
    line.add(pod("a", 1), at(0))
    line.add(pod("b", 0), at(1))
    line.update(pod("b", 5), at(2))
    line.update(pod("a", 3), at(2))
    assert [popped(line, 3), popped(line, 3), popped(line, 3)] == ["b", "a", None]


def test_an_update_during_the_flight_sends_the_pod_to_rest_instead_of_parking_it() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    assert popped(line, 0) == "a"
    line.update(builders.pod("a").label("new").read(), at(0))
    line.park("uid-a", frozenset({"Devices"}), at(0))
    assert place(line, "a") is Place.BACKOFF
    parked(line, "a", 5, "Devices")
    assert place(line, "a") is Place.UNSCHEDULABLE


def test_an_update_while_it_is_bound_moves_nothing() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    assert popped(line, 0) == "a"
    line.assumed("uid-a", at(0))
    line.add(builders.pod("a").label("new").read(), at(1))
    assert place(line, "a") is Place.BINDING
    assert line.next_due(at(1)) is None


@pytest.mark.parametrize("where", ["active", "parked", "resting", "flying", "binding", "gated"])
def test_a_pod_can_be_removed_from_anywhere_and_stays_away(where: str) -> None:
    line = waiting()
    line.add(builders.pod("a").gate("x").read() if where == "gated" else pod("a"), at(0))
    if where not in ("active", "gated"):
        assert popped(line, 0) == "a"
    if where == "parked":
        line.park("uid-a", frozenset({"Devices"}), at(0))
    if where == "resting":
        line.backoff("uid-a", at(0))
    if where == "binding":
        line.assumed("uid-a", at(0))
    line.remove("uid-a")
    line.remove("uid-a")
    line.park("uid-a", frozenset(), at(1))
    line.backoff("uid-a", at(1))
    line.assumed("uid-a", at(1))
    line.wake("Devices", at(1))
    line.flush(at(1000))
    assert (popped(line, 1000), len(line), "uid-a" in line) == (None, 0, False)


def test_an_update_of_an_unknown_pod_queues_it() -> None:
    line = waiting()
    line.update(pod("a"), at(0))
    assert popped(line, 0) == "a"


def test_a_pod_is_queued_once() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    line.add(pod("a"), at(1))
    assert [popped(line, 2), popped(line, 2)] == ["a", None]
    assert [item.pod.name for item in line.items()] == ["a"]


def test_a_pod_that_was_not_popped_can_neither_be_parked_nor_assumed() -> None:
    line = waiting()
    line.add(pod("a"), at(0))
    line.park("uid-a", frozenset(), at(0))
    line.assumed("uid-a", at(0))
    assert place(line, "a") is Place.ACTIVE


def test_the_heap_forgets_what_was_taken_out() -> None:
    names = heap.Heap[tuple[int]]()
    for number in range(1000):
        names.push((number,), f"n{number}")
    for number in range(999):
        names.discard(f"n{number}")
    names.discard("n0")
    names.push((5,), "late")
    assert (len(names), names.first()) == (2, (5,))
    assert [names.pop(), names.pop(), names.pop()] == ["late", "n999", None]
    assert names.first() is None


def test_the_heap_is_swept_when_the_dead_outnumber_the_living() -> None:
    names = heap.Heap[tuple[int]]()
    for number in range(10_000):
        names.push((number,), "moving")
    assert names.held < 200
    assert names.pop() == "moving"


class Waiting(stateful.RuleBasedStateMachine):
    """Whatever happens, a pod is in one place, and every place is consistent."""

    def __init__(self) -> None:
        super().__init__()
        self.line = waiting()
        self.known: set[str] = set()
        self.seconds = 0.0

    names = st.sampled_from("abcdef")
    plugins = st.frozensets(st.sampled_from(["Devices", "Taints"]), min_size=1)

    @stateful.rule(name=names, priority=st.integers(-1, 1), gated=st.booleans(), label=names)
    def see(self, name: str, priority: int, gated: bool, label: str) -> None:
        made: Any = builders.pod(name).priority(priority).label("l", label)
        self.line.add((made.gate("g") if gated else made).read(), at(self.seconds))
        self.known.add(f"uid-{name}")

    @stateful.rule(name=names)
    def remove(self, name: str) -> None:
        self.line.remove(f"uid-{name}")
        self.known.discard(f"uid-{name}")

    @stateful.rule(end=st.sampled_from(["park", "backoff", "assumed", "leave"]), plugins=plugins)
    def try_one(self, end: str, plugins: frozenset[str]) -> None:
        best = self._best()
        item = self.line.pop(at(self.seconds))
        if item is None:
            return
        if best is not None:
            assert item.pod.priority == best
        if end == "park":
            self.line.park(item.pod.uid, plugins, at(self.seconds))
        elif end == "backoff":
            self.line.backoff(item.pod.uid, at(self.seconds))
        elif end == "assumed":
            self.line.assumed(item.pod.uid, at(self.seconds))

    @stateful.rule(name=names, end=st.sampled_from(["park", "backoff", "assumed"]))
    def end_late(self, name: str, end: str) -> None:
        if end == "park":
            self.line.park(f"uid-{name}", frozenset({"Devices"}), at(self.seconds))
        else:
            getattr(self.line, end)(f"uid-{name}", at(self.seconds))

    @stateful.rule(event=st.sampled_from(["Devices", "Taints", "Other"]))
    def wake(self, event: str) -> None:
        self.line.wake(event, at(self.seconds))

    @stateful.rule(seconds=st.sampled_from([0.5, 3.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.line.flush(at(self.seconds))

    @stateful.invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        counts = self.line.counts()
        assert {item.pod.uid for item in self.line.items()} == self.known
        assert sum(counts.values()) == len(self.known) == len(self.line)

    @stateful.invariant()
    def what_is_due_is_popped_and_nothing_else(self) -> None:
        counts = self.line.counts()
        due = self.line.next_due(at(self.seconds))
        if counts[Place.ACTIVE]:
            assert due == 0
        if not (counts[Place.ACTIVE] or counts[Place.BACKOFF] or counts[Place.UNSCHEDULABLE]):
            assert due is None

    def _best(self) -> int | None:
        active = [i.pod.priority for i in self.line.items() if i.place is Place.ACTIVE]
        rested = [
            item.pod.priority
            for item in self.line.items()
            if item.place is Place.BACKOFF and item.rests_until_s <= at(self.seconds).monotonic_s
        ]
        return max(active + rested, default=None)


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
