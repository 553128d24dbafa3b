"""Pods of all priorities fight for few cards: whatever comes, nobody goes in vain or for less."""

from __future__ import annotations

from typing import Any

from hypothesis import settings, stateful
from hypothesis import strategies as st

from hami_operator.scheduling import effects, queue
from tests import builders
from tests.transitions.stage import AL, Stage, gpus, placed, wants
from tests.transitions.truth import fitting_but_parked

CARD_MIB = 10_000
NODES = ("n1", "n2")
NAMES = tuple("abcdefghijkl")
SEQUENCES = 250


class Contest(stateful.RuleBasedStateMachine):
    """Pods come and go, victims take their time, deletions and binds fail."""

    names = st.sampled_from(NAMES)
    sequences = 0

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.version = 10
        self.pods: dict[str, builders.PodBuilder] = {}
        self.binds: dict[str, effects.Bind] = {}
        self.doomed: dict[str, None] = {}
        Contest.sequences += 1
        for node in NODES:
            self.stage.node(gpus(node, 2, memory_mib=CARD_MIB))

    def _show(self, name: str, pod: builders.PodBuilder) -> None:
        self.version += 1
        self.pods[name] = pod.version(self.version)
        self.stage.pod(self.pods[name])

    sizes = st.lists(st.tuples(st.integers(2, 9), st.integers(0, 3)), min_size=6, max_size=6)

    @stateful.initialize(low=sizes, high=sizes)
    def begin(self, low: list[tuple[int, int]], high: list[tuple[int, int]]) -> None:
        """The cards are full of pods of little importance when others come."""
        for name, (mem, priority) in zip(NAMES, low, strict=False):
            self.create(name, mem, priority // 2)
        self.decide()
        self.answer([True] * len(self.binds))
        for name, (mem, priority) in zip(reversed(NAMES), high, strict=False):
            self.create(name, mem, 1 + priority)

    @stateful.rule(
        name=names, mem=st.integers(1, 9), priority=st.integers(0, 4), never=st.booleans()
    )
    def create(self, name: str, mem: int, priority: int, never: bool = False) -> None:
        if name not in self.pods:
            pod = wants(name, mem=mem * 1000).uid(f"uid-{name}-{self.version}").priority(priority)
            pod = pod.label("app", name).put("spec.preemptionPolicy", "Never" if never else "")
            self._show(name, pod.started(f"2026-03-01T10:00:{self.version % 60:02}Z"))

    @stateful.rule(app=names, there=st.booleans(), allowed=st.integers(0, 1))
    def protect(self, app: str, there: bool, allowed: int) -> None:
        """A PodDisruptionBudget comes, changes or goes."""
        world = self.stage.world
        if not there:
            world.budget_gone("default", app, f"uid-{app}")
            return
        meta = {"namespace": "default", "name": app, "uid": f"uid-{app}"}
        selector = {"matchLabels": {"app": app}}
        status = {"disruptionsAllowed": allowed}
        world.budget_seen({"metadata": meta, "spec": {"selector": selector}, "status": status})

    @stateful.rule()
    def decide(self) -> None:
        for order in self.stage.attempts():
            if isinstance(order, effects.Bind):
                self.binds[order.pod.name] = order
            elif isinstance(order, effects.Evict):
                self._judge(order)
                self.doomed[order.pod.name] = None

    def _judge(self, order: effects.Evict) -> None:
        """A victim is on its node, is not ending yet, and matters less than who needs its room."""
        victim = self.pods[order.pod.name].read()
        uid = order.tell.message.split()[3]
        preemptor = self.stage.world.pod(uid)
        assert preemptor is not None
        assert victim.uid == order.pod.uid
        assert order.pod.name not in self.doomed
        assert preemptor.rank.preempts
        assert victim.priority < preemptor.priority
        entry = self.stage.world.ledger.get(victim.uid)
        assert entry is not None
        assert entry.node == order.node

    @stateful.rule(hows=st.lists(st.booleans(), max_size=4))
    def answer(self, hows: list[bool]) -> None:
        for name, lands in zip(sorted(self.binds), hows, strict=False):
            self._answer(name, lands=lands)

    def _answer(self, name: str, *, lands: bool) -> None:
        order = self.binds.pop(name)
        pod = self.pods.get(name)
        if pod is None or pod.read().uid != order.pod.uid:
            self.stage.world.bind_failed(order.pod.uid, self.stage.now, message="404", lost=True)
        elif lands:
            self.stage.world.bind_done(order.pod.uid)
            self._show(name, placed(pod, order.node, order.decision.annotations[AL]))
        else:
            self.stage.world.bind_failed(order.pod.uid, self.stage.now, message="500")

    @stateful.rule(data=st.data(), refused=st.booleans())
    def end_a_victim(self, data: Any, refused: bool) -> None:
        if self.doomed:
            name = data.draw(st.sampled_from(sorted(self.doomed)))
            del self.doomed[name]
            pod = self.pods[name].read()
            if refused and not pod.terminating:
                self.stage.world.evict_failed(pod.uid, self.stage.now)
            else:
                self._delete(name)

    @stateful.rule(data=st.data())
    def begin_to_end(self, data: Any) -> None:
        """A bound pod is being deleted, by whomever, and takes its time."""
        bound = sorted(name for name, pod in self.pods.items() if pod.read().node_name)
        if bound:
            name = data.draw(st.sampled_from(bound))
            self._show(name, self.pods[name].terminating())
            self.doomed[name] = None

    @stateful.rule(data=st.data())
    def delete(self, data: Any) -> None:
        if self.pods:
            self._delete(data.draw(st.sampled_from(sorted(self.pods))))

    def _delete(self, name: str) -> None:
        self.doomed.pop(name, None)
        self.stage.world.pod_gone(self.pods.pop(name).read().uid, self.stage.now)

    @stateful.rule(seconds=st.sampled_from([0.5, 2.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.stage.wait(seconds)

    @stateful.invariant()
    def no_card_holds_more_than_it_has(self) -> None:
        for node in NODES:
            for used, memory_mib in self.stage.usage(node).values():
                assert memory_mib <= CARD_MIB
                assert used <= 10

    @stateful.invariant()
    def promises_are_to_pods_that_wait(self) -> None:
        promises = self.stage.world._attempts.preemptor.promises
        for name, pod in self.pods.items():
            if promises.get(pod.read().uid) is not None:
                assert name in self.binds or not pod.read().node_name

    @stateful.invariant()
    def nobody_who_would_fit_is_parked(self) -> None:
        assert fitting_but_parked(self.stage) == []

    def teardown(self) -> None:
        """Let everything come to its end: then whoever waits finds no room, and nobody to push."""
        for _ in range(60):
            self.decide()
            at_rest = not (self.binds or self.doomed)
            for name in list(self.binds):
                self._answer(name, lands=True)
            for name in list(self.doomed):
                self._delete(name)
            places = {item.place for item in self.stage.world.queue.items()}
            if at_rest and places <= {queue.Place.UNSCHEDULABLE}:
                break
            self.stage.wait(11)
        waiting = [item for item in self.stage.world.queue.items()]
        assert {item.place for item in waiting} <= {queue.Place.UNSCHEDULABLE}
        for item in waiting:
            self._has_to_wait(item.pod)

    def _has_to_wait(self, pod: Any) -> None:
        """On no card would the pod fit, were all gone that it may push off."""
        never = not pod.rank.preempts
        asked = int(pod.containers[0].limits["nvidia.com/gpumem"])
        for node in NODES:
            for card in ("GPU-0", "GPU-1"):
                held = sum(
                    entry.usage["NVIDIA"][card].memory_mib
                    for entry in self.stage.world.ledger.on(node)
                    if card in entry.usage["NVIDIA"]
                    and (never or self.pods[entry.name].read().priority >= pod.priority)
                )
                assert held + asked > CARD_MIB


class TestContest(Contest.TestCase):  # type: ignore[misc, valid-type]
    """The same sequences each time, so that nobody's change fails for a find of chance."""

    settings = settings(
        max_examples=SEQUENCES, stateful_step_count=30, deadline=None, derandomize=True
    )

    def runTest(self) -> None:
        before = Contest.sequences
        super().runTest()
        assert Contest.sequences - before >= SEQUENCES
