"""Whatever comes, in whatever order, lost or twice: nothing is over-booked and nobody is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import settings, stateful
from hypothesis import strategies as st

from hami_operator.protocol import keys
from hami_operator.scheduling import effects, ledger, queue
from tests import builders
from tests.transitions.stage import AL, Stage, gpus, wants
from tests.transitions.truth import PROMISED, Truth, fitting_but_parked, uid_of

CARD_MIB = 10_000
ALONE = tuple("abcdef")
GANG = ("g0", "g1", "g2")
NODES = ("n1", "n2")
GANG_TIMEOUT_S = 60.0
SEQUENCES = 1000

Place = queue.Place
Pods = list[tuple[str, int, int]]
"""Name, MiB and priority of each."""


def fleet_node(name: str, how: str = "") -> builders.NodeBuilder:
    """A node with two cards and little cpu; ``how`` says what is odd about it now."""
    count = 1 if how == "one card" else 2
    facts: dict[str, Any] = {"healthy": False} if how == "ill cards" else {}
    node = gpus(name, count, memory_mib=CARD_MIB, **facts).allocatable(cpu="5")
    if how == "no register":
        node = builders.roomy(name).allocatable(cpu="5")
    if how == "little cpu":
        node = node.allocatable(cpu="2")
    if how == "cordoned":
        node = node.cordoned()
    if how == "tainted":
        node = node.taint("dedicated", "others")
    if how.startswith("locked for "):
        lock = f"2026-03-01T12:00:00Z,default,{how.removeprefix('locked for ')}"
        node = node.annotate({keys.NODE_LOCK: lock})
    return node


class Storm(stateful.RuleBasedStateMachine):
    """Pods, nodes and quotas come, change and go; binds land, fail, or nobody knows."""

    sequences = 0

    def __init__(self) -> None:
        super().__init__()
        Storm.sequences += 1
        self.stage = Stage(gang_timeout_s=GANG_TIMEOUT_S)
        self.truth = Truth()
        self.binds: dict[str, effects.Bind] = {}
        self.told_gone: set[str] = set()
        self.refuses = False
        for node in NODES:
            self.stage.node(self.truth.put_node(node, fleet_node(node)))

    names = st.sampled_from((*ALONE, *GANG))
    nodes = st.sampled_from(NODES)
    sizes = st.integers(1000, 9000)

    # ---- nodes and quotas

    hows = st.sampled_from(
        ["", "", "one card", "ill cards", "no register", "little cpu", "cordoned", "tainted",
         "locked for a", "locked for g1", "locked for nobody"]
    )  # fmt: skip

    @stateful.rule(node=nodes, how=hows, lost=st.booleans())
    def change_node(self, node: str, how: str, lost: bool) -> None:
        made = self.truth.put_node(node, fleet_node(node, how))
        if not lost:
            self.stage.node(made)

    @stateful.rule(node=nodes, lost=st.booleans())
    def lose_node(self, node: str, lost: bool) -> None:
        self.truth.nodes.pop(node, None)
        if not lost:
            self.stage.world.node_gone(node, self.stage.now)

    @stateful.rule(gpumem=st.sampled_from([15_000, 50_000, 90_000]), lost=st.booleans())
    def limit(self, gpumem: int, lost: bool) -> None:
        made = self.truth.put_quota("q", gpumem=gpumem)
        if not lost:
            self.stage.quota(made)

    @stateful.rule(lost=st.booleans())
    def limit_no_more(self, lost: bool) -> None:
        if self.truth.quotas.pop("q", None) and not lost:
            self.stage.world.quota_gone("default", "q", "uid-q", self.stage.now)

    # ---- pods

    @stateful.initialize(mems=st.lists(sizes, min_size=6, max_size=6), high=st.booleans())
    def begin(self, mems: list[int], high: bool) -> None:
        self.create([(name, mem, 0) for name, mem in zip(ALONE[:4], mems, strict=False)])
        self.decide()
        self.answer(["lands", "watch", "lands", "watch"])
        self.create([(name, mem, int(high)) for name, mem in zip(ALONE[4:], mems, strict=False)])

    @stateful.rule(each=st.lists(st.tuples(names, sizes, st.integers(0, 2)), min_size=1))
    def create(self, each: Pods) -> None:
        for name, mem, priority in each:
            if name not in self.truth.pods:
                pod = self._made(name, mem, priority)
                self.stage.pod(self.truth.put(name, pod.gate("g") if mem < 1500 else pod))

    @stateful.rule(mem=st.integers(1500, 5000))
    def create_gang(self, mem: int) -> None:
        self.create([(name, mem, 1) for name in GANG])

    @stateful.rule(name=names, node=nodes, mem=sizes)
    def create_with_a_promise(self, name: str, node: str, mem: int) -> None:
        """An earlier leader has promised it room."""
        if name not in self.truth.pods:
            pod = self._made(name, mem, 1).put(PROMISED, node)
            self.stage.pod(self.truth.put(name, pod))

    def _made(self, name: str, mem: int, priority: int) -> builders.PodBuilder:
        pod = wants(name, mem=mem).priority(priority)
        pod = pod.uid(f"uid-{name}-{self.truth.version}")
        if name in GANG:
            return pod.annotate({keys.GANG_NAME: "g", keys.GANG_MIN_MEMBER: str(len(GANG))})
        return pod.container("x", requests={"cpu": str(mem // 3000)})

    def _some(self, data: Any) -> str | None:
        names = sorted(self.truth.pods)
        return data.draw(st.sampled_from(names)) if names else None

    @stateful.rule(data=st.data())
    def open_gate(self, data: Any) -> None:
        if name := self._some(data):
            pod = self.truth.pods[name].put("spec.schedulingGates", [])
            self.stage.pod(self.truth.put(name, pod))

    @stateful.rule(data=st.data())
    def touch(self, data: Any) -> None:
        """A change whose event gets lost."""
        if name := self._some(data):
            label = str(self.truth.version)
            self.truth.put(name, self.truth.pods[name].label("l", label))

    @stateful.rule(data=st.data(), old=st.booleans())
    def repeat(self, data: Any, old: bool) -> None:
        if name := self._some(data):
            pod = self.truth.pods[name]
            seen = pod.version(1).put("spec.nodeName", "") if old else pod
            self.stage.world.pending_seen(seen.read(), self.stage.now)

    @stateful.rule(data=st.data())
    def repeat_ended(self, data: Any) -> None:
        """A source that lags shows a pod that others have seen go."""
        known = {pod.uid for pod in self.stage.world.known_pods()}
        late = sorted(self.truth.ended.keys() - known)
        if late:
            pod = self.truth.ended[data.draw(st.sampled_from(late))]
            self.stage.world.pending_seen(pod.read(), self.stage.now)

    @stateful.rule(data=st.data(), lost=st.booleans(), gracefully=st.booleans())
    def delete(self, data: Any, lost: bool, gracefully: bool) -> None:
        name = self._some(data)
        if name and gracefully and self.truth.node_of(name):
            ending = self.truth.put(name, self.truth.pods[name].terminating())
            if not lost:
                self.stage.pod(ending)
        elif name:
            self._end(name, lost=lost)

    def _end(self, name: str, *, lost: bool = False) -> None:
        uid = self.truth.end(name)
        if not lost:
            self.told_gone.add(uid)
            self.stage.world.pod_gone(uid, self.stage.now)

    @stateful.rule()
    def relist(self) -> None:
        """All events that were lost are made up for."""
        known = {pod.uid for pod in self.stage.world.known_pods()}
        self.truth.show(self.stage)
        self.told_gone |= known - {uid_of(pod) for pod in self.truth.pods.values()}

    @stateful.rule(data=st.data(), node=nodes)
    def intrude(self, data: Any, node: str) -> None:
        """Somebody else binds one of our pods, without devices."""
        name = self._some(data)
        if name and not self.truth.node_of(name):
            pod = self.truth.pods[name].on(node)
            self.truth.put(name, pod.annotate({keys.VGPU_NODE: node, AL: ""}))

    # ---- decisions and what becomes of them

    @stateful.rule()
    def decide(self) -> None:
        for order in self.stage.attempts():
            self._take(order)

    def _take(self, order: effects.Effect) -> None:
        if isinstance(order, effects.Bind):
            assert order.pod.uid not in self.binds
            self.binds[order.pod.uid] = order
        elif isinstance(order, effects.Condition):
            self.truth.write(order)
        elif isinstance(order, effects.Evict):
            self._evict(order)

    def _evict(self, order: effects.Evict) -> None:
        """The victim takes its time; the API server refuses where it is another one by now."""
        name = order.pod.name
        pod = self.truth.pods.get(name)
        if pod is None or uid_of(pod) != order.pod.uid:
            return
        if self.refuses:
            self.refuses = False
            self.stage.world.evict_failed(order.pod.uid, self.stage.now)
        elif not self.truth.node_of(name):  # its bind is on the way, and finds no pod
            self._end(name)
        else:
            self.truth.put(name, pod.terminating())

    @stateful.rule()
    def refuse_the_next_end(self) -> None:
        self.refuses = True

    @stateful.rule(hows=st.lists(st.sampled_from(["lands", "fails", "watch", "misread"])))
    def answer(self, hows: list[str]) -> None:
        """The API server answers some binds; it refuses pods that are gone or bound."""
        for uid, how in zip(sorted(self.binds), hows, strict=False):
            order = self.binds.pop(uid)
            pod = self.truth.pods.get(order.pod.name)
            if pod is None or uid_of(pod) != uid:
                self._refuse(order, None)
            elif self.truth.node_of(order.pod.name):
                self._refuse(order, pod)
            elif how == "fails":
                self.stage.world.bind_failed(uid, self.stage.now, message="500")
            else:
                self._land(order, how)

    def _land(self, order: effects.Bind, how: str) -> None:
        bound = self.truth.land(order)
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
        self.stage.seconds += seconds
        for order in self.stage.world.tick(self.stage.now):
            self._take(order)

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

    # ---- what always holds

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
            if item.place is Place.BINDING:
                assert item.pod.uid in self.binds
            assert item.place is not Place.IN_FLIGHT

    @stateful.invariant()
    def a_pod_is_in_one_place_of_the_queue(self) -> None:
        world = self.stage.world
        uids = [item.pod.uid for item in world.queue.items()]
        assert len(uids) == len(set(uids)) == sum(world.queue.counts().values())
        bound = {entry.uid for entry in world.ledger if entry.state is ledger.State.BOUND}
        assert not bound & set(uids) - self.binds.keys()

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

    @stateful.invariant()
    def nobody_who_would_fit_is_parked(self) -> None:
        assert fitting_but_parked(self.stage) == []

    def teardown(self) -> None:
        """All events have come and all binds are answered: whoever waits finds no room."""
        self._come_to_rest()
        world, truth = self.stage.world, self.truth
        bound = {uid_of(pod) for name, pod in truth.pods.items() if truth.node_of(name)}
        assert {entry.uid for entry in world.ledger} == bound
        waiting = {uid_of(pod) for pod in truth.pods.values()} - bound
        assert {item.pod.uid for item in world.queue.items()} == waiting
        self._nobody_is_left_parked()
        self._nothing_is_left_over()

    def _come_to_rest(self) -> None:
        for _ in range(40):
            self.relist()
            self.decide()
            self.answer(["watch"] * len(self.binds))
            self.relist()
            for name in [name for name in self.truth.pods if self.truth.is_ending(name)]:
                self._end(name)
            places = {item.place for item in self.stage.world.queue.items()}
            if places <= {Place.UNSCHEDULABLE, Place.GATED}:
                return
            self.wait(11.0)
        raise AssertionError("it never comes to rest")

    def _nobody_is_left_parked(self) -> None:
        waiting = [item.pod.name for item in self.stage.world.queue.items() if not item.pod.gates]
        groups = [{name} for name in waiting if name not in GANG]
        # Of half a gang the new world cannot know whether it was ever whole.
        if not any(self.truth.node_of(name) for name in GANG if name in self.truth.pods):
            groups.append({name for name in waiting if name in GANG})
        for names in groups:
            told = self.truth.tried_afresh(names)
            done = [one for one in told if isinstance(one, effects.Bind | effects.Evict)]
            assert not done, names

    def _nothing_is_left_over(self) -> None:
        world = self.stage.world
        for name in list(self.truth.pods):
            self._end(name)
        assert (len(world.ledger), len(world.queue), world.known_pods()) == (0, 0, ())
        assert [self.stage.usage(node) for node in NODES] == [{}, {}]


class TestStorm(Storm.TestCase):  # type: ignore[misc, valid-type]
    """The same sequences each time, so that nobody's change fails for a find of chance."""

    settings = settings(
        max_examples=SEQUENCES, stateful_step_count=30, deadline=None, derandomize=True
    )

    def runTest(self) -> None:
        before = Storm.sequences
        super().runTest()
        assert Storm.sequences - before >= SEQUENCES
