"""Whatever comes, in whatever order, lost or twice: nothing is over-booked and nobody is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import settings, stateful
from hypothesis import strategies as st

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, ledger, queue
from tests import builders
from tests.transitions.stage import AL, Stage, gpus, placed, wants

CARD_MIB = 10_000
PODS = tuple("abcdefgh")
NODES = ("n1", "n2")


class Cluster:
    """What the API server holds: the truth that events are about."""

    def __init__(self) -> None:
        self.version = 10
        self.pods: dict[str, builders.PodBuilder] = {}
        self.ended: dict[str, builders.PodBuilder] = {}

    def put(self, name: str, pod: builders.PodBuilder) -> builders.PodBuilder:
        self.version += 1
        self.pods[name] = pod.version(self.version)
        return self.pods[name]

    def is_bound(self, name: str) -> bool:
        return bool(self.pods[name].raw()["spec"].get("nodeName"))


class Storm(stateful.RuleBasedStateMachine):
    """Pods and nodes come, change and go; binds land, fail, or nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.cluster = Cluster()
        self.binds: dict[str, effects.Bind] = {}
        self.told_gone: set[str] = set()
        self.born = 0
        for node in NODES:
            self.see_node(node)

    names = st.sampled_from(PODS)
    nodes = st.sampled_from(NODES)

    @stateful.rule(node=nodes)
    def see_node(self, node: str) -> None:
        self.cluster.version += 1
        self.stage.node(gpus(node, memory_mib=CARD_MIB).version(self.cluster.version))

    @stateful.rule(node=nodes)
    def lose_node(self, node: str) -> None:
        self.stage.world.node_gone(node, self.stage.now)

    @stateful.initialize(mems=st.lists(st.integers(1000, 9000), min_size=8, max_size=8))
    def begin(self, mems: list[int]) -> None:
        self.create(list(zip(PODS, mems, strict=True)))
        self.decide()

    @stateful.rule(each=st.lists(st.tuples(names, st.integers(1000, 9000)), min_size=1))
    def create(self, each: list[tuple[str, int]]) -> None:
        for name, mem in each:
            if name not in self.cluster.pods:
                self.born += 1
                pod = wants(name, mem=mem).uid(f"uid-{name}-{self.born}")
                self.stage.pod(self.cluster.put(name, pod.gate("g") if mem < 1500 else pod))

    def _some(self, data: Any) -> tuple[str, builders.PodBuilder] | None:
        names = sorted(self.cluster.pods)
        if not names:
            return None
        name = data.draw(st.sampled_from(names))
        return name, self.cluster.pods[name]

    @stateful.rule(data=st.data())
    def open_gate(self, data: Any) -> None:
        if found := self._some(data):
            name, pod = found
            self.stage.pod(self.cluster.put(name, pod.put("spec.schedulingGates", [])))

    @stateful.rule(data=st.data())
    def touch(self, data: Any) -> None:
        """A change whose event gets lost."""
        if found := self._some(data):
            name, pod = found
            self.cluster.put(name, pod.label("l", str(self.cluster.version)))

    @stateful.rule(data=st.data(), old=st.booleans())
    def repeat(self, data: Any, old: bool) -> None:
        if found := self._some(data):
            _, pod = found
            seen = pod.version(1).put("spec.nodeName", "") if old else pod
            self.stage.world.pending_seen(seen.read(), self.stage.now)

    @stateful.rule(data=st.data())
    def repeat_ended(self, data: Any) -> None:
        """A source that lags shows a pod that others have seen go."""
        known = {pod.uid for pod in self.stage.world.known_pods()}
        late = sorted(self.cluster.ended.keys() - known)
        if late:
            pod = self.cluster.ended[data.draw(st.sampled_from(late))]
            self.stage.world.pending_seen(pod.read(), self.stage.now)

    @stateful.rule(data=st.data(), lost=st.booleans())
    def delete(self, data: Any, lost: bool) -> None:
        if found := self._some(data):
            name, pod = found
            del self.cluster.pods[name]
            self._over(pod, lost=lost)

    def _over(self, pod: builders.PodBuilder, *, lost: bool) -> None:
        uid = pod.read().uid
        self.cluster.ended[uid] = pod
        if not lost:
            self._tell_gone(uid)

    def _tell_gone(self, uid: str) -> None:
        self.told_gone.add(uid)
        self.stage.world.pod_gone(uid, self.stage.now)

    @stateful.rule()
    def relist(self) -> None:
        """All events that were lost are made up for."""
        for pod in self.cluster.pods.values():
            self.stage.pod(pod)
        alive = {pod.read().uid for pod in self.cluster.pods.values()}
        for known in self.stage.world.known_pods():
            if known.uid not in alive:
                self._tell_gone(known.uid)

    @stateful.rule(data=st.data(), node=nodes)
    def intrude(self, data: Any, node: str) -> None:
        """Somebody else binds one of our pods, without devices."""
        found = self._some(data)
        if found and not self.cluster.is_bound(found[0]):
            name, pod = found
            self.cluster.put(name, pod.on(node).annotate({keys.VGPU_NODE: node, AL: ""}))

    @stateful.rule()
    def decide(self) -> None:
        for order in self.stage.attempts():
            if isinstance(order, effects.Bind):
                assert order.pod.uid not in self.binds
                self.binds[order.pod.uid] = order

    @stateful.rule(hows=st.lists(st.sampled_from(["lands", "fails", "watch", "misread"])))
    def answer(self, hows: list[str]) -> None:
        """The API server answers some binds; it refuses pods that are gone or bound."""
        for uid, how in zip(sorted(self.binds), hows, strict=False):
            order = self.binds.pop(uid)
            pod = self.cluster.pods.get(order.pod.name)
            if pod is None or pod.read().uid != uid:
                self._refuse(order, None)
            elif self.cluster.is_bound(order.pod.name):
                self._refuse(order, pod)
            elif how == "fails":
                self.stage.world.bind_failed(uid, self.stage.now, message="500")
            else:
                self._land(order, pod, how)

    def _land(self, order: effects.Bind, pod: builders.PodBuilder, how: str) -> None:
        allocated = order.decision.annotations[AL]
        bound = self.cluster.put(order.pod.name, placed(pod, order.node, allocated))
        if how != "lands":
            self.stage.pod(bound)
        if how == "misread":
            self.stage.world.bind_failed(order.pod.uid, self.stage.now, message="500")
        self.stage.world.bind_done(order.pod.uid)

    def _refuse(self, order: effects.Bind, pod: builders.PodBuilder | None) -> None:
        if pod is not None:
            self.stage.pod(pod)
        uid = order.pod.uid
        self.stage.world.bind_failed(uid, self.stage.now, message="409", lost=True)

    @stateful.rule(seconds=st.sampled_from([0.3, 1.0, 11.0, 301.0]))
    def wait(self, seconds: float) -> None:
        self.stage.wait(seconds)

    @stateful.rule()
    def new_term(self) -> None:
        """Leadership is lost and won again; the old term's binds were answered or fenced."""
        for uid in sorted(self.binds):
            self.stage.world.bind_failed(uid, self.stage.now, message="fenced")
        self.binds.clear()
        self.stage.world.step_down()
        self.stage.world.take_over(self.stage.now)
        self.relist()
        self.stage.lead()

    @stateful.invariant()
    def no_card_is_above_what_it_has(self) -> None:
        for view in self.stage.world.snapshot:
            for card in view.cards.get("NVIDIA", ()):
                assert 0 <= card.usage.memory_mib <= card.card.memory_mib
                assert 0 <= card.usage.used <= card.card.count

    @stateful.invariant()
    def every_reservation_has_a_bind_and_every_bind_a_place(self) -> None:
        reserved = {
            entry.uid for entry in self.stage.world.ledger if entry.state is ledger.State.RESERVED
        }
        assert reserved <= self.binds.keys()
        for item in self.stage.world.queue.items():
            if item.place is queue.Place.BINDING:
                assert item.pod.uid in self.binds
            assert item.place is not queue.Place.IN_FLIGHT

    @stateful.invariant()
    def who_was_told_to_be_gone_never_comes_back(self) -> None:
        world = self.stage.world
        present = {item.pod.uid for item in world.queue.items()}
        present |= {entry.uid for entry in world.ledger}
        assert not self.told_gone & present

    @stateful.invariant()
    def totals_are_the_sum_of_the_entries(self) -> None:
        for node in NODES:
            want: dict[str, tuple[int, int]] = {}
            for entry in self.stage.world.ledger:
                if entry.node == node:
                    for card, one in entry.usage.get("NVIDIA", {}).items():
                        slots, memory = want.get(card, (0, 0))
                        want[card] = (slots + one.used, memory + one.memory_mib)
            assert self.stage.usage(node) == want

    def teardown(self) -> None:
        """When all events have come and all binds are answered, nothing is left over."""
        for uid in sorted(self.binds):
            self.stage.world.bind_failed(uid, self.stage.now, message="stopped")
        self.binds.clear()
        for node in NODES:
            self.see_node(node)
        self.relist()
        bound = {
            pod.read().uid
            for name, pod in self.cluster.pods.items()
            if self.cluster.is_bound(name)
        }
        assert {entry.uid for entry in self.stage.world.ledger} == bound
        waiting = {pod.read().uid for pod in self.cluster.pods.values()} - bound
        assert {item.pod.uid for item in self.stage.world.queue.items()} == waiting
        for pod in list(self.cluster.pods.values()):
            self.stage.world.pod_gone(pod.read().uid, self.stage.now)
        world = self.stage.world
        assert (len(world.ledger), len(world.queue), world.known_pods()) == (0, 0, ())
        assert [self.stage.usage(node) for node in NODES] == [{}, {}]


TestStorm = Storm.TestCase
TestStorm.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
