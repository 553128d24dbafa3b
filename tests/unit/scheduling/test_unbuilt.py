"""Which rules and wishes of a pod are recognised although they are not built."""

from __future__ import annotations

import pytest

from tests import builders

POD = builders.pod("p").container()
CLAIMS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
WISH = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": {}, "topologyKey": "zone"}


def spread(when: str | None) -> builders.PodBuilder:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}
    return POD.append("spec.topologySpreadConstraints", constraint)


def ports(*numbers: int) -> list[dict[str, int]]:
    return [{"containerPort": 80, "hostPort": number} for number in numbers]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(POD, (), id="a plain pod"),
        pytest.param(POD.container(ports=[{"containerPort": 80}]), (), id="no port of the host"),
        pytest.param(POD.container(ports=ports(0)), (), id="port 0 is none"),
        pytest.param(POD.container(ports=ports(0, 80)), ("NodePorts",), id="a port of the host"),
        pytest.param(POD.sidecar(ports=ports(80)), ("NodePorts",), id="a port of a sidecar"),
        pytest.param(POD.init(ports=ports(80)), (), id="init containers hold no port"),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "persistentVolumeClaim": {"claimName": "x"}}),
            CLAIMS,
            id="a claim",
        ),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "ephemeral": {}}), CLAIMS, id="ephemeral"
        ),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "rbd": {}}),
            ("VolumeRestrictions",),
            id="a disk that one node may write",
        ),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "azureDisk": {}}),
            ("NodeVolumeLimits",),
            id="a disk that nodes count",
        ),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "awsElasticBlockStore": {}}),
            ("VolumeRestrictions", "NodeVolumeLimits"),
            id="a disk that is both",
        ),
        pytest.param(
            POD.append("spec.volumes", {"name": "v", "configMap": {}}), (), id="other volumes"
        ),
        pytest.param(spread("DoNotSchedule"), ("PodTopologySpread",), id="spread that must hold"),
        pytest.param(spread(None), ("PodTopologySpread",), id="spread without a word"),
        pytest.param(spread("ScheduleAnyway"), (), id="spread that may fail"),
        pytest.param(
            POD.append(f"spec.affinity.podAffinity.{AFFINITY}", TERM),
            ("InterPodAffinity",),
            id="required affinity",
        ),
        pytest.param(POD.repels({}, "zone"), ("InterPodAffinity",), id="required anti-affinity"),
        pytest.param(
            POD.append(f"spec.affinity.podAffinity.{WISH}", TERM), (), id="preferred affinity"
        ),
        pytest.param(
            POD.append("spec.resourceClaims", {"name": "r"}), ("DynamicResources",), id="claims"
        ),
        pytest.param(
            POD.put("spec.schedulingGroup", {"podGroupName": "g"}), ("GangScheduling",), id="gang"
        ),
        pytest.param(
            POD.put("spec.workloadRef", {"name": "w"}), ("GangScheduling",), id="older gang"
        ),
        pytest.param(
            POD.put("spec.hostUsers", False).put("spec.hostNetwork", True),
            ("NodeDeclaredFeatures",),
            id="user namespaces in the network of the host",
        ),
        pytest.param(POD.put("spec.hostUsers", False), (), id="user namespaces are nothing to us"),
        pytest.param(
            POD.container(restartPolicyRules=[{"action": "RestartAllContainers"}]),
            ("NodeDeclaredFeatures",),
            id="restart of all containers",
        ),
        pytest.param(
            POD.container(restartPolicyRules=[{"action": "Restart"}]), (), id="restart of one"
        ),
        pytest.param(
            spread("DoNotSchedule").repels({}, "zone").container(ports=ports(80)),
            ("NodePorts", "PodTopologySpread", "InterPodAffinity"),
            id="several, in the order of kube-scheduler",
        ),
    ],
)
def test_unbuilt(pod: builders.PodBuilder, want: tuple[str, ...]) -> None:
    assert pod.read().unbuilt == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(POD, (), id="none"),
        pytest.param(
            POD.append(f"spec.affinity.podAffinity.{WISH}", TERM),
            ("preferred podAffinity",),
            id="affinity",
        ),
        pytest.param(
            POD.append(f"spec.affinity.podAntiAffinity.{WISH}", TERM),
            ("preferred podAntiAffinity",),
            id="anti-affinity",
        ),
        pytest.param(spread("ScheduleAnyway"), ("topology spread ScheduleAnyway",), id="spread"),
        pytest.param(spread("DoNotSchedule"), (), id="a rule is no wish"),
    ],
)
def test_unheeded(pod: builders.PodBuilder, want: tuple[str, ...]) -> None:
    assert pod.read().unheeded == want
