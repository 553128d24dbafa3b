"""Plays the scenario against a cluster, as users and hardware would, and judges what comes of it.

Everything is done and seen through the API server: pods are created and deleted there, and only
what it holds is believed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from hami_operator import clock, errors, settings
from hami_operator.cluster import pages, ports
from hami_operator.cluster.kubernetes import admin
from hami_operator.devices import registry
from hami_operator.protocol import handshake, keys
from hami_operator.simulator import audit, fleet, kubelet, mirror, scenario

STEP_S: Final = 30.0
"""No step takes longer; on an idle machine each takes a few seconds."""
AUDIT_S: Final = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that had to hold.

    Attributes:
        name: what it is.
        problems: how it does not hold; empty where it does.
    """

    name: str
    problems: tuple[str, ...] = ()


class Sight:
    """What the API server shows now: nodes, pods and events, by their names.

    Args:
        step_s: how long anything may take to come true.
    """

    def __init__(self, *, step_s: float = STEP_S) -> None:
        self._step_s = step_s
        self.bell = asyncio.Event()
        self.nodes = mirror.Mirror(self.bell)
        self.pods = mirror.Mirror(self.bell)
        self.events = mirror.Mirror(self.bell)

    async def until(self, holds: Callable[[], bool]) -> bool:
        """Wait until ``holds()``; whether it came true."""
        return await mirror.until(holds, self.bell, timeout_s=self._step_s)


class Story:
    """The steps of the demo.

    Args:
        client: creates and deletes pods.
        simulated: the fleet whose plugin is to die.
        sight: what the API server shows.
        chosen: the operator's settings: whose pods these are, when a plugin counts as dead.
        tell: takes a line for every step.
        time: the clock.
    """

    def __init__(
        self,
        client: admin.Admin,
        simulated: fleet.Fleet,
        sight: Sight,
        *,
        chosen: settings.Settings,
        tell: Callable[[str], None],
        time: clock.Clock,
    ) -> None:
        self._client = client
        self._fleet = simulated
        self._sight = sight
        self._scheduler = chosen.scheduler_name
        # The value holds whole seconds.
        self._patience = datetime.timedelta(seconds=chosen.device_timeout_s - 1)
        self._tell = tell
        self._time = time
        self._refused: set[str] = set()
        self._found: dict[str, None] = {}

    async def play(self) -> tuple[Check, ...]:
        """All steps; what was judged on the way and at the end."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_over(), name="audit")
            checks = [await self._settle()]
            checks += await self._lose_plugin()
            checks.append(await self._regain_plugin())
            checks += await self._give_way()
            watching.cancel()
        return (*checks, *await self._final())

    async def _watch_over(self) -> None:
        """Check again and again, so that what is wrong for a while only is not missed."""
        while True:
            for finding in audit.findings(self._sight.nodes.all(), self._sight.pods.all()):
                self._found[finding] = None
            await self._time.sleep(AUDIT_S)

    async def _settle(self) -> Check:
        self._tell(f"creating {len(list(scenario.of(scenario.Act.FIRST)))} pods")
        await self._create(scenario.Act.FIRST)
        problems = await self._all_as_wanted(scenario.of(scenario.Act.FIRST))
        return Check(name="every pod that fits runs, every other says why not", problems=problems)

    async def _create(self, act: scenario.Act) -> None:
        for name, shape in scenario.of(act):
            body = scenario.manifest(name, shape, self._scheduler)
            try:
                await self._client.create(ports.PODS, body, namespace=scenario.NAMESPACE)
            except errors.Invalid as error:
                self._refused.add(name)
                self._tell(f"{name}: refused by the API server: {_cause(error)}")

    async def _all_as_wanted(self, pods: Iterable[tuple[str, scenario.Shape]]) -> tuple[str, ...]:
        wanted = dict(pods)
        await self._sight.until(lambda: not any(self._problems(wanted.items())))
        return tuple(self._problems(wanted.items()))

    def _problems(self, pods: Iterable[tuple[str, scenario.Shape]]) -> Iterator[str]:
        for name, shape in pods:
            problem = judge(self._sight.pods.get(name), shape, refused=name in self._refused)
            if problem:
                yield f"{name}: {problem}"

    async def _lose_plugin(self) -> list[Check]:
        node, word = scenario.MORTAL
        await self._fleet.die(node, word)
        self._tell(f"the {word} plugin of {node} has died")
        told = await self._sight.until(lambda: self._is_told("DeviceTypeUnavailable"))
        question = self._question()
        self._tell(f"{node}: {word} is unavailable; creating a pod for it, and one beside it")
        await self._create(scenario.Act.WHILE_DEAD)
        problems = [*await self._waits("needs-the-dead")]
        problems += [] if told else [f"no event on {node} says that {word} is unavailable"]
        asked = handshake.requested_at(question)
        if asked is None or self._time.wall() - asked < self._patience:
            problems.append(f"unavailable before its time: {question!r}")
        if self._question() != question:
            problems.append(f"the question was asked again: {question!r}, {self._question()!r}")
        beside = dict(scenario.of(scenario.Act.WHILE_DEAD))
        del beside["needs-the-dead"]
        return [
            Check(name="a dead plugin's cards take nobody", problems=tuple(problems)),
            Check(
                name="the node's other cards still do",
                problems=await self._all_as_wanted(beside.items()),
            ),
        ]

    def _question(self) -> str:
        """The unanswered question on the mortal plugin's node; empty if there is none."""
        node, word = scenario.MORTAL
        found = self._sight.nodes.get(node)
        key = self._fleet.machines[node].plugins[word].handshake_key
        value = _annotations(found).get(key, "") if found else ""
        return value if handshake.classify(value) is handshake.Kind.REQUESTING else ""

    def _is_told(self, reason: str) -> bool:
        node, word = scenario.MORTAL
        return any(
            event.get("reason") == reason
            and event.get("regarding", {}).get("name") == node
            and word in event.get("note", "")
            for event in self._sight.events.all()
        )

    async def _waits(self, name: str) -> tuple[str, ...]:
        """Wait until the pod waits for the right reason."""
        shape = dict(scenario.every())[name]
        waiting = dataclasses.replace(shape, want=scenario.Want.WAITS)
        return await self._all_as_wanted([(name, waiting)])

    async def _regain_plugin(self) -> Check:
        node, word = scenario.MORTAL
        await self._fleet.revive(node, word)
        self._tell(f"the {word} plugin of {node} is back")
        problems = await self._all_as_wanted(scenario.of(scenario.Act.WHILE_DEAD))
        if not await self._sight.until(lambda: self._is_told("DeviceTypeAvailable")):
            problems += (f"no event on {node} says that {word} is available again",)
        return Check(name="a plugin that returns brings its cards back", problems=problems)

    async def _give_way(self) -> list[Check]:
        late = list(scenario.of(scenario.Act.AFTER))
        self._tell(f"creating {len(late)} pods that want whole cards; none is empty")
        await self._create(scenario.Act.AFTER)
        waited = [problem for name, _ in late for problem in await self._waits(name)]
        self._tell(f"deleting {', '.join(scenario.GIVE_WAY)}")
        for name in scenario.GIVE_WAY:
            await self._client.delete(ports.PODS, name, namespace=scenario.NAMESPACE)
        problems = await self._all_as_wanted(late)
        return [
            Check(name="a pod waits while its cards are taken", problems=tuple(waited)),
            Check(name="cards of pods that end go to pods that wait", problems=problems),
        ]

    async def _final(self) -> tuple[Check, ...]:
        """What must hold at the end, read afresh from the API server."""
        self._tell("reading everything from the API server, and checking it")
        await self._sight.until(lambda: not any(audit.locks(self._sight.nodes.all())))
        nodes = (await pages.whole(self._client, ports.NODES)).items
        pods = (await pages.whole(self._client, ports.PODS)).items
        expected = {
            name: shape for name, shape in scenario.every() if name not in scenario.GIVE_WAY
        }
        allowed = frozenset(allowed_annotations(registry.default()))
        return (
            Check(
                name="every pod is where it belongs",
                problems=tuple(self._problems(expected.items())),
            ),
            Check(name="no card was over-booked on the way", problems=tuple(self._found)),
            Check(name="no card is over-booked now", problems=tuple(audit.findings(nodes, pods))),
            Check(name="no node lock is left", problems=tuple(audit.locks(nodes))),
            Check(
                name="nothing is left on nodes and pods but the protocol",
                problems=tuple(audit.traces([*nodes, *pods], allowed)),
            ),
        )


def judge(pod: ports.Raw | None, shape: scenario.Shape, *, refused: bool) -> str:
    """What is wrong with a pod by now; empty where it is as it must be."""
    if shape.want is scenario.Want.REFUSED or refused:
        as_wanted = refused and shape.want is scenario.Want.REFUSED
        return "" if as_wanted else "the API server " + ("refused it" if refused else "took it")
    if pod is None:
        return "is not there"
    bound = bool(pod["spec"].get("nodeName"))
    phase = pod["status"].get("phase")
    if shape.want is scenario.Want.RUNS:
        ended = "Succeeded" if shape.run_for_s is not None else "Running"
        return "" if bound and phase == ended else f"is {phase}: {waiting_for(pod)}"
    if bound:
        return f"must not be bound, and is on {pod['spec']['nodeName']}"
    text = waiting_for(pod)
    return "" if shape.because in text and text else f"waits without {shape.because}: {text!r}"


def waiting_for(pod: Mapping[str, Any]) -> str:
    """What the pod's condition, or its status, says of why it does not run."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return str(pod["status"].get("message", ""))


def allowed_annotations(rows: registry.Registry) -> Iterator[str]:
    """Keys that the protocol, or the users of the scenario, put on nodes and pods."""
    yield from rows.owned_pod_keys
    yield from (keys.NODE_LOCK, kubelet.RUN_FOR)
    for row in rows:
        yield from (row.node.register, row.node.handshake, row.node.legacy_handshake, row.lock)
        yield from (row.node.listed, *row.node.extra)
    for shape in scenario.SHAPES:
        yield from shape.annotations


def _annotations(found: ports.Raw) -> dict[str, str]:
    return found["metadata"].get("annotations") or {}


def _cause(error: errors.ApiError) -> str:
    """The first of the server's complaints; the same value is wrong in several places."""
    return str(error).partition("is invalid: ")[2].partition(", spec.")[0].lstrip("[")
