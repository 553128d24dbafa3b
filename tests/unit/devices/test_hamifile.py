"""HAMi's device-config.yaml: which rows it changes, and what it must not say."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.devices import hamifile, registry, vendor

SHIPPED = """
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  overwriteEnv: false
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  memoryFactor: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
  gpuCorePolicy: default
  libCudaLogLevel: 1
  runtimeClassName: ""
  migProfileAllowlist:
  - models: [A30]
    profiles: [1g.6gb, 2g.12gb, 4g.24gb]
cambricon:
  resourceCountName: cambricon.com/vmlu
  resourceMemoryName: cambricon.com/mlu.smlu.vmemory
  resourceCoreName: cambricon.com/mlu.smlu.vcore
hygon:
  resourceCountName: hygon.com/dcunum
  resourceMemoryName: hygon.com/dcumem
  resourceCoreName: hygon.com/dcucores
metax:
  resourceCountName: metax-tech.com/gpu
  resourceVCountName: metax-tech.com/sgpu
  resourceVMemoryName: metax-tech.com/vmemory
  resourceVCoreName: metax-tech.com/vcore
  sgpuTopologyAware: false
mthreads:
  resourceCountName: mthreads.com/vgpu
  resourceMemoryName: mthreads.com/sgpu-memory
  resourceCoreName: mthreads.com/sgpu-core
iluvatars:
- chipName: MR-V100
  commonWord: MR-V100
  resourceCountName: iluvatar.ai/MR-V100-vgpu
  resourceMemoryName: iluvatar.ai/MR-V100.vMem
  resourceCoreName: iluvatar.ai/MR-V100.vCore
enflame:
  resourceNameGCU: enflame.com/gcu
  resourceNameVGCU: enflame.com/vgcu
  resourceNameDRSGCU: enflame.com/drs-gcu
kunlun:
  resourceCountName: kunlunxin.com/xpu
  resourceVCountName: kunlunxin.com/vxpu
  resourceVMemoryName: kunlunxin.com/vxpu-memory
awsneuron:
  resourceCountName: aws.amazon.com/neuron
  resourceCoreName: aws.amazon.com/neuroncore
amd:
  resourceCountName: amd.com/gpu
vastai:
biren: {}
vnpus:
  hamiVnpuCore: false
  configs:
  - chipName: 310P3
    commonWord: Ascend310P
    resourceName: huawei.com/Ascend310P
    resourceMemoryName: huawei.com/Ascend310P-memory
    memoryAllocatable: 21527
    memoryCapacity: 24576
    aiCore: 8
    aiCPU: 7
    templates:
    - {name: vir01, memory: 3072, aiCore: 1, aiCPU: 1}
    - {name: vir02, memory: 6144, aiCore: 2, aiCPU: 2}
    - {name: vir04, memory: 12288, aiCore: 4, aiCPU: 4}
"""


def built(document: Any) -> tuple[registry.Registry, tuple[str, ...]]:
    found = hamifile.read(document, registry.BUILT_IN)
    return registry.build(found.rows, overrides=found.overrides), found.warnings


def test_a_file_that_says_the_defaults_changes_nothing() -> None:
    rows, warnings = built(yaml.safe_load(SHIPPED))
    assert warnings == ()
    default = registry.default()
    assert [row.keyword for row in rows] == [row.keyword for row in default]
    for row, before in zip(rows, default, strict=True):
        options = dict(before.options)
        assert dataclasses.replace(row, options=options, file=before.file) == (
            dataclasses.replace(before, options=options)
        )


@pytest.mark.parametrize(
    ("document", "word", "read", "want"),
    [
        pytest.param(
            {"nvidia": {"resourceCountName": "a.b/c", "defaultMemory": 5000}},
            "NVIDIA",
            lambda row: (row.resources.count, row.default_memory_mib),
            ("a.b/c", 5000),
            id="a vendor of its own section",
        ),
        pytest.param(
            {"hygon": {"resourceCountName": "hygon.com/dcunum", "memoryFactor": 4}},
            "DCU",
            lambda row: row.memory_factor,
            4,
            id="a section means the row whose resource it names",
        ),
        pytest.param(
            {"hygon": {"resourceCountName": "hygon.com/card", "memoryFactor": 4}},
            "HCU",
            lambda row: (row.resources.count, row.memory_factor),
            ("hygon.com/card", 4),
            id="else the first of the section",
        ),
        pytest.param(
            {"metax": {"sgpuTopologyAware": True}},
            "Metax-SGPU",
            lambda row: row.options["topology_aware"],
            True,
            id="an option",
        ),
        pytest.param(
            {"enflame": {"resourceNameVGCU": "e/old"}},
            "Enflame",
            lambda row: row.resources.count,
            "e/old",
            id="an older name",
        ),
        pytest.param(
            {"enflame": {"resourceNameDRSGCU": "e/new", "resourceNameVGCU": "e/old"}},
            "Enflame",
            lambda row: row.resources.count,
            "e/new",
            id="the newer of two names",
        ),
        pytest.param(
            {"iluvatars": [{"commonWord": "BI-V100", "resourceCoreName": "i/c"}]},
            "BI-V100",
            lambda row: row.resources.cores,
            "i/c",
            id="a chip of a list",
        ),
        pytest.param(
            {"iluvatars": [{"commonWord": "BI-V200", "resourceCountName": "i/c"}]},
            "BI-V200",
            lambda row: (row.resources.count, row.pod.allocated),
            ("i/c", "hami.io/BI-V200-devices-allocated"),
            id="a chip that is new",
        ),
        pytest.param(
            {"vnpus": {"hamiVnpuCore": True}},
            "Ascend910B2",
            lambda row: row.options["soft_split"],
            True,
            id="what stands beside the list is said of all chips",
        ),
        pytest.param(
            {"vnpus": {"hamiVnpuCore": True, "configs": [{"commonWord": "Ascend910D"}]}},
            "Ascend910D",
            lambda row: (row.options["soft_split"], row.options["templates"]),
            (True, {}),
            id="also of a chip that is new",
        ),
        pytest.param(
            {"vnpus": {"configs": [{"commonWord": "Ascend910A", "memoryCapacity": 7}]}},
            "Ascend910A",
            lambda row: row.options["capacity_mib"],
            7,
            id="a number of a chip",
        ),
        pytest.param(
            {"nvidia": {"defaultCores": None, "memoryFactor": 2}},
            "NVIDIA",
            lambda row: (row.default_cores, row.memory_factor),
            (0, 2),
            id="a key without value says nothing",
        ),
    ],
)
def test_what_the_file_says(document: Any, word: str, read: Any, want: Any) -> None:
    rows, warnings = built(document)
    assert read(rows.by_word[word]) == want
    assert warnings == ()


@pytest.mark.parametrize("row", registry.BUILT_IN, ids=lambda row: row.keyword)
def test_every_name_of_the_file_means_a_field_or_an_option(row: vendor.Vendor) -> None:
    assert row.file.path
    for name in row.file.names.values():
        value = row.options[name] if name in row.options else _SAMPLES.get(name, "a/b")
        changed = registry.build([row], overrides={row.keyword: {name: value}})
        assert len(changed) == 1
    assert not set(row.file.names) & set(row.file.plugin)


_SAMPLES = {
    "memory_factor": 2,
    "default_memory_mib": 1,
    "default_cores": 1,
    "default_count": 1,
    "core_policy": "force",
    "overwrite_env": True,
}


def test_what_nobody_knows_is_told_and_ignored() -> None:
    document = {
        "nvidia": {"resourceCount": "x"},
        "acme": {"a": 1},
        "iluvatars": [{"commonWord": "MR-V50", "vCore": 1}],
        "vnpus": {"soft": True, "configs": []},
    }
    rows, warnings = built(document)
    assert rows == registry.default()
    assert sorted(warnings) == [
        "device-config: acme is not known, and ignored",
        "device-config: iluvatars[0].vCore is not known, and ignored",
        "device-config: nvidia.resourceCount is not known, and ignored"
        "; did you mean resourceCountName?",
        "device-config: vnpus.soft is not known, and ignored",
    ]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        pytest.param(None, "", id="an empty file"),
        pytest.param([], "", id="a list"),
        pytest.param({}, "", id="no section"),
        pytest.param({"nvidia": None, "vnpus": {}}, "", id="all sections empty"),
        pytest.param({"nvidia": [1]}, "nvidia", id="a section that is a list"),
        pytest.param({"vnpus": [1]}, "vnpus", id="the outer of two sections"),
        pytest.param({"iluvatars": {"a": 1}}, "iluvatars", id="a list that is a section"),
        pytest.param({"iluvatars": ["MR-V100"]}, "iluvatars[0]", id="a chip that is a word"),
        pytest.param({"iluvatars": [{"chipName": "x"}]}, "iluvatars[0]", id="a chip without word"),
        pytest.param(
            {"nvidia": {"migProfileAllowlist": "A100"}}, "nvidia.migProfileAllowlist", id="a word"
        ),
        pytest.param(
            {"nvidia": {"migProfileAllowlist": [{"models": ["A30"], "profiles": []}]}},
            "nvidia.migProfileAllowlist[0]",
            id="no profiles",
        ),
        pytest.param(
            {"nvidia": {"migProfileAllowlist": [{"models": ["A30"], "profiles": ["g.6gb"]}]}},
            "nvidia.migProfileAllowlist[0].profiles[0]",
            id="no profile",
        ),
        pytest.param(
            {"nvidia": {"migProfileAllowlist": [7]}},
            "nvidia.migProfileAllowlist[0]",
            id="a number",
        ),
    ],
)
def test_what_cannot_be_used_is_named(document: Any, field: str) -> None:
    found = hamifile.read(document, registry.BUILT_IN)
    assert [fault.field for fault in found.faults] == [field]


def test_a_chip_that_is_new_needs_a_family_that_knows_what_to_make_of_it() -> None:
    rows = [
        dataclasses.replace(row, file=dataclasses.replace(row.file, make=None))
        for row in registry.BUILT_IN
    ]
    found = hamifile.read({"iluvatars": [{"commonWord": "BI-V200"}]}, rows)
    assert [str(one) for one in found.faults] == ["iluvatars[0]: 'BI-V200' is no known chip"]


def test_a_value_of_the_wrong_type_is_named_when_the_rows_are_built() -> None:
    with pytest.raises(errors.SettingsError, match=r"NVIDIA\.default_memory_mib"):
        built({"nvidia": {"defaultMemory": "much"}})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a/b", "MR-V100"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["commonWord", "configs", "memoryFactor"]), inner)
    ),
    max_leaves=8,
)
SECTIONS = st.sampled_from(["nvidia", "vnpus", "iluvatars", "hygon", "metax", "x"])


@given(st.dictionaries(SECTIONS, VALUES) | VALUES)
def test_any_document_is_read_or_named(document: Any) -> None:
    found = hamifile.read(document, registry.BUILT_IN)
    assert len(found.rows) >= len(registry.BUILT_IN)
    with contextlib.suppress(errors.SettingsError):
        registry.build(found.rows, overrides=found.overrides)
