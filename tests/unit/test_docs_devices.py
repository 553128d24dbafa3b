"""The pages about device backends say what the rows say, and what they promise works."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from hami_operator.cli import decide, documents, main, reference, schema, vendors
from hami_operator.devices import admit, registry, vendor
from tests import builders
from tests.conformance import samples

DOCS = pathlib.Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "add-a-vendor.md").read_text()
ROWS = registry.default()


def test_the_reference_is_that_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["vendors", "list", "-o", "markdown"]) == 0
    made = "hami-operator vendors list -o markdown > docs/devices.md"
    assert (DOCS / "devices.md").read_text() == capsys.readouterr().out, made


def test_the_schema_is_that_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["vendors", "schema"]) == 0
    made = "hami-operator vendors schema > docs/configuration.schema.json"
    assert (DOCS / "configuration.schema.json").read_text() == capsys.readouterr().out, made


@pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in ROWS])
def test_every_row_is_in_the_reference_with_all_its_keys(row: vendor.Vendor) -> None:
    page = reference.page(registry.build([row]))
    assert f"## {row.keyword}\n" in page
    picked, node, pod = row.selection, row.node, row.pod
    for name in (
        *row.resources.names,
        *(node.register, node.handshake, node.legacy_handshake, node.listed, *node.extra),
        *(pod.to_allocate, pod.allocated, *pod.plugin, row.lock),
        *(picked.use_type, picked.skip_type, *picked.use_uuid, *picked.skip_uuid),
        *(picked.numa_bind, *row.options),
    ):
        assert not name or f"`{name}`" in page, name


def test_rows_that_are_alike_stand_together() -> None:
    page = (DOCS / "devices.md").read_text()
    heads = re.findall("^## (.*)$", page, re.MULTILINE)
    assert "BI-V100, BI-V150, MR-V100, MR-V50" in heads
    assert sorted(word for head in heads for word in head.split(", ")) == [
        row.keyword for row in ROWS
    ]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in ROWS])
def test_the_example_of_every_row_is_placed(row: vendor.Vendor) -> None:
    example = reference.example(row)
    (asking,) = example["spec"]["containers"]
    limits = {name: str(amount) for name, amount in asking["resources"]["limits"].items()}
    answer = admit.admit(row, admit.Container(name="main", limits=limits), admit.Pod())
    assert isinstance(answer, admit.Admitted), answer
    assert answer.takes
    asking["resources"]["limits"] = dict(answer.container.limits)
    example["metadata"]["annotations"] = dict(answer.pod.annotations)
    placed = decide.decide_line({"nodes": [samples.node(row).raw()], "pod": example})
    assert placed.get("node") == samples.NODE, placed
    assert row.pod.recorded in placed["annotations"]


# --- adding a vendor


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


ROW, POD = map(yaml.safe_load, blocks("yaml"))
REGISTER, DECISION = (dict(line.split(": ") for line in text.splitlines()) for text in
                      blocks("text"))  # fmt: skip


def acme(**more: Any) -> dict[str, Any]:
    """A request to decide about the page's pod on a node as the page shows it."""
    node = builders.roomy("n1").annotate(REGISTER)
    node = node.annotate({"acme.example/node-handshake": builders.ANSWERED})
    return {"nodes": [node.raw()], "pod": POD, "settings": ROW, **more}


def test_the_block_of_the_page_is_all_that_a_vendor_needs() -> None:
    placed = decide.decide_line(acme())
    decided = {key: text for key, text in placed["annotations"].items() if "acme" in key}
    assert (placed["node"], decided) == ("n1", DECISION)


def test_without_the_block_nobody_knows_the_vendor() -> None:
    placed = decide.decide_line(acme(settings={}))
    assert "acme.example" not in json.dumps(placed.get("annotations", {}))


def test_usage_of_the_page_s_pod_counts() -> None:
    bound = {**POD, "metadata": {"name": "first", "annotations": {**DECISION}}}
    bound["metadata"]["annotations"]["hami.io/vgpu-node"] = "n1"
    bound["spec"] = {**POD["spec"], "nodeName": "n1"}
    beside = decide.decide_line(acme(pods=[bound]))
    assert beside["annotations"]["acme.example/devices-allocated"] == "acme-0,Acme,8192,30:;"


def written(tmp_path: pathlib.Path, name: str, content: Mapping[str, Any] | str) -> str:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(file)


def test_the_checks_of_the_page_print_what_it_shows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block = blocks("yaml")[0]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "config.yaml", block)
    written(tmp_path, "wrong.yaml", block.replace("    count:", "    cuont:", 1))
    for shown in blocks("console"):
        command, _, want = shown.partition("\n")
        if "hami-operator vendors" not in command:
            continue
        main.main(command.removeprefix("$ hami-operator ").split())
        assert capsys.readouterr().out == want


def test_the_row_of_the_page_passes_the_schema_s_own_list_of_fields(
    tmp_path: pathlib.Path,
) -> None:
    new = schema.build()["properties"]["vendors"]["additionalProperties"]
    assert ROW["vendors"]["Acme"].keys() <= new["properties"].keys()
    assert list(vendors.check(documents.read(written(tmp_path, "c.yaml", ROW)))) == []
