"""``hami-operator decide``: lines in, lines out."""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.cli import decide
from hami_operator.protocol import register
from tests import builders

V100 = register.Card(
    id="GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448",
    count=10,
    memory_mib=32768,
    cores=100,
    model="NVIDIA-Tesla V100-PCIE-32GB",
)
NODE = builders.roomy("node67-4v100").register("NVIDIA", [V100])
GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
POD = builders.pod("p").container(limits=GPU)
KEY = "hami.io/vgpu-devices-allocated"


def request(
    pod: builders.PodBuilder = POD, *nodes: builders.NodeBuilder, **more: Any
) -> dict[str, Any]:
    return {"nodes": [one.raw() for one in nodes or (NODE,)], "pod": pod.raw(), **more}


def answers(*lines: bytes | Mapping[str, Any]) -> tuple[int, list[Any]]:
    """Exit code and parsed answers."""
    text = b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines)
    sink = io.BytesIO()
    code = decide.answer_all(io.BytesIO(text), sink)
    return code, [json.loads(line) for line in sink.getvalue().splitlines()]


def test_the_example_of_the_protocol_is_written_byte_for_byte() -> None:
    """Protocol: Schedule Decision."""
    pod = POD.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"})
    value = (
        "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,3000,0:;"
        "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,5000,0:;"
    )
    assert decide.decide_line(request(pod, now="2024-01-12T10:19:56Z")) == {
        "node": "node67-4v100",
        "annotations": {
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1705054796",
            "hami.io/vgpu-devices-allocated": value,
            "hami.io/vgpu-devices-to-allocate": value,
            "hami.io/vgpu-node": "node67-4v100",
            "hami.io/vgpu-time": "1705054796",
        },
        "labels": {"hami.io/vgpu-node": "node67-4v100"},
    }


def test_every_node_that_refuses_says_why() -> None:
    nodes = [
        builders.roomy("bare"),
        builders.roomy("small").register("NVIDIA", builders.cards(2, memory_mib=2000)),
        NODE.cordoned(),
    ]
    assert decide.decide_line(request(POD, *nodes)) == {
        "failed": {
            "bare": {
                "reason": "NodeInsufficientDevice",
                "message": "NodeInsufficientDevice: "
                "fewer cards of the type are registered than asked for",
            },
            "node67-4v100": {
                "reason": "node(s) were unschedulable",
                "message": "NodeUnschedulable: node(s) were unschedulable",
            },
            "small": {
                "reason": "2/2 CardInsufficientMemory",
                "message": "2/2 CardInsufficientMemory: card(s) have too little free memory",
            },
        },
        "message": "0/3 nodes are available: "
        "1 card(s) have too little free memory (CardInsufficientMemory), "
        "1 fewer cards of the type are registered than asked for (NodeInsufficientDevice), "
        "1 node(s) were unschedulable.",
    }


def test_an_error_of_the_pod_is_a_message() -> None:
    pod = builders.pod("p").container("c", limits={"nvidia.com/gpu": "1.5"})
    assert decide.decide_line(request(pod)) == {
        "failed": {},
        "message": "0/1 nodes are available: "
        "container c: nvidia.com/gpu: '1.5' is not a whole number (InvalidDeviceRequest).",
    }


def holding(memory_mib: int, *, node: str = "node67-4v100", uid: str = "q") -> Any:
    value = f"{V100.id},NVIDIA,{memory_mib},0:;"
    pod = builders.pod("q").uid(uid).container().on(node).phase("Running")
    return pod.annotate({KEY: value, "hami.io/vgpu-node": node})


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(holding(30000), None, id="a pod on the node holds its share"),
        pytest.param(holding(29768), "node67-4v100", id="just enough is left"),
        pytest.param(holding(30000).phase("Succeeded"), "node67-4v100", id="it has ended"),
        pytest.param(holding(30000).terminating(), None, id="it is going, and holds all"),
        pytest.param(holding(30000).put("spec.nodeName", ""), "node67-4v100", id="it has no node"),
        pytest.param(holding(30000, node="x"), "node67-4v100", id="it is elsewhere"),
        pytest.param(holding(30000, uid="uid-p"), "node67-4v100", id="it is the pod itself"),
        pytest.param(holding(1).annotate({KEY: "x,y:"}), None, id="it cannot be read: closed"),
    ],
)
def test_other_pods_hold_their_cards(pod: Any, want: str | None) -> None:
    assert decide.decide_line(request(pods=[pod.raw()])).get("node") == want


def test_other_pods_hold_ordinary_resources_and_their_distance() -> None:
    node = builders.node("n").allocatable(cpu="2", pods="10").label("zone", "z")
    asks = builders.pod("p").label("app", "a").container(limits={"cpu": "1"})
    other = builders.pod("q").container(limits={"cpu": "2"}).on("n").phase("Running")
    assert decide.decide_line(request(asks, node, pods=[other.raw()]))["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    other = builders.pod("q").container().on("n").repels({"matchLabels": {"app": "a"}}, "zone")
    assert (
        "anti-affinity" in (decide.decide_line(request(asks, node, pods=[other.raw()]))["message"])
    )
    assert decide.decide_line(request(asks, node, pods=[other.on("gone").raw()]))["node"] == "n"


@pytest.mark.parametrize(
    ("handshake", "now", "want"),
    [
        pytest.param("Requesting_2024.01.12 10:00:00", "2024-01-12T10:05:00Z", True, id="5 min"),
        pytest.param("Requesting_2024.01.12 10:00:00", "2024-01-12T10:05:01Z", False, id="more"),
        pytest.param(
            "Requesting_2024.01.12 10:00:00", "2024-01-12T18:05:01+08:00", False, id="zones"
        ),
        pytest.param("Requesting_2024.01.12 10:00:00", None, True, id="no time: none is expired"),
        pytest.param("Requesting_2099-01-12 10:00:00", "2024-01-12T10:05:01Z", True, id="future"),
        pytest.param("Reported 2020", "2024-01-12T10:05:01Z", True, id="an answer, however old"),
        pytest.param("Requesting_soon", "2024-01-12T10:05:01Z", True, id="an unreadable question"),
        pytest.param(None, "2024-01-12T10:05:01Z", True, id="nobody ever asked"),
    ],
)
def test_devices_are_alive_unless_a_question_stayed_unanswered(
    handshake: str | None, now: str | None, want: bool
) -> None:
    node = builders.roomy("n").register("NVIDIA", [V100], handshake=handshake)
    more = {} if now is None else {"now": now}
    assert ("node" in decide.decide_line(request(POD, node, **more))) is want


def test_settings_are_those_of_the_configuration_file() -> None:
    half = builders.roomy("half").register("NVIDIA", [V100])
    empty = builders.roomy("empty").register("NVIDIA", builders.cards(1))
    pods = [holding(3000, node="half").raw()]
    chosen = [
        decide.decide_line(request(POD, half, empty, pods=pods, settings=given))["node"]
        for given in ({}, {"node_scheduler_policy": "spread"}, {"device_timeout": "1s"})
    ]
    assert chosen == ["half", "empty", "half"]
    off = request(settings={"vendors": {"NVIDIA": {"enabled": False}}})
    answer = decide.decide_line(off)
    assert answer["message"] == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient nvidia.com/gpumem."
    )


@pytest.mark.parametrize(
    ("limit", "want"),
    [("3000", "node67-4v100"), ("2999", None), ("0", None)],
)
def test_quotas_are_asked(limit: str, want: str | None) -> None:
    quota = {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": limit}},
    }
    assert decide.decide_line(request(quotas=[quota])).get("node") == want
    if want is None:
        (failed,) = decide.decide_line(request(quotas=[quota]))["failed"].values()
        assert failed == {
            "reason": "1/1 ResourceQuotaNotFit",
            "message": "1/1 ResourceQuotaNotFit: the namespace's quota limits.nvidia.com/gpumem "
            f"has no room: 0 used of {limit} MiB, 3000 asked",
        }
    other = {**quota, "metadata": {"name": "q", "namespace": "other"}}
    assert decide.decide_line(request(quotas=[other])).get("node") == "node67-4v100"


def test_quota_counts_what_the_namespace_holds() -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "4000"}}}
    for memory, want in ((1000, "node67-4v100"), (1001, None)):
        answer = decide.decide_line(request(quotas=[quota], pods=[holding(memory).raw()]))
        assert answer.get("node") == want


def test_lists_may_come_as_list_objects() -> None:
    given = request(unknown={"is": "ignored"}, quotas=None, pods={"items": []})
    given["nodes"] = {"kind": "List", "items": given["nodes"]}
    assert decide.decide_line(given)["node"] == "node67-4v100"


BAD: list[Any] = [
    pytest.param(b"nonsense", "is not JSON: ", id="no JSON"),
    pytest.param(
        b'{"pod": {}, "nodes": [], "settings": {"vendors": ' + b"[" * 1000 + b"]" * 1000 + b"}}",
        "is nested too deeply",
        id="no end of brackets",
    ),
    pytest.param(b"[1]", "is not a JSON object", id="no object"),
    pytest.param({}, "pod: object: is missing", id="no pod"),
    pytest.param({"pod": 1}, "pod: object: is not an object", id="a pod that is a number"),
    pytest.param({"pod": {}}, "nodes: list: is missing", id="no nodes"),
    pytest.param({"pod": {}, "nodes": {}}, "nodes: list: is not a list", id="nodes that are none"),
    pytest.param({"pod": {}, "nodes": [1]}, "nodes: [0]: is not an object", id="an odd node"),
    pytest.param(
        {"pod": {}, "nodes": [{}]}, "nodes: [0].metadata.name: is missing", id="a nameless node"
    ),
    pytest.param(
        request(POD, NODE, NODE),
        "nodes: [1].metadata.name: 'node67-4v100' is there twice",
        id="a node twice",
    ),
    pytest.param(request(pods=7), "pods: list: is not a list", id="pods that are none"),
    pytest.param(request(quotas=[7]), "quotas: [0]: is not an object", id="an odd quota"),
    pytest.param(request(settings=7), "settings: object: is not an object", id="odd settings"),
    pytest.param(
        request(settings={"nonsense": 1}), "nonsense: unknown setting", id="an unknown setting"
    ),
    pytest.param(
        request(settings={"node_scheduler_policy": "x"}),
        "node_scheduler_policy: 'x' is none of binpack, spread",
        id="a bad setting",
    ),
    pytest.param(
        request(settings={"device_config_file": "/device-config.yaml"}),
        "device_config_file: no file is read here; put what it says under device_config",
        id="a setting that would read a file",
    ),
    pytest.param(request(now=7), "now: time: 7 is not a time of RFC 3339", id="a time as number"),
    pytest.param(
        request(now="2024-01-12T10:00:00"),
        "now: time: '2024-01-12T10:00:00' is not a time of RFC 3339",
        id="a time without zone",
    ),
    pytest.param(request(now="2024-13-12T10:00:00Z"), "now: time: ", id="a time that is none"),
    pytest.param(request(now="0001-01-01T00:00:00+10:00"), "now: time: ", id="before all time"),
]


@pytest.mark.parametrize(("line", "problem"), BAD)
def test_a_bad_line_is_named_and_the_others_are_answered(line: Any, problem: str) -> None:
    code, found = answers(request(), line, request())
    assert (code, len(found)) == (1, 3)
    assert "node" in found[0]
    assert "node" in found[2]
    assert found[1].keys() == {"error"}
    assert found[1]["error"].startswith(f"line 2: {problem}")


# --- many lines about one cluster

_OTHERS = [
    holding(3000, uid="a"),
    holding(30000, uid="b"),
    holding(3000, uid="a").phase("Succeeded"),
    holding(2000, uid="c").put("spec.nodeName", "").put("status.phase", "Pending"),
    holding(2000, uid="d").annotate({KEY: "nonsense"}),
    builders.pod("e").container("main", requests={"cpu": "7"}).on("node67-4v100"),
    holding(100, uid="f").put("x.y", json.loads("[" * 300 + "]" * 300)),
]
_PENDING = [POD, POD.uid("a"), builders.pod("plain").container(requests={"cpu": "3"})]
_CLUSTERS = [
    [NODE],
    [NODE.cordoned(), builders.roomy("other").register("NVIDIA", builders.cards(2))],
    [NODE.annotate({"hami.io/node-handshake-nvidia": "Requesting_2024.01.12 10:00:00"})],
]
_LINES = st.builds(
    lambda pod, nodes, others, rules, now: {
        **request(pod, *nodes, pods=[one.raw() for one in others], settings=rules, now=now)
    },
    st.sampled_from(_PENDING),
    st.sampled_from(_CLUSTERS),
    st.lists(st.sampled_from(_OTHERS), max_size=4),
    st.sampled_from([{}, {"gpu_scheduler_policy": "binpack"}, {"device_timeout": "1s"}]),
    st.sampled_from(["2024-01-12T10:00:02Z", "2024-01-12T11:00:00Z"]),
)


@given(lines=st.lists(_LINES, min_size=2, max_size=12))
@settings(max_examples=60, deadline=None)
def test_an_answer_does_not_depend_on_the_lines_before(lines: list[dict[str, Any]]) -> None:
    code, found = answers(*lines)
    assert (code, found) == (0, [decide.decide_line(line) for line in lines])


def test_hamis_file_may_be_given_with_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    theirs = {"nvidia": {"resourceCountName": "a.b/gpu", "acme": 1}}
    pod = builders.pod("p").container(limits={"a.b/gpu": 1, "nvidia.com/gpumem": 3000})
    code, found = answers(request(pod, settings={"device_config": theirs}))
    assert (code, found[0]["node"]) == (0, "node67-4v100")
    assert KEY in found[0]["annotations"]
    assert capsys.readouterr().err == (
        "line 1: device-config: nvidia.acme is not known, and ignored\n"
    )


@pytest.mark.parametrize("piped", [pytest.param(("decide", "-f", "-"), id="decide"),
                                   pytest.param(("vendors", "schema"), id="vendors")])  # fmt: skip
def test_a_reader_who_leaves_early_is_no_error(piped: tuple[str, ...]) -> None:
    line = json.dumps(request()).encode() + b"\n"
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hami_operator", *piped],
            input=line * 3,
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_bad_first_line_is_no_reason_to_wait_for_the_rest() -> None:
    code, found = answers(b"", b"nonsense", request(), b"", request())
    assert (code, [sorted(one) for one in found]) == (
        1,
        [["error"], *[["annotations", "labels", "node"]] * 2],
    )
    assert found[0]["error"].startswith("line 2: ")


@pytest.mark.parametrize(
    ("first", "want_errors"),
    [
        pytest.param(b'{"nodes": [', ["line 1: is not JSON"], id="the first line is cut"),
        pytest.param(b'{"nodes": "\xff', ["line 1: is not JSON"], id="it is no text"),
        pytest.param(b'{"nodes": "no', ["line 1: is not JSON"], id="it ends inside a text"),
    ],
)
def test_a_broken_first_line_takes_no_other_with_it(first: bytes, want_errors: list[str]) -> None:
    code, found = answers(first, b"  ", request(), b"x", request())
    told = [one["error"] for one in found if "error" in one]
    assert (code, len(found), len(told)) == (1, 4, 2)
    assert told[0].startswith(want_errors[0])
    assert told[1].startswith("line 4: is not JSON")


def test_one_object_may_take_many_lines() -> None:
    text = json.dumps(request(), indent=2).encode()
    code, found = answers(text)
    assert (code, [one["node"] for one in found]) == (0, ["node67-4v100"])


def test_nothing_in_is_nothing_out() -> None:
    assert answers(b"", b"  ") == (0, [])


def test_each_answer_is_out_before_the_next_line_is_read() -> None:
    sink = io.BytesIO()
    line = json.dumps(request()).encode() + b"\n"

    class Lines(io.BytesIO):
        def __next__(self) -> bytes:
            seen.append(sink.getvalue().count(b"\n"))
            return super().__next__()

    seen: list[int] = []
    assert decide.answer_all(Lines(line * 3), sink) == 0
    assert seen == [0, 1, 2, 3]


def test_warnings_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1.5"}}}
    pod = POD.annotate({"hami.io/node-scheduler-policy": "x"})
    code, found = answers(request(pod, quotas=[quota]))
    assert (code, found[0]["node"]) == (0, "node67-4v100")
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in told] == ["line 1", "line 1"]
    assert "ResourceQuota default/q" in told[0]
    assert "hami.io/node-scheduler-policy" in told[1]


def test_a_line_without_warnings_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    answers(request())
    assert capsys.readouterr() == ("", "")


def test_equal_lines_give_equal_bytes_in_any_process(tmp_path: pathlib.Path) -> None:
    nodes = [
        builders.roomy(f"n{at}").register("NVIDIA", builders.cards(3, word=f"g{at}"))
        for at in range(4)
    ]
    pod = POD.init(limits=GPU).annotate({"b": "1", "a": "2"})
    path = tmp_path / "lines"
    path.write_text((json.dumps(request(pod, *nodes)) + "\n") * 2)
    outputs = set()
    for seed, zone in (("1", "UTC"), ("2", "Asia/Shanghai")):
        run = subprocess.run(
            [sys.executable, "-m", "hami_operator", "decide", "-f", str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
            timeout=60,
        )
        first, second = run.stdout.splitlines()
        assert first == second
        outputs.add(run.stdout)
    assert len(outputs) == 1


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    decide.configure(parser)
    return parser.parse_args(given)


def test_a_file_is_read(tmp_path: pathlib.Path, capfdbinary: Any) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(request()))
    assert decide.run(arguments("-f", str(path))) == 0
    sys.stdout.flush()
    assert json.loads(capfdbinary.readouterr().out)["node"] == "node67-4v100"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    text = io.TextIOWrapper(io.BytesIO(b"nonsense\n"))
    monkeypatch.setattr(sys, "stdin", text)
    assert decide.run(arguments("-f", "-")) == 1
    assert b"line 1" in capfdbinary.readouterr().out


def test_a_file_that_is_not_there_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "none.json")
    assert decide.run(arguments("-f", path)) == 1
    assert path in capsys.readouterr().err


def test_the_help_shows_the_form_of_a_line() -> None:
    parser = argparse.ArgumentParser()
    decide.configure(parser)
    text = parser.format_help()
    assert '{"nodes": [Node...], "pods": [Pod...], "pod": Pod' in text
    assert "exit code is 1" in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
PATHS = [
    "metadata.name",
    "metadata.annotations",
    "metadata.labels",
    "spec.containers",
    "spec.nodeName",
    "spec.initContainers",
    "spec.tolerations",
    "spec.affinity",
    "spec.taints",
    "status.allocatable",
    "status.capacity",
    "status.phase",
    "spec.overhead",
    "spec.priority",
    "spec.hard",
]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(PATHS), JSON), max_size=3),
    st.sampled_from(["pod", "nodes", "pods", "quotas"]),
)
def test_no_object_brings_it_down(changes: list[tuple[str, Any]], where: str) -> None:
    given_line = request(pods=[holding(100).raw()], quotas=[{"metadata": {"name": "q"}}])
    target = given_line[where] if where == "pod" else given_line[where][0]
    for path, value in changes:
        level, field = path.split(".")
        target.setdefault(level, {})[field] = value
    try:
        answer = decide.decide_line(given_line)
    except errors.OperatorError:
        return
    assert answer.keys() in ({"node", "annotations", "labels"}, {"failed", "message"})
