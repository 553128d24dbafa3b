"""Puts the objects of a scenario on a real API server, and takes them away again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.api import Api
from tests.differential import chance, claims, generate, oracle, relations

Raw = chance.Raw

STORAGE: Final = "/apis/storage.k8s.io/v1"
CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
GLOBAL: Final = {
    "storageclasses": f"{STORAGE}/storageclasses",
    "csidrivers": f"{STORAGE}/csidrivers",
    "nodes": "/api/v1/nodes",
    "csinodes": f"{STORAGE}/csinodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "volumeattachments": f"{STORAGE}/volumeattachments",
    "deviceclasses": f"/apis/{claims.API}/deviceclasses",
    "resourceslices": f"/apis/{claims.API}/resourceslices",
}
"""Path of each kind without a namespace, in the order of creation."""
LOCAL: Final = {
    "persistentvolumeclaims": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "csistoragecapacities": STORAGE + "/namespaces/{}/csistoragecapacities",
    "services": "/api/v1/namespaces/{}/services",
    "resourceclaims": "/apis/" + claims.API + "/namespaces/{}/resourceclaims",
    "pods": "/api/v1/namespaces/{}/pods",
}
ORDER: Final = (
    "storageclasses",
    "csidrivers",
    "nodes",
    "csinodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "csistoragecapacities",
    "volumeattachments",
    "services",
    "deviceclasses",
    "resourceslices",
    "resourceclaims",
    "pods",
)
PROTECTED: Final = ("persistentvolumeclaims", "persistentvolumes", "resourceclaims")
"""What has finalizers for which nobody is here."""
TOKEN: Final = "offer.example/"
"""A resource that each node has under its own name: who asks for one can be nowhere else."""
_MERGED: Final = ("matchLabelKeys", "mismatchLabelKeys")


class Stage:
    """One API server, for one scenario at a time.

    Args:
        api: as the admin.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def prepare(self) -> None:
        """What all scenarios share."""
        for name, labels in chance.NAMESPACES.items():
            if name != chance.OWN:
                await self._create("/api/v1/namespaces", {"metadata": {"name": name}})
            change = {"metadata": {"labels": labels}}
            await self._change(f"/api/v1/namespaces/{name}", change)
        await self._create(CLASSES, bare(generate.runtime_class()))

    async def put(self, scenario: oracle.Scenario) -> None:
        """Create everything but the pod that is to be placed."""
        uids: dict[str, str] = {}
        for kind in ORDER:
            for raw in scenario["kinds"].get(kind, ()):
                made = prepared(kind, raw, uids)
                found = await self._create(path(kind, raw), made)
                uids[raw["metadata"]["uid"]] = found["metadata"]["uid"]
                await self._complete(kind, raw, found)

    async def clear(self) -> None:
        """Remove whatever scenarios may have made."""
        for kind in reversed(ORDER):
            places = [GLOBAL[kind]] if kind in GLOBAL else []
            if kind in LOCAL:
                places = [LOCAL[kind].format(name) for name in chance.NAMESPACES]
            for place in places:
                await self._empty(place, protected=kind in PROTECTED)

    # ---- single objects

    async def create_pod(self, pod: Raw) -> None:
        """Create a pod that somebody is to place."""
        await self._create(path("pods", pod), bare(pod))

    async def delete_pod(self, name: str) -> None:
        """Delete it at once."""
        place = f"{LOCAL['pods'].format(chance.OWN)}/{name}"
        status, answer = await self._api.delete(place, gracePeriodSeconds="0")
        assert status == 200, answer

    async def _create(self, place: str, body: Raw) -> Raw:
        status, answer = await self._api.post(place, body)
        assert status == 201, f"{place}: {answer.get('message', answer)}"
        found: Raw = answer
        return found

    async def _change(self, place: str, body: Raw) -> None:
        status, answer = await self._api.patch(place, body)
        assert status == 200, f"{place}: {answer.get('message', answer)}"

    async def _complete(self, kind: str, raw: Raw, found: Raw) -> None:
        """What cannot be said when an object is created."""
        name, place = raw["metadata"]["name"], path(kind, raw)
        if kind == "nodes":
            taints = raw["spec"].get("taints")
            if found["spec"].get("taints") != taints:
                await self._change(f"{place}/{name}", {"spec": {"taints": taints}})
        elif kind in {*PROTECTED, "pods"}:
            await self._change(f"{place}/{name}/status", {"status": raw["status"]})
        if "deletionTimestamp" in raw["metadata"]:
            status, answer = await self._api.delete(f"{place}/{name}")
            assert status in {200, 202}, answer

    async def _empty(self, place: str, *, protected: bool) -> None:
        if place.endswith("/services"):
            await self._empty_slowly(place)
            return
        status, answer = await self._api.delete(place, gracePeriodSeconds="0")
        assert status == 200, answer
        if not protected:
            return
        _, left = await self._api.get(place)
        for one in left["items"]:
            change: Raw = {"metadata": {"finalizers": None}}
            await self._api.patch(f"{place}/{one['metadata']['name']}", change)

    async def _empty_slowly(self, place: str) -> None:
        """Services, of which one is the API server's own."""
        _, found = await self._api.get(place)
        for one in found["items"]:
            if one["metadata"]["name"] != "kubernetes":
                await self._api.delete(f"{place}/{one['metadata']['name']}")


def path(kind: str, raw: Raw) -> str:
    """Where an object belongs."""
    return GLOBAL[kind] if kind in GLOBAL else LOCAL[kind].format(raw["metadata"]["namespace"])


def bare(raw: Raw) -> Raw:
    """An object as a user would write it."""
    made = copy.deepcopy(raw)
    kept = ("name", "namespace", "labels", "annotations")
    meta = made["metadata"]
    made["metadata"] = {key: meta[key] for key in kept if key in meta}
    if made.get("kind") == "Pod":
        made.pop("status", None)
        _unmerge(made["spec"])
    return made


def prepared(kind: str, raw: Raw, uids: Mapping[str, str]) -> Raw:
    """An object as it is created; with the UIDs that the server has given."""
    made = bare(raw)
    if kind == "nodes":
        name = made["metadata"]["name"]
        made["status"]["allocatable"][f"{TOKEN}{name}"] = "1"
    reference = made["spec"].get("claimRef", {}) if kind == "persistentvolumes" else {}
    if reference.get("uid") in uids:
        reference["uid"] = uids[reference["uid"]]
    return made


def _unmerge(spec: Raw) -> None:
    """Take out of selectors what the server will put there."""
    for holder in _selecting(spec):
        if any(holder.get(field) for field in _MERGED):
            selector = holder["labelSelector"]
            left = [
                one
                for one in selector.get("matchExpressions", ())
                if one["key"] != relations.MERGED
            ]
            selector.pop("matchExpressions", None)
            if left:
                selector["matchExpressions"] = left


def _selecting(spec: Raw) -> list[Any]:
    affinity = spec.get("affinity", {})
    terms = [
        term.get("podAffinityTerm", term)
        for kind in ("podAffinity", "podAntiAffinity")
        for strength in affinity.get(kind, {}).values()
        for term in strength
    ]
    return [*terms, *spec.get("topologySpreadConstraints", ())]
