"""One test per row of the scheduler's cases about device plugins, run by the simulated one.

The rows say what the plugins of real nodes do. The simulated fleet, which every other test of the
operator trusts, has to do the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from hami_operator import clock, errors
from hami_operator.cluster.kubernetes import admin
from hami_operator.cluster.memory import server, store
from hami_operator.devices import registry
from hami_operator.protocol import keys
from hami_operator.simulator import allocation, catalogue, kubelet, plugin, response, service
from tests import builders
from tests.cases import loader, scheduler_cluster

Case = Mapping[str, Any]
ROWS: Final = [
    row
    for row in (loader.rows(scheduler_cluster.FILE) if scheduler_cluster.DOCUMENT["cases"] else [])
    if row["when"]["op"].startswith("plugin_")
]
VENDORS: Final = registry.default()
NVIDIA: Final = VENDORS.by_word["NVIDIA"]
NODE: Final = "n"
_GIVEN: Final = frozenset(
    {"api", "bind_phase", "containers", "lock", "pods", "segments", "to_allocate"}
)


class Plugin:
    """The NVIDIA plugin of a node, with the pod ``ns/p`` that waits for it."""

    def __init__(self, api: server.ApiServer, client: admin.Admin, stated: Case) -> None:
        assert stated.keys() <= _GIVEN, stated.keys() - _GIVEN
        self._api = api
        self._patches: list[Mapping[str, Any]] = []
        self._faults = {name: list(steps) for name, steps in stated.get("api", {}).items()}
        assert self._faults.keys() <= {"patch_bind_phase"}
        self._install(client)
        nvidia = catalogue.Equipment(model=catalogue.MODELS["nvidia"], number=1)
        self._service = service.Service(
            NODE,
            {"NVIDIA": plugin.install(NVIDIA, nvidia, NODE)},
            client,
            VENDORS,
            waiting=tuple,
            time=clock.SystemClock(),
        )
        lock = scheduler_cluster.lock_value(stated.get("lock"))
        node = builders.roomy(NODE).annotate({keys.NODE_LOCK: lock} if lock else {})
        self.create("nodes", node)
        for raw in stated.get("pods", ()):
            self.create("pods", scheduler_cluster.pod_builder(raw, VENDORS))

    def _install(self, client: admin.Admin) -> None:
        """See every PATCH of a pod, and let those fail that a row wants to fail."""
        send = client.patch_pod

        async def patch(namespace: str, name: str, body: Any) -> Any:
            annotations = body["metadata"]["annotations"]
            steps = self._faults.get("patch_bind_phase", ())
            if keys.BIND_PHASE in annotations and steps:
                raise errors.ApiError(steps.pop(0)["error"])
            self._patches.append(annotations)
            return await send(namespace, name, body)

        client.patch_pod = patch  # type: ignore[method-assign]

    def create(self, kind: str, builder: Any) -> None:
        raw = builder.raw()
        del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
        namespace, status = raw["metadata"].get("namespace", ""), raw.pop("status", {})
        if namespace and self._find("namespaces", namespace) is None:
            self._api.call(self._api.store.create, "namespaces", {"metadata": {"name": namespace}})
        self._api.call(self._api.store.create, kind, raw, namespace=namespace)
        if status:
            key = (namespace, raw["metadata"]["name"])
            self._api.call(
                self._api.store.patch, kind, key, {"status": status}, subresource="status"
            )

    def _find(self, kind: str, name: str, namespace: str = "") -> Any:
        return self._api.call(self._api.store.find, kind, (namespace, name))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Those of the pod."""
        found: Any = self._find("pods", "p", "ns").obj["metadata"]
        return found.get("annotations", {})

    @property
    def lock(self) -> str | None:
        found: Any = self._find("nodes", NODE).obj["metadata"]
        return found.get("annotations", {}).get(keys.NODE_LOCK)

    @property
    def unserved(self) -> list[str]:
        """The segments that are left."""
        return list(filter(None, self.annotations[NVIDIA.pod.to_allocate].split(";")))

    def patches_of(self, key: str) -> int:
        return sum(key in one for one in self._patches)

    async def allocate(self, *amounts: int) -> tuple[response.Response, ...] | allocation.Refused:
        """One request, a container for each amount of cards."""
        calls = [kubelet.Call(container="", word="NVIDIA", amount=one) for one in amounts]
        return await self._service.allocate("NVIDIA", calls)

    async def find(self) -> str | None:
        found = await self._service.find("NVIDIA")
        return None if isinstance(found, allocation.Refused) else str(found["metadata"]["name"])


@contextlib.asynccontextmanager
async def _plugin(stated: Case) -> AsyncIterator[Plugin]:
    with server.ApiServer(store.Store()) as api:
        client = await admin.Admin.connect(server=api.url)
        try:
            yield Plugin(api, client, stated)
        finally:
            await client.close()


def _pod(containers: Sequence[Any], value: str, phase: str) -> builders.PodBuilder:
    made = builders.pod("p", "ns").phase("Pending").on(NODE)
    for one in containers:
        name, env = (one, {}) if isinstance(one, str) else (one["name"], one["env"])
        listed = [{"name": key, "value": text} for key, text in env.items()]
        made = made.container(name, env=listed)
    written = {keys.VGPU_NODE: NODE, keys.BIND_TIME: "1", keys.BIND_PHASE: phase}
    return made.annotate({**written, NVIDIA.pod.to_allocate: value})


def _known(when: Case, want: Case, asked: set[str], told: set[str]) -> None:
    """Nothing of a row is passed over."""
    assert when.keys() - {"op"} <= asked
    assert want.keys() <= told


async def _allocate(stated: Case, when: Case, want: Case) -> None:
    _known(when, want, {"calls", "in_one_request"}, {*_AFTER, *_AT_LAST, "error", _PRELOAD})
    containers, value = stated["containers"], stated["to_allocate"]
    async with _plugin(stated) as one:
        one.create("pods", _pod(containers, value, stated.get("bind_phase", "allocating")))
        calls = when["calls"]
        requests = [calls] if when.get("in_one_request") else [[amount] for amount in calls]
        answers = []
        after: dict[str, list[Any]] = {name: [] for name in _AFTER}
        for request in requests:
            before = one.patches_of(NVIDIA.pod.to_allocate)
            answers.append(await one.allocate(*request))
            for name, read in _AFTER.items():
                after[name].append(read(one) - before if name == _PATCHES else read(one))
        _compare(one, answers, after, want)


_PATCHES: Final = "patches_of_to_allocate"
_PRELOAD: Final = "ld_so_preload_mounted"
_AFTER: Final[Mapping[str, Callable[[Plugin], Any]]] = {
    _PATCHES: lambda one: one.patches_of(NVIDIA.pod.to_allocate),
    "unserved_after": lambda one: len(one.unserved),
    "bind_phase_after": lambda one: one.annotations[keys.BIND_PHASE],
    "lock_after": lambda one: one.lock,
}
"""What is looked at after each request."""
_AT_LAST: Final[Mapping[str, Callable[[Plugin], Any]]] = {
    "bind_phase": lambda one: one.annotations[keys.BIND_PHASE],
    "lock": lambda one: one.lock,
}


def _compare(one: Plugin, answers: Sequence[Any], after: Case, want: Case) -> None:
    for name in after.keys() & want.keys():
        stated = want[name]
        if name == "lock_after":
            stated = [scheduler_cluster.lock_value(each) for each in stated]
        assert after[name] == stated, name
    for name in _AT_LAST.keys() & want.keys():
        stated = scheduler_cluster.lock_value(want[name])
        assert _AT_LAST[name](one) == stated, name
    refused = [answer.why for answer in answers if isinstance(answer, allocation.Refused)]
    assert len(refused) == ("error" in want), refused
    assert want.get("error", "<any>") in ("<any>", *(why.partition(":")[0] for why in refused))
    if _PRELOAD in want:
        given = [each for answer in answers for each in answer]
        assert [response.PRELOAD in each.mounts for each in given] == want[_PRELOAD]


async def _pop(stated: Case, when: Case, want: Case) -> None:
    _known(when, want, {"times"}, {"popped", "error"})
    segments = stated["segments"]
    value = "".join("".join(f"{id},NVIDIA,1,1:" for id in one) + ";" for one in segments)
    async with _plugin(stated) as one:
        one.create("pods", _pod(stated.get("containers", ["c0"]), value, "allocating"))
        popped: list[Any] = []
        sizes = [*filter(None, map(len, segments)), 1]
        for size in sizes[: when.get("times", 1)]:
            answer = await one.allocate(size)
            if isinstance(answer, allocation.Refused):
                assert want.get("error", "") in answer.why
                popped.append("error")
                continue
            popped += [[each.container, *(pick.id for pick in each.picks)] for each in answer]
    assert popped == want.get("popped", ["error"])


async def _find(stated: Case, when: Case, want: Case) -> None:
    _known(when, want, {"node"}, {"pod"})
    assert when["node"] == NODE
    async with _plugin(stated) as one:
        assert await one.find() == want["pod"]


_RUN: Final[Mapping[str, Callable[..., Any]]] = {
    "plugin_allocate": _allocate,
    "plugin_pop": _pop,
    "plugin_find": _find,
}


@pytest.mark.parametrize("case", loader.params(ROWS, {}))
async def test_row(case: Case) -> None:
    stated = scheduler_cluster.given(case)
    await _RUN[case["when"]["op"]](stated, case["when"], case["expect"])


def test_rows_are_there_unless_another_folder_is_run() -> None:
    assert ROWS or loader.OTHER
