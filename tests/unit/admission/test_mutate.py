"""Pod in, changed pod or refusal out: each step of an admission, and their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.admission import mutate, verdict
from hami_operator.devices import admit, usage
from hami_operator.devices import registry as registries
from hami_operator.protocol import register
from tests import builders
from tests.unit.admission import given

GPU = {"nvidia.com/gpu": "1"}
SMALL = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
CPU = {"cpu": "1", "memory": "256Mi"}
CARDS = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "400"}
PRIVILEGED = {"securityContext": {"privileged": True}}
INVALID, FORBIDDEN = verdict.Cause.INVALID, verdict.Cause.FORBIDDEN

Build = Callable[[builders.PodBuilder], builders.PodBuilder]


def allowed(found: verdict.Verdict) -> verdict.Allowed:
    assert isinstance(found, verdict.Allowed), found
    return found


def denied(found: verdict.Verdict) -> verdict.Denied:
    assert isinstance(found, verdict.Denied), found
    return found


# ---- what a pod becomes


def test_a_pod_with_devices_gets_our_scheduler_and_nothing_else() -> None:
    pod = given.pod(SMALL)
    want = pod.scheduler(given.OURS).raw()
    assert given.admit(pod) == verdict.Allowed(raw=want)


def test_a_pod_without_devices_is_let_in_as_it_is() -> None:
    pod = given.pod(CPU).raw()
    found = allowed(mutate.admit_pod(pod, given.NAMESPACE, given.known()))
    assert found.raw is pod


def test_a_whole_card_gets_all_its_cores_in_limits_and_leaves_the_rest() -> None:
    pod = given.pod(GPU).put("spec.fieldOfTomorrow", {"a": [1]})
    found = allowed(given.admit(pod)).raw
    want = pod.scheduler(given.OURS).raw()
    want["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpucores"] = "100"
    assert found == want


def test_a_size_without_a_count_gets_one_card() -> None:
    found = allowed(given.admit(given.pod({"nvidia.com/gpumem": 3000}))).raw
    assert found["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpumem": 3000,
        "nvidia.com/gpu": "1",
    }


def test_what_known_nodes_could_never_give_is_refused() -> None:
    pod = given.pod({"aws.amazon.com/neuroncore": "3"})
    assert "neither at most 2 nor a multiple" in denied(given.admit(pod)).message
    card = register.Card(id="n", index=0, count=1, cores=1)
    single = given.known(cards=lambda word: [(card,)] if word == "AWSNeuron" else [])
    found = allowed(mutate.admit_pod(pod.raw(), given.NAMESPACE, single))
    assert found.raw == pod.scheduler(given.OURS).raw()


def test_init_containers_are_changed_like_the_others() -> None:
    pod = given.with_init(given.pod(CPU), "i", GPU)
    found = allowed(given.admit(pod)).raw
    assert (
        found["spec"]["initContainers"][0]["resources"]["limits"]["nvidia.com/gpucores"] == "100"
    )
    assert found["spec"]["schedulerName"] == given.OURS
    assert found["spec"]["containers"] == pod.raw()["spec"]["containers"]


def test_a_limit_that_a_row_changes_changes_the_request_too() -> None:
    asked = {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-memory": "1"}
    found = allowed(given.admit(given.pod(asked))).raw
    resources = found["spec"]["containers"][0]["resources"]
    assert resources["limits"]["mthreads.com/sgpu-memory"] == "192"
    assert resources["requests"]["mthreads.com/sgpu-memory"] == "192"
    assert found["metadata"]["annotations"] == {"mthreads.com/request-gpu-num": "2"}


def test_a_variable_that_a_row_sets_is_there_once() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "CUDA_TASK_PRIORITY", "valueFrom": {"fieldRef": {}}},
        {"name": "B", "value": "2"},
        {"name": "CUDA_TASK_PRIORITY", "value": "9"},
    ]
    pod = given.with_container(given.pod(), "c", {**SMALL, "nvidia.com/priority": "1"}, env=env)
    found = allowed(given.admit(pod)).raw
    assert found["spec"]["containers"][0]["env"] == [
        env[0],
        {"name": "CUDA_TASK_PRIORITY", "value": "1"},
        env[2],
    ]


def configured(**overrides: Any) -> registries.Registry:
    return registries.build(overrides={"NVIDIA": overrides})


def test_a_row_that_hides_devices_sees_containers_that_name_none() -> None:
    registry = configured(overwrite_env=True)
    pod = given.with_container(given.pod(SMALL), "side", {})
    found = allowed(given.admit(pod, given.known(registry))).raw
    assert "env" not in found["spec"]["containers"][0]
    hidden = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert found["spec"]["containers"][1]["env"] == hidden


@pytest.mark.parametrize(
    ("own", "want"), [("", "nvidia"), ("mine", "mine")], ids=["none named", "one named"]
)
def test_a_runtime_class_is_set_where_there_is_none(own: str, want: str) -> None:
    pod = given.pod(SMALL)
    pod = pod.put("spec.runtimeClassName", own) if own else pod
    found = allowed(given.admit(pod, given.known(configured(runtime_class="nvidia")))).raw
    assert found["spec"]["runtimeClassName"] == want


@pytest.mark.parametrize("empty", [{}, {"metadata": None}, {"metadata": {"annotations": None}}])
def test_objects_that_are_missing_or_null_are_made(empty: dict[str, Any]) -> None:
    raw = {**empty, "spec": {"containers": [{"resources": {"limits": {"mthreads.com/vgpu": 2}}}]}}
    found = allowed(mutate.admit_pod(raw, given.NAMESPACE, given.known())).raw
    assert found["metadata"]["annotations"] == {"mthreads.com/request-gpu-num": "2"}
    assert found["spec"]["containers"][0]["resources"] == {
        "limits": {
            "mthreads.com/vgpu": 2,
            "mthreads.com/sgpu-core": "32",
            "mthreads.com/sgpu-memory": "192",
        }
    }


# ---- whose pod it is


@pytest.mark.parametrize(
    ("named", "forcing", "want"),
    [
        pytest.param("", True, given.OURS, id="nobody named, forcing"),
        pytest.param("", False, given.OURS, id="nobody named, not forcing"),
        pytest.param("default-scheduler", True, given.OURS, id="the default one, forcing"),
        pytest.param("default-scheduler", False, "", id="the default one, not forcing"),
        pytest.param(given.OURS, True, given.OURS, id="we, forcing"),
        pytest.param(given.OURS, False, given.OURS, id="we, not forcing"),
        pytest.param("foo", True, "", id="another, forcing"),
        pytest.param("foo", False, "", id="another, not forcing"),
    ],
)
def test_whose_pod_it_is(named: str, forcing: bool, want: str) -> None:
    pod = given.pod(GPU).put("spec.schedulerName", named).annotate({"hami.io/vgpu-node": "n"})
    found = allowed(given.admit(pod, given.known(overwrite_default=forcing)))
    if want:
        assert found.raw["spec"]["schedulerName"] == want
        assert "nvidia.com/gpucores" in found.raw["spec"]["containers"][0]["resources"]["limits"]
    else:
        assert found == verdict.Allowed(
            raw=pod.raw(), message="pod already has different scheduler assigned"
        )


def test_without_a_name_of_ours_none_is_written() -> None:
    pod = given.pod(SMALL).annotate({"hami.io/vgpu-node": "n"})
    found = allowed(given.admit(pod, given.known(scheduler_name="")))
    assert found.raw["spec"]["schedulerName"] == "default-scheduler"
    assert found.raw["metadata"]["annotations"] == {}, "it takes devices, so it is ours"


def test_an_excluded_namespace_is_left_alone() -> None:
    pod = given.with_container(given.pod(), "c", GPU, **PRIVILEGED)
    found = given.admit(pod, given.known(excluded=["system"]), "system")
    assert found == verdict.Allowed(raw=pod.raw(), message="namespace is excluded from admission")
    denied(given.admit(pod, given.known(excluded=["system"])))


# ---- keys that only we or a plugin write

FORGED = ["hami.io/vgpu-node", "hami.io/vgpu-time", "hami.io/bind-phase", "hami.io/bind-time"]
FORGED += ["hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"]
FORGED += [
    "hami.io/vgpu-mig-allocations",
    "hami.io/hcu-devices-allocated",
    "mthreads.com/gpu-index",
]


@pytest.mark.parametrize("key", FORGED)
@pytest.mark.parametrize(
    "pod",
    [given.pod(SMALL), given.pod(CPU).scheduler(given.OURS)],
    ids=["it takes devices", "it names us"],
)
def test_a_forged_key_is_taken_from_a_pod_that_becomes_ours(
    pod: builders.PodBuilder, key: str
) -> None:
    theirs = {"hami.io/gpu-scheduler-policy": "spread", "team": "a"}
    found = allowed(given.admit(pod.annotate({**theirs, key: "x"})))
    assert found.raw["metadata"]["annotations"] == theirs
    assert [key in text for text in found.warnings] == [True]
    strict = denied(given.admit(pod.annotate({**theirs, key: "x"}), given.known(strict=True)))
    assert (key in strict.message, strict.cause) == (True, FORBIDDEN)


@pytest.mark.parametrize("strict", [False, True])
def test_a_forged_key_in_the_pod_of_others_is_left_to_the_admission_policy(strict: bool) -> None:
    pod = given.pod(CPU).annotate({key: "x" for key in FORGED})
    assert given.admit(pod, given.known(strict=strict)) == verdict.Allowed(raw=pod.raw())


def test_the_forged_label_goes_and_other_labels_stay() -> None:
    pod = given.pod(SMALL).label("hami.io/vgpu-node", "n").label("app", "a")
    found = allowed(given.admit(pod))
    assert found.raw["metadata"]["labels"] == {"app": "a"}
    assert "label hami.io/vgpu-node was removed" in found.warnings[0]


def test_no_label_of_a_pod_switches_admission_off() -> None:
    pod = given.pod(SMALL).label("hami.io/webhook", "ignore")
    assert allowed(given.admit(pod)).raw["spec"]["schedulerName"] == given.OURS


# ---- refusals

REFUSED = [
    pytest.param(
        lambda pod: pod, ["pod has no containers"], INVALID, id="no containers"
    ),
    pytest.param(
        lambda pod: given.with_init(pod, "i", GPU),
        ["pod has no containers"],
        INVALID,
        id="init containers alone",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", {"nvidia.com/gpu": "0.5"}),
        [
            "container c", "nvidia.com/gpu", "'0.5'", "is not a whole number",
            "for part of a card add nvidia.com/gpumem",
            "nvidia.com/gpu: 2 asks for two cards",
            "for two slices of one card use two containers",
        ],
        INVALID,
        id="half a card",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", {"nvidia.com/gpu": "-1"}),
        ["container c: nvidia.com/gpu: '-1' is not between 0 and 2147483647"],
        INVALID,
        id="less than no card",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", {"nvidia.com/gpu": "4294967296"}),
        ["container c: nvidia.com/gpu: '4294967296'"],
        INVALID,
        id="more cards than an int32 holds",
    ),
    pytest.param(
        lambda pod: given.with_container(
            pod, "c", {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "150"}
        ),
        ["gpumem-percentage: '150'", "write 1 to 100", "nvidia.com/gpu: 2 asks for two cards"],
        INVALID,
        id="one and a half cards' memory",
    ),
    pytest.param(
        lambda pod: given.with_container(
            pod, "c", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "lots"}
        ),
        ["nvidia.com/gpumem: 'lots' is not a quantity", "write a whole number of units of 1 MiB"],
        INVALID,
        id="memory that is no quantity",
    ),
    pytest.param(
        lambda pod: given.with_container(
            pod, "c", {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "-5"}
        ),
        ["container c: nvidia.com/gpumem: '-5' is negative"],
        INVALID,
        id="negative memory where no card is asked for",
    ),
    pytest.param(
        lambda pod: given.with_container(
            pod, "c", {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "0.5"}
        ),
        ["nvidia.com/gpumem: '0.5' is not a whole number"],
        INVALID,
        id="broken memory where no card is asked for",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", {**SMALL, "nvidia.com/priority": "high"}),
        ["nvidia.com/priority: 'high' is not a quantity; write a whole number"],
        INVALID,
        id="a priority in words",
    ),
    pytest.param(
        lambda pod: given.with_init(
            given.with_container(pod, "c", {"nvidia.com/gpu": "x"}), "i", {"nvidia.com/gpu": "y"}
        ),
        ["container i"],
        INVALID,
        id="init containers are looked at first",
    ),
    pytest.param(
        lambda pod: given.with_container(
            pod, "c", {"nvidia.com/gpu": "x", "hygon.com/hcunum": "y"}
        ),
        ["hygon.com/hcunum"],
        INVALID,
        id="types are looked at in the order of their words",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", GPU, **PRIVILEGED),
        ["container c is privileged", "remove securityContext.privileged"],
        FORBIDDEN,
        id="a privileged container with a card",
    ),
    pytest.param(
        lambda pod: given.with_init(given.with_container(pod, "c", GPU), "i", {}, **PRIVILEGED),
        ["container i is privileged"],
        FORBIDDEN,
        id="a privileged init container beside a card",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", GPU).on("n1"),
        ["pod has node assigned", "spec.nodeSelector"],
        FORBIDDEN,
        id="a node of its own choice",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", GPU).annotate(
            {"hami.io/device-scoring-weights": "slot=1"}
        ),
        ['"slot=1": expected slot, core, and memory weights'],
        INVALID,
        id="bad weights",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", CPU).annotate(
            {"hami.io/device-scoring-weights": "slot=1"}
        ),
        ["expected slot, core, and memory weights"],
        INVALID,
        id="bad weights of a pod without devices",
    ),
    pytest.param(
        lambda pod: given.with_container(pod, "c", {"nvidia.com/gpu": "x" * 5000}),
        ["is not a quantity"],
        INVALID,
        id="a quantity longer than anybody reads",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("build", "words", "cause"), REFUSED)
def test_a_refusal_says_what_is_wrong_and_what_to_write(
    build: Build, words: list[str], cause: verdict.Cause
) -> None:
    found = denied(given.admit(build(given.pod())))
    assert [word for word in words if word not in found.message] == []
    assert found.cause is cause


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(
            lambda pod: given.with_container(pod, "c", CPU, **PRIVILEGED), id="privileged"
        ),
        pytest.param(lambda pod: given.with_container(pod, "c", CPU).on("n1"), id="on a node"),
        pytest.param(
            lambda pod: given.with_container(pod, "c", {"nvidia.com/gpu": "0"}).on("n1"),
            id="none of a device",
        ),
    ],
)
def test_without_devices_pods_may(build: Build) -> None:
    pod = build(given.pod())
    assert allowed(given.admit(pod)).raw == pod.raw()


def test_a_crowd_of_containers_is_refused_before_it_takes_time() -> None:
    def crowd(number: int, limits: dict[str, str]) -> dict[str, Any]:
        one = {"name": "c", "resources": {"limits": limits}}
        return {"spec": {"containers": [one] * number}}

    known, most = given.known(), mutate.MOST_CONTAINERS
    allowed(mutate.admit_pod(crowd(most, SMALL), given.NAMESPACE, known))
    found = denied(mutate.admit_pod(crowd(most + 1, SMALL), given.NAMESPACE, known))
    assert found.message.startswith("more than 1000 containers ask for devices")
    allowed(mutate.admit_pod(crowd(most + 1, CPU), given.NAMESPACE, known))


# ---- the limiter

SWITCH = "CUDA_DISABLE_CONTROL"


@pytest.mark.parametrize(
    ("entry", "off"),
    [
        pytest.param({"name": SWITCH, "value": "true"}, True, id="true"),
        pytest.param({"name": SWITCH, "value": "1"}, True, id="one"),
        pytest.param({"name": SWITCH, "value": "false"}, False, id="false"),
        pytest.param({"name": SWITCH}, False, id="no value"),
        pytest.param({"name": SWITCH, "valueFrom": {"configMapKeyRef": {}}}, True, id="unknown"),
        pytest.param({"name": "OTHER", "value": "true"}, False, id="another variable"),
    ],
)
def test_only_strict_admission_minds_a_limiter_that_is_off(
    entry: dict[str, Any], off: bool
) -> None:
    pod = given.with_container(given.pod(), "c", SMALL, env=[entry])
    allowed(given.admit(pod))
    strict = given.known(strict=True, unlimited=["trusted"])
    allowed(given.admit(pod, strict, "trusted"))
    found = given.admit(pod, strict)
    assert isinstance(found, verdict.Denied) is off
    if isinstance(found, verdict.Denied):
        assert "container c" in found.message
        assert SWITCH in found.message


def test_without_devices_there_is_nothing_to_limit() -> None:
    env = [{"name": SWITCH, "value": "true"}]
    pod = given.with_container(given.pod(), "c", CPU, env=env)
    allowed(given.admit(pod, given.known(strict=True)))


# ---- warnings


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        pytest.param({"hami.io/gpu-scheduler-policy": "spread"}, [], id="a policy that is known"),
        pytest.param(
            {"hami.io/gpu-scheduler-policy": "best"}, ['"best"'], id="a card policy that is not"
        ),
        pytest.param(
            {"hami.io/node-scheduler-policy": "best"}, ['"best"'], id="a node policy that is not"
        ),
        pytest.param(
            {"nvidia.com/gpumem": "3000"},
            ["annotation nvidia.com/gpumem asks for nothing; write it under resources.limits"],
            id="memory as an annotation",
        ),
    ],
)
@pytest.mark.parametrize("limits", [GPU, CPU], ids=["with devices", "without"])
def test_what_is_said_in_vain_is_warned_of(
    annotations: dict[str, str], words: list[str], limits: dict[str, str]
) -> None:
    found = allowed(given.admit(given.pod(limits).annotate(annotations)))
    assert len(found.warnings) == len(words)
    assert all(word in text for word, text in zip(words, found.warnings, strict=True))
    assert found.raw["metadata"]["annotations"] == annotations


def test_without_a_reader_preferences_are_not_looked_at() -> None:
    pod = given.pod(SMALL).annotate({"hami.io/device-scoring-weights": "slot=1"})
    assert allowed(given.admit(pod, given.known(preferences=None))).warnings == ()


# ---- quotas

MEMORY = "limits.nvidia.com/gpumem"
CORES = "limits.nvidia.com/gpucores"
USED = {"NVIDIA": usage.Usage(1, 1000, 20)}


def mem(amount: int, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"nvidia.com/gpu": count, "nvidia.com/gpumem": amount, **more}


@pytest.mark.parametrize(
    ("hard", "inits", "apps", "broken"),
    [
        pytest.param({MEMORY: 2000}, [], [mem(1000)], "", id="exactly what is left"),
        pytest.param(
            {MEMORY: 2000}, [], [mem(1001)],
            f"{MEMORY}: asked 1001 MiB, used 1000 MiB, limit 2000 MiB", id="one too many",
        ),
        pytest.param(
            {MEMORY: 3000}, [], [mem(1024, 2)],
            f"{MEMORY}: asked 2048 MiB, used 1000 MiB, limit 3000 MiB", id="each of two cards",
        ),
        pytest.param(
            {MEMORY: 3000}, [], [mem(1200), mem(1200)],
            f"{MEMORY}: asked 2400 MiB", id="each of two containers",
        ),
        pytest.param({MEMORY: 2000}, [mem(800), mem(800)], [mem(500)], "", id="inits take turns"),
        pytest.param(
            {MEMORY: 2000}, [mem(1100)], [mem(500)], "asked 1100 MiB", id="the largest init",
        ),
        pytest.param(
            {MEMORY: 2000}, [{**mem(600), "sidecar": True}, mem(500)], [mem(400)],
            "asked 1100 MiB", id="a sidecar stays",
        ),
        pytest.param({MEMORY: 0}, [], [mem(1)], "limit 0 MiB", id="none at all"),
        pytest.param(
            {MEMORY: 1}, [], [{"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}], "",
            id="a percentage counts when it is placed",
        ),
        pytest.param(
            {CORES: 50}, [], [mem(1, **{"nvidia.com/gpucores": 31})],
            f"{CORES}: asked 31, used 20, limit 50", id="cores",
        ),
        pytest.param({CORES: 50}, [], [mem(9999)], "", id="no cores asked for"),
        pytest.param({CORES: 10}, [], [mem(1)], f"{CORES}: asked 0, used 20", id="over already"),
        pytest.param(
            {CORES: 10, MEMORY: 10}, [],
            [{"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}], "",
            id="over already, and nothing asked that counts here",
        ),
        pytest.param(
            {"limits.cambricon.com/mlu.smlu.vmemory": 1}, [], [mem(9999)], "",
            id="the limit of another type",
        ),
        pytest.param({}, [], [mem(9999)], "", id="no limit"),
    ],
)  # fmt: skip
def test_a_namespace_holds_what_its_quota_says(
    hard: dict[str, int], inits: list[dict[str, Any]], apps: list[dict[str, Any]], broken: str
) -> None:
    pod = given.pod()
    for number, limits in enumerate(inits):
        always = {"restartPolicy": "Always"} if limits.pop("sidecar", False) else {}
        pod = given.with_init(pod, f"i{number}", limits, **always)
    for number, limits in enumerate(apps):
        pod = given.with_container(pod, f"c{number}", limits)
    found = given.admit(pod, given.known(quotas=hard, used=USED))
    if not broken:
        allowed(found)
        return
    message = denied(found).message
    assert message.startswith("exceeding resource quota: namespace default: limits.")
    assert broken in message


def test_a_quota_refusal_of_several_cards_says_that_they_are_several() -> None:
    two = denied(given.admit(given.pod(mem(900, 2)), given.known(quotas={MEMORY: 1000})))
    one = denied(given.admit(given.pod(mem(1900)), given.known(quotas={MEMORY: 1000})))
    assert "nvidia.com/gpu: 2 asks for two cards; for two slices of one card" in two.message
    assert "slices" not in one.message


def test_another_namespace_has_other_limits() -> None:
    known = given.known(quotas={MEMORY: 1000})
    allowed(given.admit(given.pod(mem(1900)), known, "elsewhere"))


# ---- fields of the wrong type


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param({"metadata": "x"}, "metadata", id="metadata"),
        pytest.param({"metadata": {"annotations": []}}, "metadata.annotations", id="annotations"),
        pytest.param(
            {"metadata": {"annotations": {"a": 1}}}, "metadata.annotations[a]", id="an annotation"
        ),
        pytest.param({"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]", id="a label"),
        pytest.param({"spec": []}, "spec", id="spec"),
        pytest.param({"spec": {"nodeName": 1}}, "spec.nodeName", id="a name"),
        pytest.param({"spec": {"containers": {}}}, "spec.containers", id="containers"),
        pytest.param({"spec": {"containers": [1]}}, "spec.containers[0]", id="a container"),
        pytest.param(
            {"spec": {"initContainers": [{"restartPolicy": 1}]}},
            "spec.initContainers[0].restartPolicy",
            id="a restart policy",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": {"a": {}}}}]}},
            "spec.containers[0].resources.limits[a]",
            id="an amount",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": {"a": True}}}]}},
            "spec.containers[0].resources.limits[a]",
            id="an amount that is true",
        ),
        pytest.param(
            {"spec": {"containers": [{"env": [{}, 1]}]}},
            "spec.containers[0].env[1]",
            id="a variable",
        ),
        pytest.param(
            {"spec": {"containers": [{"securityContext": {"privileged": "yes"}}]}},
            "spec.containers[0].securityContext.privileged",
            id="a privilege",
        ),
    ],
)
def test_a_field_of_the_wrong_type_is_named(raw: Mapping[str, Any], field: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        mutate.admit_pod(raw, given.NAMESPACE, given.known())
    assert caught.value.field == field


def test_null_is_as_good_as_absent() -> None:
    container = {"resources": {"limits": {"nvidia.com/gpu": None}, "requests": None}, "env": None}
    raw = {"metadata": None, "spec": {"initContainers": None, "containers": [container]}}
    assert allowed(mutate.admit_pod(raw, given.NAMESPACE, given.known())).raw is raw


def test_what_a_row_says_of_its_own_accord_is_enough() -> None:
    asked = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "3"}
    found = denied(given.admit(given.pod(asked))).message
    assert found.endswith("is none of 2, 4, 8, 16, 32, 64, 96")


@pytest.mark.parametrize("row", given.REGISTRY.rows, ids=lambda row: row.keyword)
def test_every_type_tells_how_to_ask_for_it(row: Any) -> None:
    count = row.resources.count
    found = denied(given.admit(given.pod({count: "1.5"}))).message
    assert f"container c: {count}: '1.5' is not a whole number; write " in found
    for name in row.resources.names:
        asked = {count: "1", name: "-1"}
        assert f"{name}: '-1' " in denied(given.admit(given.pod(asked))).message


# ---- what the shortcut past uninvolved rows rests on


@pytest.mark.parametrize("row", given.REGISTRY.rows, ids=lambda row: row.keyword)
def test_a_row_leaves_containers_alone_that_name_none_of_its_resources(row: Any) -> None:
    """Else `rules.Rules.rows` must not pass it over."""
    quiet = dataclasses.replace(row, overwrite_env=False)
    container = admit.Container(name="c", limits={"cpu": "1", "example.com/x": "2"})
    about = admit.Pod(annotations={"a": "b"})
    found = admit.admit(quiet, container, about)
    assert found == admit.Admitted(container=container, pod=about, takes=False)


def test_every_row_is_asked_in_the_order_of_the_words() -> None:
    every = [name for row in given.REGISTRY for name in row.resources.names]
    asked = [row.keyword for row in given.known().rows(every)]
    assert asked == sorted(row.keyword for row in given.REGISTRY)
