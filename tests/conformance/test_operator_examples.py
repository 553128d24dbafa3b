"""Every example of the manifests is admitted, placed and served, and does what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_operator.devices import registry
from hami_operator.simulator import audit, catalogue, takings
from tests.conformance import servers, webhooks
from tests.conformance.cluster import SCHEDULER, Cluster

ROOT = servers.MANIFESTS / "examples"
FOLDERS = sorted({path.parent for path in ROOT.rglob("*.yaml")})
FAMILIES = (*catalogue.MODELS, "nvidia+hcu")
HOSTS = catalogue.hosts(len(FAMILIES), FAMILIES)
"""As ``hami-operator simulate`` makes them: an example names a card of the first node."""

Raw = dict[str, Any]


def documents(folder: Path) -> list[Raw]:
    """All objects of a folder."""
    files = sorted(folder.rglob("*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def pods(folder: Path) -> dict[str, Raw]:
    """Its pods by their names."""
    return {one["metadata"]["name"]: one for one in documents(folder) if one["kind"] == "Pod"}


class Placed:
    """A pod that runs, and what is known of where."""

    def __init__(self, pod: Raw, node: Raw, all_pods: list[Raw]) -> None:
        self.name = audit.name(pod)
        self.node = node
        self.decisions = dict(takings.decisions(pod))
        self.instances = takings.instances(pod)
        self._loads = audit.loads([node], [one for one in all_pods if on(one, node)])

    @property
    def slots(self) -> list[list[str]]:
        """Ids of the cards of each container, of the only decision."""
        (found,) = self.decisions.values()
        return [[device.id for device in slot] for slot in found]

    @property
    def devices(self) -> list[takings.Device]:
        """All entries of all decisions."""
        return [one for slots in self.decisions.values() for slot in slots for one in slot]

    @property
    def cards(self) -> list[Raw]:
        """Register entries of the cards of the only container that has some."""
        listed = json.loads(self.node["metadata"]["annotations"]["hami.io/node-nvidia-register"])
        by_id = {one["id"]: one for one in listed}
        (ids,) = filter(None, self.slots)
        return [by_id[id] for id in ids]

    @property
    def owners(self) -> set[str]:
        """Pods on the pod's cards."""
        name = self.node["metadata"]["name"]
        ids = [id for slot in self.slots for id in slot]
        return {owner for id in ids for owner in self._loads[name, id].owners}


def on(pod: Raw, node: Raw) -> bool:
    return bool(pod["spec"].get("nodeName") == node["metadata"]["name"])


PROMISES: Mapping[str, Callable[[Placed], bool]] = {
    "exclusive": lambda one: one.owners == {one.name},
    "two-cards": lambda one: len({card["id"] for card in one.cards}) == 2,
    "by-type": lambda one: "A100" in one.cards[0]["type"] or "H100" in one.cards[0]["type"],
    "by-uuid": lambda one: one.slots == [["GPU-9c5df9d1-095d-5f65-a3b6-d06a6970a51f"]],
    "numa": lambda one: len({card.get("numa", 0) for card in one.cards}) == 1,
    "mig": lambda one: (
        [made["profile"] for made in one.instances] == ["2g.10gb"]
        and one.instances[0]["migUUID"].startswith("MIG-")
    ),
    "init-container": lambda one: [*map(len, one.slots)] == [1, 1],
    "sidecar": lambda one: [*map(len, one.slots)] == [1, 1, 0],
    "several-containers": lambda one: [*map(len, one.slots)] == [1, 1],
    "two-families": lambda one: (
        {key: [*map(len, slots)] for key, slots in one.decisions.items()}
        == {
            "hami.io/vgpu-devices-allocated": [1, 0],
            "hami.io/hcu-devices-allocated": [0, 1],
        }
    ),
    "vastai-dies": lambda one: len(one.slots[0]) == 2,
    "topology-aware": lambda one: len({card.get("index", 0) // 2 for card in one.cards}) == 1,
    "enflame-size": lambda one: one.devices[0].memory_mib == 20480,
}
"""What an example says it does; beside this all of them must run and leave nothing behind."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_the_examples_of_a_folder_are_admitted_and_run(
    cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    issued = webhooks.issue(tmp_path)
    names = [*pods(folder)]
    async with cluster.fleet(HOSTS):
        operator = await cluster.deciding(*webhooks.flags(tmp_path))
        async with webhooks.registered(cluster, await webhooks.port(operator), issued):
            await apply(cluster, folder)
            await cluster.run(*names)
        nodes, found = await cluster.snapshot()
        assert list(audit.findings(nodes, found)) == []
        by_name = {audit.name(one): one for one in nodes}
        for pod in found:
            name = pod["metadata"]["name"]
            placed = Placed(pod, by_name[pod["spec"]["nodeName"]], found)
            assert placed.decisions, name
            assert name not in PROMISES or PROMISES[name](placed), (name, pod["metadata"])
        await cluster.delete(*names)
        await cluster.until(lambda: not cluster.pods.all(), "the pods are gone")
        assert [one for one in await cluster.cards() if one["slots_used"] or one["owners"]] == []


async def apply(cluster: Cluster, folder: Path) -> None:
    in_memory = isinstance(cluster.server, servers.Memory)  # it has no schema to give
    validation = "false" if in_memory else "strict"
    await asyncio.to_thread(
        servers.kubectl,
        cluster.server,
        "apply",
        f"--validate={validation}",
        f"--namespace={cluster.namespace}",
        "--recursive",
        f"--filename={folder}",
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_examples_are_named_once_and_name_their_scheduler(folder: Path) -> None:
    listed = [one for one in documents(folder) if one["kind"] == "Pod"]
    assert len(pods(folder)) == len(listed)
    assert {one["spec"].get("schedulerName") for one in listed} == {SCHEDULER}


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.yaml")), ids=lambda file: file.stem)
def test_an_example_begins_with_what_it_is_for(file: Path) -> None:
    assert file.read_text().startswith("# ")


def test_every_promise_is_that_of_an_example() -> None:
    assert PROMISES.keys() <= {name for folder in FOLDERS for name in pods(folder)}


def test_every_family_has_an_example() -> None:
    """Rows of one vendor that differ by the chip are one family."""
    asked = {
        resource
        for pod in pods(ROOT / "families").values()
        for container in pod["spec"]["containers"]
        for resource in container["resources"]["limits"]
    }
    families: dict[object, set[str]] = {}
    for row in registry.default():
        family = row.file.path if row.file.word_key else row.keyword
        families.setdefault(family, set()).update(row.resources.names)
    assert [family for family, names in families.items() if not names & asked] == []


def test_the_ids_in_the_examples_are_those_of_simulated_cards() -> None:
    first = HOSTS[0]
    cards = first.equipment[0].model.cards(first.name, first.equipment[0].number)
    by_uuid = pods(ROOT / "features")["by-uuid"]["metadata"]["annotations"]
    assert [*by_uuid.values()] == [cards[0].id]
