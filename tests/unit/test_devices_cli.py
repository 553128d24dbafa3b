"""``hami-operator devices``, and the texts that it shares with the demo."""

from __future__ import annotations

import datetime
import io
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hami_operator.cli import devices, holdings, main, report, screen, table
from hami_operator.cluster.memory import server, store
from hami_operator.devices import registry
from hami_operator.protocol import instant
from hami_operator.simulator import story
from tests import builders

ROWS = registry.default()
NOW = instant.Instant(
    monotonic_s=500.0, wall=datetime.datetime(2026, 3, 1, 12, 10, 0, tzinfo=datetime.UTC)
)
ALLOCATED = "hami.io/vgpu-devices-allocated"


def node(name: str = "n1", **options: Any) -> builders.NodeBuilder:
    return builders.roomy(name).register("nvidia", builders.cards(2), **options)


def pod(name: str, value: str, *, on: str = "n1") -> builders.PodBuilder:
    made = builders.pod(name).container(limits={"nvidia.com/gpu": value.count(":")}).on(on)
    return made.annotate({ALLOCATED: value, "hami.io/vgpu-node": on})


def read(nodes: Any, pods: Any) -> list[holdings.Holding]:
    raw_nodes, raw_pods = [one.raw() for one in nodes], [one.raw() for one in pods]
    return list(holdings.read(raw_nodes, raw_pods, ROWS, device_timeout_s=300.0, now=NOW))


def one_card(**changes: Any) -> holdings.Holding:
    values: dict[str, Any] = {
        "node": "n1", "type": "NVIDIA", "id": "GPU-0", "index": 0, "model": "Model-X",
        "slots": 10, "slots_used": 0, "memory_mib": 32768, "memory_used_mib": 0,
        "cores": 100, "cores_used": 0, "healthy": True, "available": True, "because": "",
        "owners": (),
    }  # fmt: skip
    return holdings.Holding(**{**values, **changes})


def owner(name: str, memory_mib: int, cores: int, slots: int = 1) -> holdings.Owner:
    return holdings.Owner(pod=f"default/{name}", slots=slots, memory_mib=memory_mib, cores=cores)


def test_cards_with_what_is_taken_and_by_whom() -> None:
    pods = [
        pod("a", "GPU-0,NVIDIA,1000,10:GPU-1,NVIDIA,2000,20:;"),
        pod("b", "GPU-0,NVIDIA,500,5:;"),
        pod("done", "GPU-1,NVIDIA,9,9:;").phase("Succeeded"),
        builders.pod("waits").container(),
    ]
    assert read([node()], pods) == [
        one_card(
            slots_used=2,
            memory_used_mib=1500,
            cores_used=15,
            owners=(owner("a", 1000, 10), owner("b", 500, 5)),
        ),
        one_card(
            id="GPU-1",
            index=1,
            slots_used=1,
            memory_used_mib=2000,
            cores_used=20,
            owners=(owner("a", 2000, 20),),
        ),
    ]


def test_init_containers_count_as_the_scheduler_counts_them() -> None:
    made = builders.pod("p").init(limits={"nvidia.com/gpu": 1})
    made = made.container(limits={"nvidia.com/gpu": 1}).on("n1")
    value = "GPU-0,NVIDIA,5000,10:;GPU-0,NVIDIA,1000,30:;"
    made = made.annotate({ALLOCATED: value, "hami.io/vgpu-node": "n1"})
    assert read([node()], [made])[0] == one_card(
        slots_used=1, memory_used_mib=5000, cores_used=30, owners=(owner("p", 5000, 30),)
    )


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(node(), "", id="alive"),
        pytest.param(
            node(handshake="Requesting_2026.03.01 12:04:59"),
            "the device plugin has stopped answering",
            id="a question unanswered for longer than the time-out",
        ),
        pytest.param(
            node(handshake="Requesting_2026.03.01 12:05:01"), "", id="a question still young"
        ),
        pytest.param(
            node().allocatable({"nvidia.com/gpu": "0"}),
            "kubelet offers no device of the type",
            id="kubelet offers nothing",
        ),
    ],
)
def test_whether_a_type_takes_pods_and_why_not(found: builders.NodeBuilder, want: str) -> None:
    assert {(one.available, one.because) for one in read([found], [])} == {(not want, want)}


def test_an_unreadable_decision_closes_the_type_and_names_the_pod() -> None:
    found = read([node()], [pod("bad", "GPU-0,NVIDIA,x,0:;")])
    assert {one.because for one in found} == {"the decision of default/bad cannot be read"}


def test_a_card_in_use_that_nobody_registered_comes_last() -> None:
    found = read([node()], [pod("a", "GPU-9,NVIDIA,1,2:;")])
    assert [one.id for one in found] == ["GPU-0", "GPU-1", "GPU-9"]
    assert found[-1] == one_card(
        id="GPU-9", index=-1, model="", slots=0, memory_mib=0, cores=0, healthy=False,
        available=False, because="the card is not registered",
        slots_used=1, memory_used_mib=1, cores_used=2, owners=(owner("a", 1, 2),),
    )  # fmt: skip


def test_usage_on_a_node_that_is_gone_is_not_shown() -> None:
    assert read([], [pod("a", "GPU-0,NVIDIA,1,2:;")]) == []


def test_nodes_and_types_come_in_order() -> None:
    both = node("n1").register("hcu", builders.cards(1, word="HCU"))
    found = read([node("n2"), both], [])
    assert [(one.node, one.type) for one in found] == [
        ("n1", "HCU"),
        ("n1", "NVIDIA"),
        ("n1", "NVIDIA"),
        ("n2", "NVIDIA"),
        ("n2", "NVIDIA"),
    ]


SHOWN = [
    one_card(slots_used=1, memory_used_mib=16384, owners=(owner("a", 16384, 0),)),
    one_card(
        id="GPU-1234567890-abcdefghij",
        index=-1,
        model="",
        healthy=False,
        available=False,
        because="reasons",
        owners=(holdings.Owner(pod="x/y", slots=1, memory_mib=1, cores=1, foreign=True),),
    ),
]


def test_the_table() -> None:
    head, *rows = devices.as_table(SHOWN).splitlines()
    assert head.split() == [
        "NODE", "TYPE", "#", "ID", "MODEL", "SLOTS", "MEMORY", "CORES", "HEALTH", "TAKES",
        "PODS", "OWNERS",
    ]  # fmt: skip
    assert [row.split() for row in rows] == [
        ["n1", "NVIDIA", "0", "GPU-0", "Model-X", "1/10", "16384/32768", "MiB", "█████░░░░░",
         "0/100", "ok", "yes", "default/a"],
        ["n1", "NVIDIA", "?", "GPU-12345…cdefghij", "-", "0/10", "0/32768", "MiB", "░░░░░░░░░░",
         "0/100", "bad", "no:", "reasons", "x/y", "(foreign)"],
    ]  # fmt: skip


def test_a_cluster_without_devices_says_so() -> None:
    assert devices.as_table([]).startswith("no devices: no node carries a register")
    assert devices.as_json([]) == "[]"


def test_json_and_yaml_say_the_same() -> None:
    found = json.loads(devices.as_json(SHOWN))
    assert yaml.safe_load(devices.as_yaml(SHOWN)) == found
    assert found[0] == {
        "node": "n1", "type": "NVIDIA", "id": "GPU-0", "index": 0, "model": "Model-X",
        "slots": 10, "slots_used": 1, "memory_mib": 32768, "memory_used_mib": 16384,
        "cores": 100, "cores_used": 0, "healthy": True, "available": True, "because": "",
        "owners": [
            {"pod": "default/a", "slots": 1, "memory_mib": 16384, "cores": 0, "foreign": False}
        ],
    }  # fmt: skip


# ---- the command, against an API server


@pytest.fixture
def url() -> Iterator[str]:
    with server.ApiServer(store.Store()) as api:
        for made in (node("n1"), node("n2")):
            raw = made.raw()
            del raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
            api.call(api.store.create, "nodes", raw)
        yield api.url


def run(*arguments: str) -> int:
    return main.main(["devices", *arguments])


def test_the_command_prints_a_line_per_card(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--server", url) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_command_can_be_told_a_node_and_a_form(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--server", url, "--node", "n2", "-o", "yaml") == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert [(one["node"], one["id"]) for one in found] == [("n2", "GPU-0"), ("n2", "GPU-1")]


def test_the_command_knows_the_operators_configuration(
    url: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("vendors: {NVIDIA: {enabled: false}}\n")
    assert run("--server", url, "--config", str(path)) == 0
    assert "no devices" in capsys.readouterr().out


def test_a_server_that_is_not_there_is_an_error_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--server", "http://127.0.0.1:9") == 1
    assert "hami-operator: list /api/v1/nodes:" in capsys.readouterr().err


# ---- texts


@pytest.mark.parametrize(
    ("used", "total", "want"),
    [
        pytest.param(0, 100, "░░░░░░░░░░", id="nothing"),
        pytest.param(1, 1000, "█░░░░░░░░░", id="anything shows"),
        pytest.param(50, 100, "█████░░░░░", id="half"),
        pytest.param(100, 100, "██████████", id="all"),
        pytest.param(300, 100, "██████████", id="more than there is"),
        pytest.param(5, 0, "░░░░░░░░░░", id="a part of nothing"),
    ],
)
def test_bars(used: int, total: int, want: str) -> None:
    assert table.bar(used, total) == want


def test_columns_line_up() -> None:
    assert table.columns([("a", "bb"), ("ccc", "d")], heads=("X", "Y")) == [
        "X    Y",
        "a    bb",
        "ccc  d",
    ]
    assert table.columns([]) == []


@pytest.mark.parametrize(
    ("width", "want_end", "want_middle"),
    [
        pytest.param(6, "abcdef", "abcdef", id="it fits"),
        pytest.param(5, "abcd…", "ab…ef", id="one too long"),
        pytest.param(2, "a…", "a…", id="hardly any room"),
    ],
)
def test_cutting(width: int, want_end: str, want_middle: str) -> None:
    assert table.shortened("abcdef", width) == want_end
    assert table.middle_cut("abcdef", width) == want_middle


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_block_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: _size(10, 4))
    out = Terminal()
    shown = screen.Screen(out)
    shown.draw(["one", "two"])
    shown.tell("said")
    shown.draw(["a line that is too long", "2", "3", "4"])
    shown.clear()
    assert out.getvalue() == (
        "one\ntwo\n\x1b[2F\x1b[Jsaid\none\ntwo\n\x1b[2F\x1b[Ja line th…\n2\n3\n\x1b[3F\x1b[J"
    )


def _size(columns: int, lines: int) -> Any:
    return type("Size", (), {"columns": columns, "lines": lines})()


def test_anything_else_gets_lines_alone() -> None:
    out = io.StringIO()
    shown = screen.Screen(out)
    shown.draw(["block"])
    shown.tell("said")
    shown.clear()
    assert out.getvalue() == "said\n"


def test_the_cards_of_the_demo_name_a_node_once() -> None:
    lines = report.cards(SHOWN)
    assert [line.split()[:3] for line in lines[1:]] == [
        ["n1", "NVIDIA", "GPU-0"],
        ["NVIDIA", "GPU-123…efghij", "0/32768"],
    ]
    assert {len(line) for line in report.cards(SHOWN, width=20)} == {20}


def test_those_that_wait_say_why() -> None:
    pods = [
        builders.pod("a").condition("PodScheduled", "False", message="no room").raw(),
        builders.pod("b").raw(),
        builders.pod("c").on("n1").raw(),
    ]
    assert report.waiting(pods) == ["a  no room", "b  not looked at yet"]


def test_the_verdict_lists_what_is_wrong() -> None:
    checks = [story.Check(name="good"), story.Check(name="bad", problems=("this", "that"))]
    assert list(report.verdict(checks)) == [
        "ok      good",
        "FAILED  bad",
        "        this",
        "        that",
    ]


def test_no_pods_are_none() -> None:
    assert report.summary([]) == "pods: none"
