"""Who belongs to which gang, and how large it has to be."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator import errors
from hami_operator.protocol import keys
from hami_operator.scheduling import gang
from tests import builders

NAME, SIZE = keys.GANG_NAME, keys.GANG_MIN_MEMBER
GROUP = "scheduling.x-k8s.io/pod-group"


def pod(name: str = "p") -> builders.PodBuilder:
    return builders.pod(name)


def member(name: str, of: str = "g", size: str | None = None) -> Any:
    values = {NAME: of} | ({} if size is None else {SIZE: size})
    return pod(name).annotate(values).read()


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(pod(), gang.ALONE, id="a pod that stands alone"),
        pytest.param(pod().annotate({SIZE: "3"}), gang.ALONE, id="a size without a name"),
        pytest.param(
            pod().annotate({NAME: "g", SIZE: "16"}),
            gang.Membership(name="g", size=16),
            id="our pair of annotations",
        ),
        pytest.param(
            pod().label(GROUP, "g"), gang.Membership(name="g"), id="the PodGroup's label"
        ),
        pytest.param(
            pod().annotate({GROUP: "g"}), gang.Membership(name="g"), id="the same as annotation"
        ),
        pytest.param(
            pod().label(GROUP, "g").annotate({SIZE: "2"}),
            gang.Membership(name="g", size=2),
            id="the label with our size",
        ),
        pytest.param(
            pod().label(GROUP, "theirs").annotate({NAME: "ours"}),
            gang.Membership(name="ours"),
            id="our name wins",
        ),
        pytest.param(
            pod().label(GROUP, "old").put("spec.schedulingGroup.podGroupName", "new"),
            gang.Membership(name="new", native=True),
            id="Kubernetes' own field before the label",
        ),
        pytest.param(
            pod().annotate({NAME: "g", SIZE: "2"}).put("spec.schedulingGroup.podGroupName", "g"),
            gang.Membership(name="g", native=True),
            id="Kubernetes' own field before our pair",
        ),
        pytest.param(pod().label(GROUP, ""), gang.ALONE, id="an empty name"),
    ],
)
def test_what_a_pod_says(made: builders.PodBuilder, want: gang.Membership) -> None:
    read = made.read()
    assert (read.gang, read.findings) == (want, ())


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "100001", "٣", "1" * 5000])
def test_a_size_that_is_none_is_named(text: str) -> None:
    read = pod().annotate({NAME: "g", SIZE: text}).read()
    (finding,) = read.findings
    assert (read.gang.size, finding.field) == (0, f"metadata.annotations[{SIZE}]")
    assert "is not a whole number from 1 to 100000" in finding.problem


def group(size: Any = 3, uid: str = "u") -> dict[str, Any]:
    meta = {"namespace": "default", "name": "g", "uid": uid}
    return {"metadata": meta, "spec": {"minMember": size}}


@pytest.mark.parametrize(
    ("sizes", "objects", "want"),
    [
        pytest.param([None, None], [], 0, id="nobody says it"),
        pytest.param(["2", None], [], 2, id="one pod says it"),
        pytest.param(["2", "3"], [], 3, id="the largest number"),
        pytest.param([None], [group(4)], 4, id="the PodGroup says it"),
        pytest.param(["2"], [group(4)], 2, id="pods before the PodGroup"),
        pytest.param([None], [group(-4)], 0, id="a negative number"),
        pytest.param([None], [group("4")], 0, id="not a number"),
    ],
)
def test_how_large_a_gang_has_to_be(
    sizes: list[str | None], objects: list[dict[str, Any]], want: int
) -> None:
    known = [gang.read_group(one) for one in objects]

    def find(key: gang.Key) -> gang.Group | None:
        return next((one for one in known if (one.namespace, one.name) == key[:2]), None)

    gangs = gang.Gangs(find)
    for number, size in enumerate(sizes):
        gangs.see(member(f"p{number}", size=size))
    assert gangs.size(gang.Key("default", "g")) == want


@pytest.mark.parametrize(
    ("spec", "want_size", "want_not_kept"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3, (), id="so many at once"),
        pytest.param({"schedulingPolicy": {"basic": {}}}, 1, (), id="each alone"),
        pytest.param({"schedulingPolicy": {"gang": {"minCount": "x"}}}, 1, (), id="not a number"),
        pytest.param({}, 1, (), id="no policy"),
        pytest.param(
            {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "resourceClaims": [{"name": "r", "resourceClaimName": "c"}],
                "disruptionMode": "Pod",
            },
            2,
            ("resourceClaims", "schedulingConstraints"),
            id="wishes that nobody knows here",
        ),
    ],
)
def test_kubernetes_own_podgroup_as_it_is_read(
    spec: dict[str, Any], want_size: int, want_not_kept: tuple[str, ...]
) -> None:
    meta = {"namespace": "default", "name": "g", "uid": "u"}
    assert gang.read_native({"metadata": meta, "spec": spec}) == gang.Group(
        namespace="default", name="g", uid="u", size=want_size, not_kept=want_not_kept
    )


def test_a_group_without_a_name_is_a_finding() -> None:
    (finding,) = pod().put("spec.schedulingGroup", {}).read().findings
    assert str(finding) == "spec.schedulingGroup.podGroupName: is missing"


def test_a_podgroup_as_it_is_read() -> None:
    assert gang.read_group(group(3)) == gang.Group(namespace="default", name="g", uid="u", size=3)


def names(some: Any) -> list[str]:
    return [one.name for one in some]


def test_members_come_change_and_go() -> None:
    gangs = gang.Gangs(lambda *_: None)
    a, b = member("a"), member("b")
    for one in (a, b, member("other", of="h"), pod("alone").read()):
        gangs.see(one)
    gangs.see(member("a", size="2"))
    assert list(gangs) == [gang.Key("default", "g"), gang.Key("default", "h")]
    assert names(gangs.mates(gang.Key("default", "g"))) == ["a", "b"]
    assert gangs.size(gang.Key("default", "g")) == 2
    assert names(gangs.end(a)) == ["b"]
    assert names(gangs.end(a)) == ["b"]
    assert names(gangs.end(b)) == []
    assert list(gangs) == [gang.Key("default", "h")]
    assert names(gangs.end(pod("alone").read())) == []


def test_waiting_for_others_is_a_reason_of_its_own() -> None:
    found = gang.waits("gang a/b needs 2 pods at once: 1 are here")
    assert found.texts == ("gang a/b needs 2 pods at once: 1 are here (GangIncomplete)",)
    assert (found.reasons, found.resolvable) == ((errors.Reason.GANG_INCOMPLETE,), False)
