"""The parts of the HTTP face that need no server."""

from __future__ import annotations

import datetime
import re
from typing import Any

import orjson
import pytest

from hami_operator.cluster.memory import (
    authorize,
    calls,
    discovery,
    faults,
    pages,
    records,
    refusals,
    replies,
    resources,
    routes,
    tables,
)
from tests import fakes
from tests.unit.memory import objects

NOW = fakes.START


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("/api/v1/pods", ("pods", "", "", ""), id="all pods"),
        pytest.param("/api/v1/namespaces/ns/pods", ("pods", "ns", "", ""), id="in a namespace"),
        pytest.param("/api/v1/namespaces/ns/pods/p", ("pods", "ns", "p", ""), id="one pod"),
        pytest.param(
            "/api/v1/namespaces/ns/pods/p/status", ("pods", "ns", "p", "status"), id="its status"
        ),
        pytest.param(
            "/api/v1/namespaces/ns/pods/p/binding", ("pods", "ns", "p", "binding"), id="binding"
        ),
        pytest.param("/api/v1/nodes/n", ("nodes", "", "n", ""), id="a node"),
        pytest.param("/api/v1/nodes/n/status", ("nodes", "", "n", "status"), id="node status"),
        pytest.param("/api/v1/namespaces", ("namespaces", "", "", ""), id="namespaces"),
        pytest.param("/api/v1/namespaces/ns", ("namespaces", "", "ns", ""), id="a namespace"),
        pytest.param(
            "/api/v1/namespaces/ns/status", ("namespaces", "", "ns", "status"), id="its status too"
        ),
        pytest.param("/api/v1/namespaces/status/pods", ("pods", "status", "", ""), id="odd name"),
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
            ("leases.coordination.k8s.io", "ns", "l", ""),
            id="a lease",
        ),
        pytest.param(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Abasic",
            ("clusterroles.rbac.authorization.k8s.io", "", "system:basic", ""),
            id="an escaped name",
        ),
        pytest.param("/api/v1/odd", None, id="an unknown kind"),
        pytest.param("/api/v1/namespaces/ns/nodes", None, id="a node has no namespace"),
        pytest.param("/api/v1/pods/p", None, id="a pod without namespace"),
        pytest.param("/api/v1/namespaces/ns/pods/p/log", None, id="an unknown subresource"),
        pytest.param("/api/v1/namespaces/ns/configmaps/c/status", None, id="no status"),
        pytest.param("/api/v1/namespaces/ns/pods/p/status/x", None, id="too long"),
        pytest.param("/apis/apps/v1", None, id="a group"),
        pytest.param("/healthz", None, id="health"),
        pytest.param("/", None, id="nothing"),
    ],
)
def test_paths(path: str, want: tuple[str, str, str, str] | None) -> None:
    target = routes.parse(path)
    found = target and (
        target.resource.name, target.namespace, target.name, target.subresource,
    )  # fmt: skip
    assert found == want


@pytest.mark.parametrize(
    ("method", "named", "watch", "want"),
    [
        pytest.param("GET", True, False, "get", id="get"),
        pytest.param("GET", False, False, "list", id="list"),
        pytest.param("GET", False, True, "watch", id="watch"),
        pytest.param("POST", False, False, "create", id="create"),
        pytest.param("PUT", True, False, "update", id="update"),
        pytest.param("PATCH", True, False, "patch", id="patch"),
        pytest.param("DELETE", True, False, "delete", id="delete"),
        pytest.param("DELETE", False, False, "deletecollection", id="delete a collection"),
        pytest.param("OPTIONS", True, False, "options", id="anything else"),
    ],
)
def test_verbs(method: str, named: bool, watch: bool, want: str) -> None:
    assert routes.verb(method, named=named, watch=watch) == want


def test_discovery_lists_every_row_once() -> None:
    groups = discovery.document("/apis", version="1.36.3")
    assert groups is not None
    places = [
        "/api/v1",
        *(
            f"/apis/{one['groupVersion']}"
            for group in groups["groups"]
            for one in group["versions"]
        ),
    ]
    listed = []
    for place in places:
        found = discovery.document(place, version="1.36.3")
        assert found is not None
        listed += [
            (found["groupVersion"], entry["name"], entry["namespaced"])
            for entry in found["resources"]
            if "/" not in entry["name"]
        ]
    rows = [(row.api_version, row.plural, row.namespaced) for row in resources.ALL]
    assert sorted(listed) == sorted(rows)


def test_of_several_versions_of_a_group_the_first_is_preferred() -> None:
    found = discovery.document("/apis/scheduling.k8s.io", version="1.36.3") or {}
    versions = [one["version"] for one in found["versions"]]
    assert (versions, found["preferredVersion"]["version"]) == (["v1", "v1alpha2"], "v1")


def test_discovery_of_pods() -> None:
    found = discovery.document("/api/v1", version="1.36.3") or {}
    pods = [entry for entry in found["resources"] if entry["name"].startswith("pods")]
    assert [(entry["name"], entry["kind"], entry["verbs"]) for entry in pods] == [
        ("pods", "Pod", list(resources.VERBS)),
        ("pods/status", "Pod", ["get", "patch", "update"]),
        ("pods/binding", "Binding", ["create"]),
        ("pods/eviction", "Eviction", ["create"]),
    ]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("/api", {"kind": "APIVersions"}, id="core"),
        pytest.param("/apis/apps", {"kind": "APIGroup", "name": "apps"}, id="a group"),
        pytest.param("/version", {"gitVersion": "v1.35.4", "minor": "35"}, id="version"),
        pytest.param("/openapi/v2", {"swagger": "2.0"}, id="OpenAPI 2"),
        pytest.param("/openapi/v3/apis/apps/v1", {"openapi": "3.0.0"}, id="OpenAPI of a group"),
        pytest.param("/apis/odd", None, id="an unknown group"),
        pytest.param("/apis/apps/v9", None, id="an unknown version"),
        pytest.param("/api/v1/x", None, id="no document"),
        pytest.param("/apis/a/b/c", None, id="too long"),
        pytest.param("/openapi/v9", None, id="an unknown OpenAPI"),
        pytest.param("/version/x", None, id="behind the version"),
        pytest.param("/odd", None, id="nothing"),
    ],
)
def test_documents(path: str, want: dict | None) -> None:
    found = discovery.document(path, version="1.35.4")
    assert (found and {key: found[key] for key in want or {}}) == want


def test_the_openapi_says_that_the_server_validates() -> None:
    index = discovery.document("/openapi/v3", version="1.36.3") or {}
    assert "apis/coordination.k8s.io/v1" in index["paths"]
    found = discovery.document("/openapi/v3/api/v1", version="1.36.3") or {}
    patch = found["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert [parameter["name"] for parameter in patch["parameters"]] == ["fieldValidation"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Pod"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param("", replies.Form.WHOLE, id="nothing said"),
        pytest.param("*/*", replies.Form.WHOLE, id="anything"),
        pytest.param("application/json", replies.Form.WHOLE, id="JSON"),
        pytest.param(
            "application/vnd.kubernetes.protobuf, application/json",
            replies.Form.WHOLE,
            id="the first that is offered",
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            replies.Form.METADATA,
            id="metadata of a list",
        ),
        pytest.param(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            replies.Form.TABLE,
            id="a table",
        ),
        pytest.param(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            replies.Form.WHOLE,
            id="an old table",
        ),
        pytest.param("application/json;as=Odd", None, id="an unknown form"),
        pytest.param("application/yaml", None, id="YAML"),
    ],
)
def test_forms(accept: str, want: replies.Form | None) -> None:
    if want is None:
        with pytest.raises(refusals.Refused) as caught:
            replies.form_of(accept)
        assert caught.value.code == 406
    else:
        assert replies.form_of(accept) is want


def test_a_list_in_its_three_forms() -> None:
    memory = objects.new_store()
    for name in ("a", "b", "c"):
        memory.create("configmaps", {**objects.config_map(name), "data": {"k": "v"}})
    page = memory.list("configmaps", limit=2)
    row = resources.find("configmaps")

    def shown(form: replies.Form) -> Any:
        return orjson.loads(replies.many(page, row, form, NOW))

    whole, metadata, table = (shown(form) for form in replies.Form)
    head = {"resourceVersion": "9", "continue": page.token, "remainingItemCount": 1}
    assert [found["metadata"] for found in (whole, metadata, table)] == [head] * 3
    assert (whole["kind"], whole["apiVersion"]) == ("ConfigMapList", "v1")
    assert [set(item) for item in whole["items"]] == [{"metadata", "data"}] * 2
    assert [set(item) for item in metadata["items"]] == [{"kind", "apiVersion", "metadata"}] * 2
    assert [row["cells"] for row in table["rows"]] == [["a", "0s"], ["b", "0s"]]
    assert table["rows"][0]["object"] == metadata["items"][0]


def test_one_object_in_its_three_forms() -> None:
    memory = objects.new_store()
    record = memory.create("pods", objects.pod())
    whole, metadata, table = (
        orjson.loads(replies.one(record, resources.PODS, form, NOW)) for form in replies.Form
    )
    assert whole == record.copy("pods")
    assert metadata == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": record.obj["metadata"],
    }
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(-5, "0s", id="the future"),
        pytest.param(119, "119s", id="seconds"),
        pytest.param(120, "2m", id="two minutes"),
        pytest.param(310, "5m10s", id="minutes and seconds"),
        pytest.param(3600, "60m", id="an hour"),
        pytest.param(5 * 3600, "5h", id="hours"),
        pytest.param(3 * 86400, "3d", id="days"),
    ],
)
def test_ages(seconds: int, want: str) -> None:
    created = (NOW - datetime.timedelta(seconds=seconds)).isoformat()
    assert tables.age(created, NOW) == want


def cells(resource: str, obj: dict, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "x", "creationTimestamp": objects.NOW, **metadata}
    record = records.Record({**obj, "metadata": meta}, 1)
    page = pages.Page([record], 1)
    row = resources.find(resource)
    table = orjson.loads(replies.many(page, row, replies.Form.TABLE, NOW))
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("obj", "metadata", "column", "want"),
    [
        pytest.param({"status": {"phase": "Running"}}, {}, "Status", "Running", id="its phase"),
        pytest.param({"status": {"reason": "Evicted"}}, {}, "Status", "Evicted", id="its reason"),
        pytest.param({}, {}, "Status", "<unknown>", id="nothing known"),
        pytest.param({}, {"deletionTimestamp": "x"}, "Status", "Terminating", id="going"),
        pytest.param(
            {"status": {"conditions": [{"reason": "SchedulingGated"}]}},
            {},
            "Status",
            "SchedulingGated",
            id="gated",
        ),
        pytest.param(
            {
                "spec": {"containers": [{}, {}]},
                "status": {"containerStatuses": [{"ready": True, "restartCount": 2}]},
            },
            {},
            "Ready",
            "1/2",
            id="ready containers",
        ),
        pytest.param({"spec": {"nodeName": "n"}}, {}, "Node", "n", id="its node"),
        pytest.param({}, {}, "Node", "<none>", id="no node"),
    ],
)
def test_pod_tables(obj: dict, metadata: dict, column: str, want: str) -> None:
    assert cells("pods", obj, **metadata)[column] == want


@pytest.mark.parametrize(
    ("obj", "labels", "column", "want"),
    [
        pytest.param({}, {}, "Status", "Unknown", id="no condition"),
        pytest.param(
            {"status": {"conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}]}},
            {},
            "Status",
            "Ready",
            id="ready",
        ),
        pytest.param(
            {
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            },
            {},
            "Status",
            "NotReady,SchedulingDisabled",
            id="not ready and cordoned",
        ),
        pytest.param({}, {}, "Roles", "<none>", id="no role"),
        pytest.param(
            {},
            {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""},
            "Roles",
            "a,b",
            id="roles",
        ),
        pytest.param(
            {
                "status": {
                    "addresses": [{"type": "Hostname"}, {"type": "InternalIP", "address": "1"}]
                }
            },
            {},
            "Internal-IP",
            "1",
            id="an address",
        ),
        pytest.param({}, {}, "Internal-IP", "<none>", id="no address"),
    ],
)
def test_node_tables(obj: dict, labels: dict, column: str, want: str) -> None:
    assert cells("nodes", obj, labels=labels)[column] == want


def test_event_tables() -> None:
    event = {
        "involvedObject": {"kind": "Pod", "name": "p"},
        "series": {"lastObservedTime": "2026-03-01T11:59:00.000000Z"},
        "reason": "r",
        "message": "m",
        "type": "Normal",
    }
    want = ["60s", "Normal", "r", "pod/p", "m", "x"]
    assert list(cells("events", event).values()) == want


def test_an_object_without_creation_time_has_no_age() -> None:
    assert tables.age(None, NOW) == "<unknown>"


def test_a_fault_hits_so_many_matching_requests() -> None:
    waiting = faults.Faults()
    first = faults.Fault(method="PATCH", path=re.compile("/a/.*"), times=2, status=500)
    always = faults.Fault(method="*", path=re.compile("/b"), times=faults.FOR_EVER, reset=True)
    waiting.add(first)
    waiting.add(always)
    hits = [
        waiting.take("PATCH", "/a/1"),
        waiting.take("GET", "/a/1"),
        waiting.take("PATCH", "/x/a/1"),
        waiting.take("PATCH", "/a/2"),
        waiting.take("PATCH", "/a/3"),
        waiting.take("GET", "/b"),
        waiting.take("POST", "/b"),
    ]
    assert hits == [first, None, None, first, None, always, always]
    assert waiting.waiting == (always,)
    waiting.clear()
    assert waiting.take("GET", "/b") is None
    assert (first.fails, always.fails) == (True, True)
    assert not faults.Fault(method="*", path=re.compile(""), latency_s=1).fails


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param("watch=true", True, id="true"),
        pytest.param("watch=1", True, id="one"),
        pytest.param("watch=false", False, id="false"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_which_requests_watch(query: str, want: bool) -> None:
    call = calls.Call(method="GET", path="/api/v1/pods", query=query)
    assert (call.watches, call.fault_method) == (want, "WATCH" if want else "GET")
    assert not calls.Call(method="DELETE", path="/", query=query).watches


def test_what_a_call_says() -> None:
    call = calls.Call(method="POST", path="/", query="limit=5&x=%2F", body=b'{"a":1}')
    assert (call.number("limit"), call.number("no"), call.parameters["x"]) == (5, 0, "/")
    assert call.json == {"a": 1}
    assert calls.Call(method="GET", path="/").json is None
    with pytest.raises(refusals.Refused, match="invalid syntax"):
        call.number("x")


ROLE = {
    "kind": "ClusterRole",
    "metadata": {"name": "r"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "pods/binding"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"], "verbs": ["*"]},
    ],
}
LOCAL_ROLE = {
    "kind": "Role",
    "metadata": {"name": "r", "namespace": "hami-system"},
    "rules": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}
    ],
}
SUBJECTS = [{"kind": "ServiceAccount", "namespace": "hami-system", "name": "op"}]
BINDINGS = [
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": SUBJECTS,
    },
    {
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "hami-system"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": SUBJECTS,
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "others"},
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "x", "name": "op"}],
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "unknown"},
        "roleRef": {"kind": "ClusterRole", "name": "unknown"},
        "subjects": SUBJECTS,
    },
]
OPERATOR = authorize.service_account([ROLE, LOCAL_ROLE, *BINDINGS], "hami-system", "op")


def access(verb: str, resource: str, **more: str) -> authorize.Access:
    return authorize.Access(verb=verb, resource=resource, **{"group": "", **more})


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(access("get", "pods", namespace="x"), "", id="granted everywhere"),
        pytest.param(access("create", "pods/binding", namespace="x"), "", id="a subresource"),
        pytest.param(
            access("patch", "pods/status", namespace="x", name="p"),
            'pods "p" is forbidden: User "system:serviceaccount:hami-system:op" cannot patch '
            'resource "pods/status" in API group "" in the namespace "x"',
            id="another subresource",
        ),
        pytest.param(
            access("list", "pods"),
            'pods is forbidden: User "system:serviceaccount:hami-system:op" cannot list resource '
            '"pods" in API group "" at the cluster scope',
            id="another verb",
        ),
        pytest.param(access("delete", "nodes", name="n"), "", id="by name"),
        pytest.param(
            access("delete", "nodes", name="m"), 'nodes "m" is forbidden', id="other name"
        ),
        pytest.param(
            access("update", "leases", group="coordination.k8s.io", namespace="hami-system"),
            "",
            id="granted in its namespace",
        ),
        pytest.param(
            access("update", "leases", group="coordination.k8s.io", namespace="default"),
            "leases.coordination.k8s.io is forbidden",
            id="not elsewhere",
        ),
    ],
)
def test_access(asked: authorize.Access, want: str) -> None:
    authorizer = authorize.Authorizer({"t": OPERATOR})
    if not want:
        authorizer.check(OPERATOR, asked)
        assert authorizer.used == {OPERATOR.user: {asked}}
        return
    with pytest.raises(refusals.Refused) as caught:
        authorizer.check(OPERATOR, asked)
    assert caught.value.code == 403
    assert want in caught.value.message
    assert authorizer.used == {}


def test_tokens() -> None:
    authorizer = authorize.Authorizer({"t": OPERATOR})
    assert authorizer.subject("Bearer t") is OPERATOR
    with pytest.raises(refusals.Refused) as caught:
        authorizer.subject("Bearer other")
    assert caught.value.code == 401
    assert authorize.Authorizer().subject("") is authorize.ADMIN


def test_the_attributes_of_a_target() -> None:
    target = routes.parse("/api/v1/namespaces/x/pods/p/binding")
    assert target is not None
    want = access("create", "pods/binding", namespace="x", name="p")
    assert authorize.Access.of(target, "create") == want


def test_a_refusal_is_a_status() -> None:
    causes = [refusals.required("a"), refusals.wrong("b", True, "odd"), refusals.required("a")]
    assert refusals.invalid("Pod", "p", causes).body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Pod "p" is invalid: [a: Required value, b: Invalid value: true: odd]',
        "reason": "Invalid",
        "details": {
            "name": "p",
            "kind": "Pod",
            "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "a"},
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: true: odd",
                    "field": "b",
                },
            ],
        },
        "code": 422,
    }
