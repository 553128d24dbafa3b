"""What the design takes for granted about an API server, as cases for the real one and ours.

Each fact is an async function of an `api.Api` whose name is the sentence. Facts share the
namespace `default`, make objects under fresh names and remove them again.
"""

import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.conformance.api import Answer, Api

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

Fact = Callable[[Api], Awaitable[None]]
Pod = dict[str, Any]


def fresh_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def path(pod: Pod, subresource: str = "") -> str:
    return f"{PODS}/{pod['metadata']['name']}{subresource}"


@contextlib.asynccontextmanager
async def new_pod(api: Api, *, spec: dict | None = None, **metadata: Any) -> AsyncIterator[Pod]:
    """Create a pending pod and remove it at the end, whatever has become of it."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": fresh_name("fact"), **metadata},
        "spec": {
            "containers": [{"name": "a", "image": "none"}],
            "schedulerName": "nobody",
            **(spec or {}),
        },
    }
    status, pod = await api.post(PODS, body)
    assert status == 201, pod
    try:
        yield pod
    finally:
        await api.delete(path(pod), gracePeriodSeconds="0")


async def bind(api: Api, pod: Pod, *, node: str = "n1", **metadata: Any) -> Answer:
    """Send a Binding whose metadata has the pod's name and these fields."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["metadata"]["name"], **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return await api.post(path(pod, "/binding"), body)


async def refetch(api: Api, pod: Pod) -> Pod:
    status, now = await api.get(path(pod))
    assert status == 200, now
    assert isinstance(now, dict)
    return now


def version(pod: Pod) -> str:
    return str(pod["metadata"]["resourceVersion"])


# ---- Binding -----------------------------------------------------------------------------------


async def a_binding_merges_annotations_and_labels_into_the_pod(api: Api) -> None:
    async with new_pod(api, annotations={"a": "1", "b": "1"}, labels={"l": "1"}) as pod:
        status, answer = await bind(api, pod, annotations={"b": "2", "c": "2"}, labels={"m": "2"})
        now = await refetch(api, pod)
        assert (status, answer["status"]) == (201, "Success")
        assert now["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "2"}
        assert now["metadata"]["labels"] == {"l": "1", "m": "2"}
        assert now["spec"]["nodeName"] == "n1"


async def a_binding_with_annotations_is_one_watch_event(api: Api) -> None:
    async with new_pod(api) as pod:
        await bind(api, pod, annotations={"a": "1"})
        await api.patch(path(pod), {"metadata": {"annotations": {"marker": "1"}}})
        _, (bound, marked) = await api.watch(
            PODS, count=2, resourceVersion=version(pod), fieldSelector=only(pod)
        )
        assert bound["type"] == "MODIFIED"
        assert bound["object"]["spec"]["nodeName"] == "n1"
        assert bound["object"]["metadata"]["annotations"] == {"a": "1"}
        assert marked["object"]["metadata"]["annotations"] == {"a": "1", "marker": "1"}


def only(pod: Pod) -> str:
    return f"metadata.name={pod['metadata']['name']}"


async def a_binding_sets_the_condition_pod_scheduled(api: Api) -> None:
    async with new_pod(api) as pod:
        await bind(api, pod)
        conditions = (await refetch(api, pod))["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions} == {"PodScheduled": "True"}


async def a_binding_with_another_uid_is_a_conflict(api: Api) -> None:
    async with new_pod(api) as pod:
        status, answer = await bind(api, pod, uid=str(uuid.uuid4()))
        assert (status, answer["reason"]) == (409, "Conflict")
        assert "Precondition failed: UID in precondition" in answer["message"]
        assert await refetch(api, pod) == pod


async def a_binding_with_a_stale_resource_version_is_a_conflict(api: Api) -> None:
    async with new_pod(api) as pod:
        await api.patch(path(pod), {"metadata": {"annotations": {"a": "1"}}})
        stale = {"uid": pod["metadata"]["uid"], "resourceVersion": version(pod)}
        status, answer = await bind(api, pod, **stale)
        assert (status, answer["reason"]) == (409, "Conflict")
        assert "Precondition failed: ResourceVersion in precondition" in answer["message"]
        assert "nodeName" not in (await refetch(api, pod))["spec"]


async def a_binding_with_the_right_uid_and_version_succeeds(api: Api) -> None:
    async with new_pod(api) as pod:
        right = {"uid": pod["metadata"]["uid"], "resourceVersion": version(pod)}
        status, _ = await bind(api, pod, **right)
        assert status == 201


async def a_second_binding_is_a_conflict_that_names_the_node(api: Api) -> None:
    async with new_pod(api) as pod:
        await bind(api, pod, node="n1")
        status, answer = await bind(api, pod, node="n2")
        name = pod["metadata"]["name"]
        assert (status, answer["message"]) == (
            409,
            f'Operation cannot be fulfilled on pods/binding "{name}": '
            f'pod {name} is already assigned to node "n1"',
        )


async def a_gated_pod_cannot_be_bound(api: Api) -> None:
    async with new_pod(api, spec={"schedulingGates": [{"name": "example.com/wait"}]}) as pod:
        status, answer = await bind(api, pod)
        name = pod["metadata"]["name"]
        assert status == 409
        assert f"pod {name} has non-empty .spec.schedulingGates" in answer["message"]


async def a_pod_that_is_being_deleted_cannot_be_bound(api: Api) -> None:
    async with new_pod(api, finalizers=["example.com/hold"]) as pod:
        try:
            await api.delete(path(pod))
            status, answer = await bind(api, pod)
            assert status == 409
            assert "is being deleted, cannot be assigned to a host" in answer["message"]
        finally:
            await api.patch(path(pod), {"metadata": {"finalizers": None}})


async def a_binding_of_a_missing_pod_is_not_found(api: Api) -> None:
    status, answer = await bind(api, {"metadata": {"name": fresh_name("missing")}})
    assert (status, answer["reason"]) == (404, "NotFound")


async def a_null_annotation_in_a_binding_becomes_an_empty_string(api: Api) -> None:
    async with new_pod(api, annotations={"a": "1"}) as pod:
        await bind(api, pod, annotations={"a": None})
        assert (await refetch(api, pod))["metadata"]["annotations"] == {"a": ""}


async def a_binding_is_not_validated_and_an_invalid_label_blocks_every_later_update(
    api: Api,
) -> None:
    async with new_pod(api) as pod:
        status, _ = await bind(api, pod, labels={"l": "x" * 72})
        later = {"metadata": {"annotations": {"a": "1"}}}
        refused, answer = await api.patch(path(pod), later)
        assert (await refetch(api, pod))["metadata"]["labels"] == {"l": "x" * 72}
        assert (status, refused, answer["reason"]) == (201, 422, "Invalid")


async def an_invalid_annotation_key_in_a_binding_blocks_status_updates_too(api: Api) -> None:
    async with new_pod(api) as pod:
        status, _ = await bind(api, pod, annotations={"bad key!": "1"})
        running = {"status": {"phase": "Running"}}
        refused, answer = await api.patch(path(pod, "/status"), running)
        assert (status, refused, answer["reason"]) == (201, 422, "Invalid")


async def too_many_bytes_of_annotations_in_a_binding_block_every_later_update(api: Api) -> None:
    async with new_pod(api) as pod:
        status, _ = await bind(api, pod, annotations={"a": "x" * 300 * 1024})
        refused, answer = await api.patch(path(pod), {"metadata": {"labels": {"l": "1"}}})
        assert (status, refused, answer["reason"]) == (201, 422, "Invalid")


async def a_binding_clears_the_nominated_node(api: Api) -> None:
    async with new_pod(api) as pod:
        await api.patch(path(pod, "/status"), {"status": {"nominatedNodeName": "n2"}})
        nominated = await refetch(api, pod)
        await bind(api, pod)
        assert nominated["status"]["nominatedNodeName"] == "n2"
        assert "nominatedNodeName" not in (await refetch(api, pod))["status"]


# ---- PATCH and DELETE --------------------------------------------------------------------------


async def a_patch_with_a_stale_resource_version_is_a_conflict(api: Api) -> None:
    async with new_pod(api) as pod:
        await api.patch(path(pod), {"metadata": {"annotations": {"a": "1"}}})
        stale = {"resourceVersion": version(pod), "annotations": {"a": "2"}}
        status, answer = await api.patch(path(pod), {"metadata": stale})
        assert (status, answer["reason"]) == (409, "Conflict")
        assert (await refetch(api, pod))["metadata"]["annotations"] == {"a": "1"}


async def a_patch_with_another_uid_is_invalid(api: Api) -> None:
    async with new_pod(api) as pod:
        other = {"uid": str(uuid.uuid4()), "annotations": {"a": "2"}}
        status, answer = await api.patch(path(pod), {"metadata": other})
        assert (status, answer["reason"]) == (422, "Invalid")
        assert "metadata.uid" in answer["message"]
        assert "field is immutable" in answer["message"]


async def a_patch_that_changes_nothing_keeps_the_resource_version(api: Api) -> None:
    async with new_pod(api, annotations={"a": "1"}) as pod:
        status, same = await api.patch(path(pod), {"metadata": {"annotations": {"a": "1"}}})
        assert (status, same) == (200, pod)


async def a_null_in_a_merge_patch_removes_the_key(api: Api) -> None:
    async with new_pod(api, annotations={"a": "1", "b": "1"}) as pod:
        _, now = await api.patch(path(pod), {"metadata": {"annotations": {"a": None}}})
        assert now["metadata"]["annotations"] == {"b": "1"}


async def a_delete_with_another_uid_is_a_conflict(api: Api) -> None:
    async with new_pod(api) as pod:
        options = {"preconditions": {"uid": str(uuid.uuid4())}}
        status, answer = await api.delete(path(pod), options)
        assert (status, answer["reason"]) == (409, "Conflict")
        assert await refetch(api, pod) == pod


async def a_deleted_pending_pod_is_gone_at_once(api: Api) -> None:
    async with new_pod(api) as pod:
        await api.delete(path(pod))
        status, _ = await api.get(path(pod))
        assert status == 404


async def a_deleted_bound_pod_stays_until_its_node_lets_it_go(api: Api) -> None:
    async with new_pod(api) as pod:
        await bind(api, pod)
        await api.delete(path(pod))
        assert "deletionTimestamp" in (await refetch(api, pod))["metadata"]
        await api.delete(path(pod), gracePeriodSeconds="0")
        status, _ = await api.get(path(pod))
        assert status == 404


async def an_eviction_of_a_pending_pod_removes_it(api: Api) -> None:
    async with new_pod(api) as pod:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod["metadata"]["name"]},
        }
        status, _ = await api.post(path(pod, "/eviction"), eviction)
        gone, _ = await api.get(path(pod))
        assert (status, gone) == (201, 404)


# ---- watch and list ----------------------------------------------------------------------------


async def a_bound_pod_leaves_a_selected_watch_with_its_previous_content(api: Api) -> None:
    async with new_pod(api) as pod:
        await bind(api, pod, annotations={"a": "1"})
        now = await refetch(api, pod)
        _, (event,) = await api.watch(
            PODS,
            count=1,
            resourceVersion=version(pod),
            fieldSelector=f"spec.nodeName=,{only(pod)}",
        )
        previous = {**pod, "metadata": {**pod["metadata"], "resourceVersion": version(now)}}
        assert (event["type"], event["object"]) == ("DELETED", previous)


async def a_failed_pod_leaves_a_selected_watch_with_its_previous_phase(api: Api) -> None:
    async with new_pod(api) as pod:
        _, now = await api.patch(path(pod, "/status"), {"status": {"phase": "Failed"}})
        _, (event,) = await api.watch(
            PODS,
            count=1,
            resourceVersion=version(pod),
            fieldSelector=f"status.phase!=Failed,{only(pod)}",
        )
        assert event["type"] == "DELETED"
        assert event["object"]["status"]["phase"] == "Pending"
        assert version(event["object"]) == version(now)


async def a_field_selector_lists_the_pending_pods_of_one_scheduler(api: Api) -> None:
    mine = fresh_name("scheduler")
    selector = f"spec.schedulerName={mine},spec.nodeName="
    async with (
        new_pod(api, spec={"schedulerName": mine}) as waiting,
        new_pod(api, spec={"schedulerName": mine}) as bound,
        new_pod(api),
    ):
        await bind(api, bound)
        _, found = await api.get(PODS, fieldSelector=selector)
        names = [item["metadata"]["name"] for item in found["items"]]
        assert names == [waiting["metadata"]["name"]]


async def a_list_can_be_asked_for_metadata_alone(api: Api) -> None:
    async with new_pod(api, annotations={"a": "1"}) as pod:
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        _, found = await api.get(PODS, accept=accept, fieldSelector=only(pod))
        assert found["kind"] == "PartialObjectMetadataList"
        (item,) = found["items"]
        assert item["metadata"]["annotations"] == {"a": "1"}
        assert "spec" not in item


# ---- events ------------------------------------------------------------------------------------


def event(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": fresh_name("event")},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Fact",
        "action": "Testing",
        "note": "one text",
        "reportingController": "example.com/tests",
        "reportingInstance": "tests-1",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"},
        **changes,
    }


async def the_note_of_an_event_is_immutable_but_its_series_is_not(api: Api) -> None:
    status, made = await api.post(EVENTS, event())
    assert status == 201, made
    where = f"{EVENTS}/{made['metadata']['name']}"
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    repeated, now = await api.patch(where, {"series": series})
    refused, answer = await api.patch(where, {"note": "another text"})
    await api.delete(where)
    assert (repeated, now["series"]["count"]) == (200, 2)
    assert (refused, answer["reason"]) == (422, "Invalid")
    assert "field is immutable" in answer["message"], answer


async def a_note_of_more_than_1024_bytes_is_invalid(api: Api) -> None:
    longest = event(note="ä" * 512)
    status, made = await api.post(EVENTS, longest)
    refused, answer = await api.post(EVENTS, event(note="ä" * 512 + "b"))
    await api.delete(f"{EVENTS}/{longest['metadata']['name']}")
    assert (status, made.get("note")) == (201, "ä" * 512)
    assert (refused, answer["reason"]) == (422, "Invalid")


FACTS: tuple[Fact, ...] = (
    a_binding_merges_annotations_and_labels_into_the_pod,
    a_binding_with_annotations_is_one_watch_event,
    a_binding_sets_the_condition_pod_scheduled,
    a_binding_with_another_uid_is_a_conflict,
    a_binding_with_a_stale_resource_version_is_a_conflict,
    a_binding_with_the_right_uid_and_version_succeeds,
    a_second_binding_is_a_conflict_that_names_the_node,
    a_gated_pod_cannot_be_bound,
    a_pod_that_is_being_deleted_cannot_be_bound,
    a_binding_of_a_missing_pod_is_not_found,
    a_null_annotation_in_a_binding_becomes_an_empty_string,
    a_binding_is_not_validated_and_an_invalid_label_blocks_every_later_update,
    an_invalid_annotation_key_in_a_binding_blocks_status_updates_too,
    too_many_bytes_of_annotations_in_a_binding_block_every_later_update,
    a_binding_clears_the_nominated_node,
    a_patch_with_a_stale_resource_version_is_a_conflict,
    a_patch_with_another_uid_is_invalid,
    a_patch_that_changes_nothing_keeps_the_resource_version,
    a_null_in_a_merge_patch_removes_the_key,
    a_delete_with_another_uid_is_a_conflict,
    a_deleted_pending_pod_is_gone_at_once,
    a_deleted_bound_pod_stays_until_its_node_lets_it_go,
    an_eviction_of_a_pending_pod_removes_it,
    a_bound_pod_leaves_a_selected_watch_with_its_previous_content,
    a_failed_pod_leaves_a_selected_watch_with_its_previous_phase,
    a_field_selector_lists_the_pending_pods_of_one_scheduler,
    a_list_can_be_asked_for_metadata_alone,
    the_note_of_an_event_is_immutable_but_its_series_is_not,
    a_note_of_more_than_1024_bytes_is_invalid,
)


def sentence(fact: Fact) -> str:
    """Return the fact's name as an id for parametrised tests."""
    return getattr(fact, "__name__", repr(fact)).replace("_", " ")
