"""``hami-operator vendors``: the rows in effect, and what is wrong with a configuration file."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors, settings
from hami_operator.cli import documents, main, policies, vendors
from hami_operator.devices import overrides, registry
from tests.conformance import samples


def written(tmp_path: pathlib.Path, text: str) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return str(file)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.main(["vendors", *arguments]) == 0
    return capsys.readouterr().out


# --- list and show


def test_all_rows_are_listed_with_what_the_configuration_did_to_them(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"NVIDIA": {"count": "a.b/gpu"}, "GCU": {"enabled": False}, **samples.CONFIGURED}
    out = printed(capsys, "list", "--config", written(tmp_path, yaml.safe_dump({"vendors": said})))
    cells = {line.split()[0]: line.split() for line in out.splitlines()[1:]}
    assert cells.keys() == {"Acme", *(row.keyword for row in registry.default())} - {"GCU"}
    assert (cells["NVIDIA"][1], cells["NVIDIA"][-1]) == ("a.b/gpu", "changed")
    assert (cells["Acme"][-2:], cells["MLU"][-1]) == (["shared", "new"], "built-in")
    assert "acme.example/memory x 1024 MiB" in out


@pytest.mark.parametrize(
    ("form", "parse"), [pytest.param("json", json.loads), pytest.param("yaml", yaml.safe_load)]
)
def test_what_list_writes_is_a_configuration_that_changes_nothing(
    form: str, parse: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = parse(printed(capsys, "list", "-o", form))
    assert said["vendors"].keys() == registry.default().by_word.keys()
    assert registry.configured(settings.load(said)).registry == registry.default()


@pytest.mark.parametrize("row", [pytest.param(row, id=row.keyword) for row in samples.REGISTRY])
def test_a_row_in_the_words_of_the_file_is_the_row_again(row: Any) -> None:
    said = {row.keyword: overrides.plain(row)}
    assert registry.build([row], overrides=said).rows == (row,)
    assert set(overrides.plain(row)) <= set(overrides.fields(row))


def test_a_new_row_is_made_again_from_what_show_says(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump({"vendors": dict(samples.CONFIGURED)})
    shown = printed(capsys, "show", "Acme", "-o", "yaml", "--config", written(tmp_path, text))
    again = registry.configured(settings.load(yaml.safe_load(shown))).registry
    assert again.by_word["Acme"] == samples.REGISTRY.by_word["Acme"]


def test_one_row_is_shown_field_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    lines = dict(line.split(maxsplit=1) for line in printed(capsys, "show", "NVIDIA").splitlines())
    assert lines["count"] == "nvidia.com/gpu"
    assert lines["silent"] == "true"
    assert lines["checks"].startswith("F1, F2, F3")
    assert "templates" not in lines
    shown = printed(capsys, "show", "Ascend910B4")
    assert "vir05_1c_8g 8192, vir10_3c_16g 16384" in shown


def test_a_row_that_is_not_there_is_an_error_with_the_closest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["vendors", "show", "NVDIA"]) == 2
    assert capsys.readouterr().err == "hami-operator: NVDIA: no such row; did you mean NVIDIA?\n"


def test_hamis_file_is_read_as_it_is_and_what_nobody_knows_is_told(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "nvidia: {resourceCountName: a.b/gpu, resourceCoreNam: x}\n")
    assert main.main(["vendors", "list", "--device-config-file", file]) == 0
    out, err = capsys.readouterr()
    assert "a.b/gpu" in out
    assert err == (
        "device-config: nvidia.resourceCoreNam is not known, and ignored; "
        "did you mean resourceCoreName?\n"
    )


# --- manifest


def in_manifest(text: str) -> list[dict[str, Any]]:
    return [one.get("spec", one) for one in yaml.safe_load_all(text)]


@pytest.mark.parametrize("what", ["fail", "policy"])
def test_manifests_name_what_the_configuration_adds_too(
    what: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump({"vendors": dict(samples.CONFIGURED)})
    out = printed(capsys, "manifest", what, "--config", written(tmp_path, text))
    row = samples.REGISTRY.by_word["Acme"]
    plain = printed(capsys, "manifest", what)
    names = {"fail": row.resources.names, "policy": (*row.pod.names, row.node.register)}[what]
    for name in names:
        assert f"'{name}'" in out
        assert f"'{name}'" not in plain


def test_the_policy_lets_the_operators_account_write_and_covers_every_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pods, _, nodes, _ = in_manifest(printed(capsys, "manifest", "policy", "--account", "a/b"))
    rows = registry.default()
    want = [rows.owned_pod_keys, policies.node_keys(rows)]
    for spec, named in zip((pods, nodes), want, strict=True):
        keys = next(one for one in spec["variables"] if one["name"] == "keys")["expression"]
        assert set(re.findall("'([^']+)'", keys)) == set(named)
        assert "'system:serviceaccount:a:b'" in spec["validations"][0]["expression"]
        assert spec["failurePolicy"] == "Fail"
    assert {"hami.io/mutex.lock", "cambricon.com/dsmlu.lock"} <= set(want[1])


# --- check


def checked(tmp_path: pathlib.Path, text: str) -> list[tuple[int, str]]:
    """Line and words of each problem, in the order of the file."""
    found = vendors.check(documents.read(written(tmp_path, text)))
    words = ((one.line, one.words("").partition(": ")[2]) for one in found)
    return sorted(words)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", [], id="an empty file is good"),
        pytest.param("log_format: json\n", [], id="a good setting"),
        pytest.param(
            "log_format: json\ndevice_timout: 5m\n",
            [(2, "device_timout: unknown setting; did you mean device_timeout?")],
            id="a misspelt setting",
        ),
        pytest.param(
            "admission:\n  strct: true\n",
            [(2, "admission.strct: unknown setting; did you mean admission.strict?")],
            id="a misspelt setting of a section",
        ),
        pytest.param(
            "log_format: jsn\nhttp_bind: [1]\n",
            [
                (1, "log_format: 'jsn' is none of json, console; did you mean json?"),
                (2, "http_bind: [1] is not host:port"),
            ],
            id="every wrong value is named",
        ),
        pytest.param(
            "vendors:\n  NVIDIA:\n    default_cores: -1\n    gpuCorePolicy: forced\n",
            [
                (3, "row NVIDIA, field default_cores: -1 is not a whole number "
                    "from 0 to 2147483647"),
                (4, "row NVIDIA, field gpuCorePolicy: 'forced' is none of default, force, "
                    "disable; did you mean force?"),
            ],
            id="wrong values of a row, in our names and in HAMi's",
        ),
        pytest.param(
            "vendors:\n  Acme:\n    cuont: a/b\n    register: a/r\n    allocated: a/a\n"
            "    checks: [F1, F99]\n",
            [
                (3, "row Acme, field cuont: unknown field of a device backend; "
                    "did you mean count?"),
                (6, "row Acme, field checks[1]: F99 is no check from F1 to F13"),
            ],
            id="a misspelt field is not told a second time as the missing one",
        ),
        pytest.param(
            "vendors:\n  NVIDA:\n    default_cores: 1\n",
            [(2, f"row NVIDA, field {field}: is needed by a new device backend; "
                 "did you mean NVIDIA?") for field in ("allocated", "count", "register")],
            id="a misspelt row",
        ),
        pytest.param(
            "vendors:\n  Acme:\n    count: nvidia.com/gpu\n    register: a/r\n"
            "    allocated: a/a\n",
            [(3, "row Acme, field count: nvidia.com/gpu is already that of NVIDIA")],
            id="a name of another row",
        ),
        pytest.param(
            "vendors:\n  NVIDIA: 5\n", [(2, "row NVIDIA: is not a mapping")], id="a row of no kind"
        ),
        pytest.param("vendors:\n  5: {}\n", [(2, "row 5: is not a text")], id="a row of no word"),
        pytest.param("vendors: 5\n",
            [(1, "vendors: is not a mapping from vendor word to its overrides")],
            id="no rows",
        ),
        pytest.param(
            "lease_duration: 5s\n",
            [(1, "renew_deadline: must lie between retry_period and lease_duration")],
            id="values that contradict each other",
        ),
        pytest.param(
            "renew_deadline: 20s\nlease_duration: long\n",
            [(2, "lease_duration: 'long' is not a duration such as 30s or 5m")],
            id="what cannot be read contradicts nothing",
        ),
        pytest.param(
            "lease_duration: 5s\nlog_fromat: json\n",
            [
                (1, "renew_deadline: must lie between retry_period and lease_duration"),
                (2, "log_fromat: unknown setting; did you mean log_format?"),
            ],
            id="a contradiction beside something else",
        ),
        pytest.param(
            "namespace: a\nnamespace: b\n",
            [(2, "namespace: is there twice; only the last one counts")],
            id="a setting that is there twice",
        ),
        pytest.param(
            "device_config:\n  nvidia:\n    resourceCountName: 5\n    defaultMemroy: 5\n",
            [
                (3, "device_config.nvidia.resourceCountName: 5 is not a text"),
                (4, "warning: device_config.nvidia.defaultMemroy: is not known, and ignored; "
                    "did you mean defaultMemory?"),
            ],
            id="HAMi's file within ours",
        ),
        pytest.param(
            "iluvatars:\n- commonWord: MR-V50\n  resourceCountName: 5\n"
            "  resourceMemoryName: [1]\n- chipName: x\n- 7\n"
            "- commonWord: BI-V100\n  resourceCoreName: 6\n- commonWord: MR-V50\n",
            [
                (3, "iluvatars[0].resourceCountName: 5 is not a text"),
                (4, "iluvatars[0].resourceMemoryName: [1] is not a text"),
                (5, "iluvatars[1]: has no commonWord"),
                (6, "iluvatars[2]: is not a mapping"),
                (8, "iluvatars[3].resourceCoreName: 6 is not a text"),
                (9, "iluvatars[4]: MR-V50 is there twice"),
            ],
            id="every bad entry of a list, and every bad value of each",
        ),
        pytest.param(
            "vnpus:\n  configs:\n  - commonWord: Ascend910A\n    templates:\n"
            "    - {name: vir01, memory: -1}\n    - {name: vir02, memroy: 5}\n"
            "    - {name: 7, memory: 5}\n    - vir04\n    - {memory: 5}\n",
            [
                (5, "vnpus.configs[0].templates[0].memory: -1 is not a whole number "
                    "from 0 to 2147483647"),
                (6, "vnpus.configs[0].templates[1]: has no memory, but memroy"),
                (7, "vnpus.configs[0].templates[2].name: 7 is not a text"),
                (8, "vnpus.configs[0].templates[3]: is not a mapping of name and memory"),
                (9, "vnpus.configs[0].templates[4]: has no name"),
            ],
            id="every bad entry of a list within a list",
        ),
        pytest.param(
            "nvidia:\n  migProfileAllowlist:\n  - models: [A30]\n    profiles: [1g.6gb, x, y]\n"
            "  - {models: [A100]}\n  - {models: [H100], profiles: [z]}\namd: [1]\n",
            [
                (4, "nvidia.migProfileAllowlist[0].profiles[1]: 'x' is no profile "
                    "such as 1g.10gb"),
                (4, "nvidia.migProfileAllowlist[0].profiles[2]: 'y' is no profile "
                    "such as 1g.10gb"),
                (5, "nvidia.migProfileAllowlist[1]: has not both models and profiles"),
                (6, "nvidia.migProfileAllowlist[2].profiles[0]: 'z' is no profile "
                    "such as 1g.10gb"),
                (7, "amd: is not a mapping"),
            ],
            id="every bad profile, and the sections after it",
        ),
        pytest.param(
            "log_format: jsn\nvendors:\n  NVIDIA: 5\n  AMD:\n    use_uuid:\n    - 1\n    - a/b\n"
            "    - 2\n    checks: [F1, F0, f2]\n    cuont: 1\n    enabled: 1\n"
            "  Ascend910A:\n    templates: {vir01: x, vir02: -1}\n  7: {}\n",
            [
                (1, "log_format: 'jsn' is none of json, console; did you mean json?"),
                (3, "row NVIDIA: is not a mapping"),
                (6, "row AMD, field use_uuid[0]: 1 is not a text"),
                (8, "row AMD, field use_uuid[2]: 2 is not a text"),
                (9, "row AMD, field checks[1]: F0 is no check from F1 to F13"),
                (9, "row AMD, field checks[2]: f2 is no check from F1 to F13"),
                (10, "row AMD, field cuont: unknown field of a device backend; "
                     "did you mean count?"),
                (11, "row AMD, field enabled: 1 is neither true nor false"),
                (13, "row Ascend910A, field templates.vir01: 'x' is not a whole number "
                     "from 0 to 2147483647"),
                (13, "row Ascend910A, field templates.vir02: -1 is not a whole number "
                     "from 0 to 2147483647"),
                (14, "row 7: is not a text"),
            ],
            id="all that is wrong with a file at once",
        ),
        pytest.param(
            "vendors:\n  AMD:\n    count: nvidia.com/gpu\n    register: hami.io/node-va-register\n"
            "  HCU:\n    count: nvidia.com/gpu\n",
            [
                (3, "row AMD, field count: nvidia.com/gpu is already that of NVIDIA"),
                (4, "row AMD, field register: hami.io/node-va-register is already that of "
                    "Vastai"),
                (6, "row HCU, field count: nvidia.com/gpu is already that of NVIDIA"),
            ],
            id="every name that is taken",
        ),
        pytest.param(
            "vendors:\n  Acme:\n    enabled: false\n    count: 5\n  Old: {enabled: false}\n",
            [(4, "row Acme, field count: 5 is not a text")],
            id="a row that is off may lack names, but not have wrong ones",
        ),
        pytest.param(
            "vendors:\n  AMD:\n    lock: none\n    lock: shared\n",
            [(4, "row AMD, field lock: is there twice; only the last one counts")],
            id="a field of a row that is there twice",
        ),
        pytest.param(
            "nvidia:\n  resourceCountName: 5\niluvatars:\n- commonWord: MR-V100\n- chipName: x\n",
            [(2, "nvidia.resourceCountName: 5 is not a text"),
             (5, "iluvatars[1]: has no commonWord")],
            id="HAMi's own file",
        ),
        pytest.param(
            "nvidia:\namd: {}\n", [(1, "all configurations are empty")], id="an empty one"
        ),
        pytest.param(
            "base: &same {default_cores: -1}\nvendors:\n  NVIDIA: *same\n",
            [(1, "base: unknown setting"),
             (3, "row NVIDIA, field default_cores: -1 is not a whole number "
                 "from 0 to 2147483647")],
            id="what comes by an alias is where the alias is",
        ),
        pytest.param(
            "vendors:\n  NVIDIA: {<<: {default_cores: -1}}\n",
            [(2, "row NVIDIA, field default_cores: -1 is not a whole number "
                 "from 0 to 2147483647")],
            id="what is merged in",
        ),
    ],
)  # fmt: skip
def test_problems_are_named_with_line_row_and_field(
    text: str, want: list[tuple[int, str]], tmp_path: pathlib.Path
) -> None:
    assert checked(tmp_path, text) == want


def test_a_file_with_problems_fails_and_a_good_one_does_not(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "a: 1\nb: 1\nvendors: {NVIDIA: {default_cores: 5}}\n")
    assert main.main(["vendors", "check", file]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:1: a: unknown setting",
        f"{file}:2: b: unknown setting",
        f"{file}: 2 problems",
    ]
    written(tmp_path, "nvidia: {acme: 1}\n")
    assert main.main(["vendors", "check", file]) == 0
    assert capsys.readouterr().out == (
        f"{file}:1: warning: nvidia.acme: is not known, and ignored\n{file}: good\n"
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: [\n", "config.yaml:2: cannot be read", id="no YAML, with the line"),
        pytest.param("- a\n", "config.yaml: is not a mapping", id="a list"),
        pytest.param("? [a]\n: b\n", "config.yaml:1: cannot be read", id="a key of no kind"),
        pytest.param("[" * 5000, "cannot be read", id="nested without end"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    text: str, want: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["vendors", "check", written(tmp_path, text)]) == 2
    assert want in capsys.readouterr().err


def test_a_file_that_holds_itself_is_read(tmp_path: pathlib.Path) -> None:
    text = "vendors: &v\n  NVIDIA: *v\n"
    assert checked(tmp_path, text) == [
        (2, "row NVIDIA, field NVIDIA: unknown field of a device backend")
    ]


_KEYS = st.sampled_from(["vendors", "NVIDIA", "Acme", "count", "cuont", "device_config", "nvidia"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(content=st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_file_has_its_problems_named_or_is_good(content: dict[str, Any]) -> None:
    file = documents.Document(name="f", content=content, lines={})
    fatal = [one for one in vendors.check(file) if one.fatal]
    try:
        registry.configured(settings.load(content))
        good = True
    except errors.SettingsError:
        good = False
    if not vendors._is_hamis(content):
        assert good is not bool(fatal)
