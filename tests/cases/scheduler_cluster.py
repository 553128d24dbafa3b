"""The inputs of ``scheduler.yaml`` as objects: nodes with cards, pods, quotas, a world.

The head of the case file explains the forms. Usage that a card row states by itself (``used``,
``mem``, ``cores``) is laid over the snapshot, since no set of decisions may add up to it.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_operator import settings
from hami_operator.devices import registry as registries
from hami_operator.devices import request, usage, vendor
from hami_operator.protocol import decision, instant, keys, miglist, register
from hami_operator.scheduling import (
    demand,
    effects,
    quota,
    rules,
    snapshot,
    world,
)
from hami_operator.scheduling import node as nodes
from hami_operator.scheduling import pod as pods
from tests import builders, fakes
from tests.cases import loader

Case = Mapping[str, Any]
FILE: Final = "scheduler.yaml"
DOCUMENT: Final[Mapping[str, Any]] = loader.document(FILE) or {"cases": []}
DEFAULT_CARD: Final[Mapping[str, Any]] = DOCUMENT.get("defaults", {}).get("card", {})
FIXTURES: Final[Mapping[str, Any]] = DOCUMENT.get("fixtures", {})
MIG_LIST: Final = "hami.io/vgpu-mig-allocations"
RFC_3339: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_AGO: Final = re.compile(r"<now(?:-(\d+)([ms]))?>")
START: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def given(case: Case) -> dict[str, Any]:
    """``given`` with its fixture merged in."""
    stated = dict(case["given"])
    return {**FIXTURES.get(stated.pop("fixture", ""), {}), **stated}


def models(stated: Case) -> Sequence[str]:
    """The model texts for which a row must hold."""
    return stated.get("models", ["NVIDIA"])


def at(seconds: float) -> instant.Instant:
    """So long after the start."""
    return instant.Instant(monotonic_s=seconds, wall=START + datetime.timedelta(seconds=seconds))


def lock_value(text: str | None) -> str | None:
    """A lock value with its times filled in."""

    def time(found: re.Match[str]) -> str:
        ago_s = int(found[1] or 0) * {"m": 60, "s": 1, None: 0}[found[2]]
        at = fakes.START - datetime.timedelta(seconds=ago_s)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    return None if text is None else _AGO.sub(time, text)


def lock_matches(found: str | None, want: str | None) -> bool:
    """Whether a lock is the one that a row expects."""
    if want is None or found is None:
        return found is want is None
    pattern = re.escape(lock_value(want) or "").replace("<time>", RFC_3339)
    return re.fullmatch(pattern, found) is not None


def configured(stated: Case) -> settings.Settings:
    """Settings under the names of the case, in our spelling."""
    return settings.load(
        {key.replace("-", "_"): value for key, value in stated.get("settings", {}).items()}
    )


def profiles(raw: Iterable[Case]) -> tuple[register.Profile, ...]:
    """``profiles`` of a partitioned card."""
    return tuple(
        register.Profile(
            name=one["name"],
            memory_mib=one["memoryMB"],
            cores=one["core"],
            slices=one["sliceCount"],
            placements=places(one["placements"]),
        )
        for one in raw
    )


def places(raw: Iterable[Sequence[int]]) -> tuple[register.Placement, ...]:
    """``[[start, size], …]``."""
    return tuple(register.Placement(start=start, size=size) for start, size in raw)


def card(raw: Case, position: int, model: str, fixture: Iterable[Case] = ()) -> register.Card:
    """One card of a row; ``fixture`` is what it means with ``profiles: fixture``."""
    facts = {**DEFAULT_CARD, **raw}
    listed = facts.get("profiles", ())
    return register.Card(
        id=facts["id"],
        index=facts.get("index", position),
        count=facts["count"],
        memory_mib=facts["total_mem"],
        cores=facts["total_cores"],
        model=facts.get("type", model),
        numa=facts["numa"],
        mode=facts["mode"],
        healthy=facts["healthy"],
        mig_profiles=profiles(fixture if listed == "fixture" else listed),
    )


def card_usage(raw: Case, position: int = 0, model: str = "NVIDIA") -> usage.CardUsage:
    """A card with what others hold of it."""
    return usage.CardUsage(card(raw, position, model), held(raw))


def held(raw: Case) -> usage.Usage:
    """What others hold of a card."""
    facts = {**DEFAULT_CARD, **raw}
    taken = places(facts.get("placed", ()))
    return usage.Usage(facts["used"], facts["mem"], facts["cores"], places=taken)


def pick(raw: Sequence[Any]) -> decision.Pick:
    """``[id, mem, cores]``."""
    identity, memory, cores = raw
    return decision.Pick(id=identity, memory_mib=memory, cores=cores)


class Cluster:
    """A world with the nodes and pods of one row.

    Args:
        stated: ``given``, fixture merged.
        model: model text of cards without one.
    """

    def __init__(self, stated: Case, model: str = "NVIDIA") -> None:
        self.stated = stated
        self.registry = registries.default()
        self.settings = configured(stated)
        self.rules = rules.Rules.of(self.registry, self.settings)
        self.world = world.World(self.registry, self.settings)
        self.effects: list[effects.Effect] = []
        self._raw_pods: dict[str, dict[str, Any]] = {}
        self._versions = 0
        self.world.take_over(at(0))
        for name, cards in stated.get("nodes", {}).items():
            self.effects += self.world.node_seen(self._node(name, cards or (), model), at(0))
        for raw in stated.get("pods", ()):
            self.see(raw)
        for source in world.SOURCES:
            self.effects += self.world.synced(source, at(0))

    def _node(self, name: str, cards: Iterable[Case], model: str) -> nodes.Node:
        listed: dict[str, list[register.Card]] = {}
        for position, raw in enumerate(cards):
            word = {**DEFAULT_CARD, **raw}["backend"]
            made = card(raw, position, model, self.stated.get("profiles", ()))
            listed.setdefault(word, []).append(made)
        builder = builders.roomy(name)
        for word, each in listed.items():
            if word in self.registry.by_word:
                builder = builder.register(
                    word, each, form=register.Form.JSON, handshake=builders.ANSWERED
                )
        annotations = dict((self.stated.get("node_annotations") or {}).get(name, {}))
        if "pair_scores" in self.stated:
            pairs = self.stated["pair_scores"].items()
            linked = [{"uuid": uuid, "score": score} for uuid, score in pairs]
            annotations["hami.io/node-nvidia-score"] = json.dumps(linked)
        return builder.annotate(annotations).read()

    def see(self, raw: Case) -> None:
        """A pod of the API; what an earlier event said of it still holds."""
        known = self._raw_pods.setdefault(raw["name"], {})
        known.update(raw)
        self._versions += 1
        pod = bound_pod(known, self.registry, self._versions)
        self.effects += self.world.pod_seen(pod, at(1))

    def delete(self, name: str) -> None:
        """A pod is gone."""
        uid = self._raw_pods.get(name, {}).get("uid", name)
        self.effects += self.world.pod_gone(uid, at(1))

    def views(self) -> tuple[snapshot.NodeView, ...]:
        """The snapshot, with the usage that the card rows state."""
        return tuple(self._stated(view) for view in self.world.snapshot.views())

    def _stated(self, view: snapshot.NodeView) -> snapshot.NodeView:
        for raw in self.stated["nodes"][view.name] or ():
            word = {**DEFAULT_CARD, **raw}["backend"]
            if held(raw) != usage.UNUSED and word in view.cards:
                view = _with_usage(view, word, raw)
        return view

    def accounts(self, namespace: str) -> quota.Accounts | None:
        """Quota of a namespace; usage as stated, else as the ledger has it."""
        limits = quotas(self.stated, self.registry)
        stated = self.stated.get("quota_used")
        if stated is None:
            return limits.accounts(namespace, self.world.ledger)
        return lambda row: limits.account(namespace, row, stated_usage(stated, namespace, row))

    def quota_used(self, namespace: str) -> dict[str, int]:
        """Resource to what the pods of a namespace hold, in decision units."""
        taken = self.world.ledger.namespace_usage(namespace)
        found: dict[str, int] = {}
        for row in self.registry:
            one = taken.get(row.keyword, usage.UNUSED)
            found |= {row.quota_memory: one.memory_mib, row.quota_cores: one.cores}
        return found

    def cards(self) -> dict[str, dict[str, Any]]:
        """Card id to what is taken of it, and whether it may be used."""
        instances = self._instances()
        return {
            each.card.id: {
                "placed": [[one.start, one.size] for one in each.usage.places],
                "mig": instances.get(each.card.id, []),
                "used": each.usage.used,
                "mem": each.usage.memory_mib,
                "cores": each.usage.cores,
                "healthy": each.card.healthy,
            }
            for view in self.world.snapshot.views()
            for every in view.cards.values()
            for each in every
        }

    def _instances(self) -> dict[str, list[dict[str, Any]]]:
        """Card id to the instances that pods hold of it, with what the plugin made of them."""
        found: dict[str, list[dict[str, Any]]] = {}
        for entry in self.world.ledger:
            for one in miglist.decode(entry.annotations.get(MIG_LIST), key=MIG_LIST):
                instance: dict[str, Any] = {"profile": one.profile, "ready": one.made is not None}
                if one.made is not None:
                    instance["mig_uuid"] = one.made.mig_uuid
                    instance["gpu_instance_id"] = one.made.gpu_instance
                    instance["compute_instance_id"] = one.made.compute_instance
                found.setdefault(one.card, []).append(instance)
        return found


def _with_usage(view: snapshot.NodeView, word: str, raw: Case) -> snapshot.NodeView:
    """The node as it would be if that card were taken as stated."""
    taken = tuple(
        usage.CardUsage(each.card, held(raw)) if each.card.id == raw["id"] else each
        for each in view.cards[word]
    )
    every = {**view.cards, word: taken}
    return dataclasses.replace(view, cards=every, base=snapshot.totals(every))


def quotas(stated: Case, registry: registries.Registry) -> quota.Quotas:
    """``quota`` as ResourceQuota objects."""
    found = quota.Quotas(registry)
    for namespace, hard in stated.get("quota", {}).items():
        assert found.seen(resource_quota(namespace, "q", hard)).findings == ()
    return found


def resource_quota(namespace: str, name: str, hard: Case) -> dict[str, Any]:
    """An API object."""
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}"},
        "spec": {"hard": {key: str(value) for key, value in hard.items()}},
    }


def stated_usage(stated: Case, namespace: str, row: vendor.Vendor) -> usage.Usage:
    """``quota_used`` of one type."""
    used = stated.get(namespace, {})
    return usage.Usage(0, used.get(row.quota_memory, 0), used.get(row.quota_cores, 0))


def bound_pod(raw: Case, registry: registries.Registry, version: int) -> pods.Pod:
    """A pod in the API as we read it."""
    return pod_builder(raw, registry).version(version).read()


def pod_builder(raw: Case, registry: registries.Registry) -> builders.PodBuilder:
    """A pod in the API, by default Running on the node of its decision."""
    node = raw.get("node")
    builder = builders.pod(raw["name"], raw.get("ns", "default"))
    builder = builder.uid(raw.get("uid", raw["name"])).phase(raw.get("phase", "Running"))
    builder = builder.scheduler("hami-scheduler")
    for position in range(raw.get("inits", 0)):
        builder = builder.init(f"i{position}")
    for position in range(raw.get("apps", 1)):
        builder = builder.container(f"c{position}")
    for position, code in enumerate(raw.get("init_exit", ())):
        if code is not None:
            builder = builder.init_ended(f"i{position}", code)
    if raw.get("terminating"):
        builder = builder.terminating()
    if "created" in raw:
        builder = builder.created(raw["created"])
    if node is not None:
        builder = builder.on(node)
    written = {
        keys.VGPU_NODE: raw.get("vgpu_node", node),
        keys.BIND_PHASE: raw.get("bind_phase"),
        keys.BIND_TIME: raw.get("bind_time"),
    }
    for word, value in raw.get("allocated", {}).items():
        written[registry.by_word[word].pod.allocated] = value
    if "mig" in raw:
        written[MIG_LIST] = json.dumps(raw["mig"])
    for word, value in raw.get("to_allocate", {}).items():
        written[registry.by_word[word].pod.to_allocate] = value
    return builder.annotate({key: text for key, text in written.items() if text})


def pending_pod(raw: Case, registry: registries.Registry) -> pods.Pod:
    """The pod of ``when``, its requests as limits of the rows' resources."""
    policy = raw.get("policy", {})
    annotations = dict(raw.get("annotations", {}))
    for key, name in (("node", "node-scheduler-policy"), ("gpu", "gpu-scheduler-policy")):
        if key in policy:
            annotations[f"hami.io/{name}"] = policy[key]
    builder = builders.pod(raw.get("name", "p"), raw.get("ns", "default")).annotate(annotations)
    for each in raw.get("inits", ()):
        builder = builder.init(limits=limits(each, registry))
    for each in raw.get("apps", ()):
        builder = builder.container(limits=limits(each, registry))
    return builder.scheduler("hami-scheduler").read()


def limits(requests: Case, registry: registries.Registry) -> dict[str, str]:
    """One container's requests as limits; types without a row are left to ``demanded``."""
    found: dict[str, str] = {}
    for word, asked in requests.items():
        row = registry.by_word.get(word)
        if row is not None:
            names = row.resources
            found[names.count] = str(asked["n"])
            if "mem" in asked:
                found[names.memory] = str(asked["mem"] // row.mib_per_unit)
            if "cores" in asked:
                found[names.cores] = str(asked["cores"])
            if "percent" in asked:
                found[names.percent] = str(asked["percent"])
    return found


def demanded(raw: Case, pod: pods.Pod, registry: registries.Registry) -> demand.Demand:
    """The demand of the pod of ``when``, types without a row included."""
    read = demand.read(pod, registry)
    containers = [*raw.get("inits", ()), *raw.get("apps", ())]
    unknown = {word for each in containers for word in each if word not in registry.by_word}
    words = dict(read.words)
    for word in unknown:
        words[word] = tuple(
            request.Request(word=word, count=each[word]["n"], percent=100)
            if word in each
            else None
            for each in containers
        )
    return demand.build(words, read.kinds, invalid=read.invalid, privileged=read.privileged)
