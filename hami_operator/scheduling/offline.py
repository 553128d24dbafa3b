"""One decision from API objects alone: no cluster, no memory, no clock.

Equal requests give equal answers, in any process at any time.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hami_operator import errors, settings
from hami_operator.devices import inventory
from hami_operator.devices import registry as registries
from hami_operator.protocol import instant
from hami_operator.scheduling import (
    cycle,
    demand,
    ledger,
    neighbours,
    nodeorder,
    objects,
    quota,
    recall,
    rejection,
    rules,
    snapshot,
    surroundings,
)
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import nodes as registered
from hami_operator.scheduling import pod as pods

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""The time of a request that names none; no handshake has expired then."""

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one request comes to.

    Attributes:
        output: ``{"node", "annotations", "labels"}``, or ``{"failed", "message"}``.
        warnings: what in the request was not understood, though it did not stand in the way.
    """

    output: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


class Memory:
    """What earlier requests have shown, for callers that decide many; answers do not depend on it.

    Only for requests as orjson reads them: equal text must mean equal objects.
    """

    def __init__(self) -> None:
        self._terms: dict[str, _Terms] = {}

    def terms(self, text: str) -> _Terms:
        """The terms of some settings, as JSON."""
        found = self._terms.get(text)
        if found is None:
            found = _Terms(_rules(text))
            found.node = recall.Recall(found.node, _MOST_NODES)
            found.pod = recall.Recall(found.pod, _MOST_PODS)
            if len(self._terms) >= _MOST_TERMS:
                del self._terms[next(iter(self._terms))]
            self._terms[text] = found
        return found


_MOST_TERMS: Final = 8
_MOST_NODES: Final = 1024
_MOST_PODS: Final = 4096


class _Node(NamedTuple):
    record: nodes.Node
    inventories: Mapping[str, inventory.Inventory]


class _Pod:
    """A pod of the request; most are never asked for more than what they hold.

    Attributes:
        resident: what is counted of it.
        entry: the same in the ledger; None where it has no node, or has ended.
    """

    def __init__(self, resident: pods.Resident, entry: ledger.Entry | None) -> None:
        self.resident = resident
        self.entry = entry
        self._record: pods.Pod | None = None

    def record(self, raw: Mapping[str, Any]) -> pods.Pod:
        """All of it, read from its object when it is first asked for."""
        if self._record is None:
            self._record = pods.read(raw)
        return self._record


class _Rules(NamedTuple):
    rules: rules.Rules
    warnings: tuple[str, ...]


class _Terms:
    """The rules under some settings, and how objects are read under them."""

    def __init__(self, given: _Rules) -> None:
        self.rules, self.warnings = given
        self.node: Callable[[Mapping[str, Any]], _Node] = self._node
        self.pod: Callable[[Mapping[str, Any]], _Pod] = self._pod

    def _node(self, raw: Mapping[str, Any]) -> _Node:
        node = nodes.read(raw)
        return _Node(node, inventory.read_all(node, self.rules.registry))

    def _pod(self, raw: Mapping[str, Any]) -> _Pod:
        pod = pods.read_resident(raw)
        if not pod.node_name or pod.terminal:
            return _Pod(pod, None)
        return _Pod(pod, ledger.count(pod, self.rules.registry))


def decide(request: Mapping[str, Any], memory: Memory | None = None) -> Answer:
    """Decide one pod.

    Args:
        request: ``nodes`` and ``pod``, and where wanted ``pods`` (all others; those with a node
            count), ``quotas``, ``settings`` (as the configuration file) and ``now`` (RFC 3339).
            API objects as ``kubectl get -o json`` gives them; other keys are ignored.
        memory: of the requests before this one.

    Raises:
        errors.DecodeError: a key of the request is missing or of another type.
        errors.SettingsError: the settings cannot be used.
    """
    given = json.dumps(_mapping(request, "settings"), sort_keys=True)
    terms = memory.terms(given) if memory is not None else _Terms(_rules(given))
    now = _now(request.get("now"))
    pod = pods.read(_pod(request))
    others = _objects(request, "pods")
    board = _Board(pod, terms, now)
    board.add_nodes(_objects(request, "nodes"))
    board.add_pods(others)
    findings = board.add_quotas(_objects(request, "quotas"))
    outcome = board.run()
    return Answer(
        output=_output(outcome), warnings=(*terms.warnings, *findings, *outcome.warnings)
    )


class _Board:
    """The cluster of one request, as its pod is to see it."""

    def __init__(self, pod: pods.Pod, known: _Terms, now: instant.Instant) -> None:
        terms = known.rules
        self._pod = pod
        self._demand = demand.read(pod, terms.registry)
        self._known = known
        self._terms = terms
        self._now = now
        self._nodes = registered.Nodes(
            terms.registry, terms.settings.device_timeout_s, terms.settings.node_label_selector
        )
        self._ledger = ledger.Ledger(terms.registry)
        self._quotas = quota.Quotas(terms.registry)
        self._neighbours = neighbours.Neighbours(self._labels)

    def add_nodes(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for position, raw in enumerate(objects):
            node, inventories = self._known.node(raw)
            if not node.name or node.name in self._nodes:
                problem = f"{node.name!r} is there twice" if node.name else "is missing"
                raise errors.DecodeError("nodes", f"[{position}].metadata.name", problem)
            self._nodes.seen(node, self._now, at_start=True, inventories=inventories)

    def add_pods(self, objects: Sequence[Mapping[str, Any]]) -> None:
        looks = not self._demand.asks or neighbours.looks_at_others(self._pod)
        for raw in objects:
            pod = self._known.pod(raw)
            resident, entry = pod.resident, pod.entry
            if not resident.node_name or resident.uid == self._pod.uid:
                continue
            if entry is None or resident.uid in self._ledger:
                self._ledger.observe(pod.record(raw), ours=True)
            else:
                self._ledger.put(entry)
            if entry is not None and (looks or resident.speaks):
                self._neighbours.add(pod.record(raw), resident.node_name)

    def add_quotas(self, objects: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        return tuple(str(odd) for raw in objects for odd in self._quotas.seen(raw).findings)

    def run(self) -> cycle.Placed | cycle.Unplaced:
        views = snapshot.Snapshot(self._nodes, self._ledger).views()
        return cycle.run(
            self._pod,
            self._demand,
            views,
            rules=self._terms,
            now=self._now,
            accounts=self._quotas.accounts(self._pod.namespace, self._ledger, self._nodes),
            around=surroundings.Surroundings(
                nodes=views, pods=self._neighbours, objects=objects.Objects()
            ),
            order=nodeorder.Order(),
        )

    def _labels(self, name: str) -> Mapping[str, str]:
        node = self._nodes.get(name)
        return node.labels if node is not None else {}


@functools.lru_cache(maxsize=64)  # the lines of a file mostly share their settings
def _rules(text: str) -> _Rules:
    given = settings.load(json.loads(text))
    if given.device_config_file:
        problem = "no file is read here; put what it says under device_config"
        raise errors.SettingsError("device_config_file", problem)
    found = registries.configured(given)
    return _Rules(rules.Rules.of(found.registry, given), found.warnings)


def _pod(request: Mapping[str, Any]) -> Mapping[str, Any]:
    if request.get("pod") is None:
        raise errors.DecodeError("pod", "object", "is missing")
    return _mapping(request, "pod")


def _mapping(request: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = request.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.DecodeError(key, "object", "is not an object")
    return value


def _objects(request: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """A list of API objects, bare or as a List object; only ``nodes`` has to be there."""
    value = request.get(key)
    if isinstance(value, Mapping) and "items" in value:
        value = value["items"]
    if value is None and key != "nodes":
        return ()
    if not isinstance(value, list):
        raise errors.DecodeError(key, "list", "is missing" if value is None else "is not a list")
    for position, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise errors.DecodeError(key, f"[{position}]", "is not an object")
    return value


def _now(text: object) -> instant.Instant:
    if text is None:
        return instant.Instant(monotonic_s=0.0, wall=EPOCH)
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise errors.DecodeError("now", "time", f"{text!r} is not a time of RFC 3339")
    date, time, fraction, zone = found.groups()
    digits = (fraction or "").ljust(9, "0")
    try:
        wall = datetime.datetime.fromisoformat(f"{date}T{time}.{digits[:6]}{zone.upper()}")
        wall = wall.astimezone(datetime.UTC)
    except (ValueError, OverflowError) as error:
        raise errors.DecodeError("now", "time", f"{text!r}: {error}") from error
    return instant.Instant(monotonic_s=0.0, wall=wall, nanoseconds=int(digits[6:]))


def _output(outcome: cycle.Placed | cycle.Unplaced) -> dict[str, Any]:
    if isinstance(outcome, cycle.Placed):
        result = outcome.decision
        return {
            "node": result.node,
            "annotations": dict(sorted(result.annotations.items())),
            "labels": dict(result.labels),
        }
    failed = {name: _refusal(one) for name, one in sorted(outcome.rejections.items())}
    return {"failed": failed, "message": outcome.message}


def _refusal(one: rejection.Rejection) -> dict[str, str]:
    """The reason as schedulers of this protocol name it, and the same in words."""
    texts = ", ".join(one.texts)
    if not one.reasons:
        return {"reason": texts, "message": f"{one.plugin}: {texts}"}
    words = "; ".join(_words(one, reason) for reason in one.reasons)
    return {"reason": one.detail or texts, "message": f"{one.detail or texts}: {words}"}


def _words(one: rejection.Rejection, reason: errors.Reason) -> str:
    """What the rejection says about a reason, where it says more than the reason itself."""
    mark = f" ({reason.word})"
    texts = (text.removesuffix(mark) for text in one.texts if text.endswith(mark))
    return next(texts, reason.words)
