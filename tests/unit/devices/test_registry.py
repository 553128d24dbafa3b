"""The registry: explicit rows, no duplicates, and rows from the configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hami_operator import errors, settings
from hami_operator.devices import registry, vendor
from hami_operator.protocol import keys
from tests.unit.devices.rows import ROW, row

OTHER = vendor.Vendor(
    keyword="Other",
    resources=vendor.Resources(count="other.io/card"),
    node=vendor.NodeKeys(register="other.io/register"),
    pod=vendor.PodKeys(allocated="other.io/allocated"),
)


def test_rows_stand_in_the_order_of_their_words() -> None:
    built = registry.build([OTHER, ROW])

    assert list(built) == [ROW, OTHER]
    assert len(built) == 2
    assert built.by_word == {"Acme": ROW, "Other": OTHER}
    assert built == registry.build([ROW, OTHER])


def test_all_names_are_known() -> None:
    built = registry.build([ROW, OTHER])
    assert built.resource_names == {
        "acme.io/card",
        "acme.io/memory",
        "acme.io/cores",
        "acme.io/percent",
        "other.io/card",
    }
    assert built.owned_pod_keys == {
        "acme.io/to-allocate",
        "acme.io/allocated",
        "acme.io/plugin",
        "other.io/allocated",
        *keys.DECISION,
    }


def test_the_shared_lock_comes_first_and_each_lock_once() -> None:
    words = ("b", "a", "shared", "shared too", "none")
    locks = ("x.io/b", "x.io/a", keys.NODE_LOCK, keys.NODE_LOCK, "")
    rows = [
        vendor.Vendor(
            keyword=word,
            resources=vendor.Resources(count=f"{word}/card"),
            pod=vendor.PodKeys(allocated=f"{word}/allocated"),
            lock=lock,
        )
        for word, lock in zip(words, locks, strict=True)
    ]
    built = registry.build(rows)
    assert built.lock_keys(words) == (keys.NODE_LOCK, "x.io/a", "x.io/b")
    assert built.lock_keys(["none"]) == ()


@pytest.mark.parametrize(
    ("change", "want_field"),
    [
        pytest.param({"resources": ROW.resources}, "vendors.Other.count", id="count resource"),
        pytest.param({"node": ROW.node}, "vendors.Other.register", id="register key"),
        pytest.param(
            {"pod": vendor.PodKeys(allocated="acme.io/allocated")},
            "vendors.Other.allocated",
            id="allocated key",
        ),
        pytest.param(
            {"pod": vendor.PodKeys(allocated="o", to_allocate="acme.io/to-allocate")},
            "vendors.Other.to_allocate",
            id="to-allocate key",
        ),
    ],
)
def test_two_rows_may_not_claim_the_same_name(change: dict[str, Any], want_field: str) -> None:
    with pytest.raises(errors.SettingsError, match="already that of Acme") as caught:
        registry.build([ROW, dataclasses.replace(OTHER, **change)])
    assert caught.value.field == want_field


def test_a_name_is_free_again_when_its_row_is_switched_off() -> None:
    same = dataclasses.replace(OTHER, resources=ROW.resources)
    built = registry.build([ROW, same], overrides={"Acme": {"enabled": False}})
    assert [one.keyword for one in built] == ["Other"]


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({}, ROW, id="nothing"),
        pytest.param({"enabled": True}, ROW, id="switched on, as it is"),
        pytest.param({"memory_factor": 10}, row(memory_factor=10), id="one field"),
        pytest.param({"memoryFactor": 10}, row(memory_factor=10), id="under HAMi's name"),
        pytest.param(
            {"count": " x/y ", "cores": ""},
            row(resources=dataclasses.replace(ROW.resources, count="x/y", cores="")),
            id="names of resources; an empty one matches nothing",
        ),
        pytest.param({"lock": "shared"}, row(lock=keys.NODE_LOCK), id="the shared lock"),
        pytest.param({"lock": "none"}, row(lock=""), id="no lock"),
        pytest.param({"lock": "x.io/lock"}, row(lock="x.io/lock"), id="an own lock"),
        pytest.param(
            {"use_uuid": "k", "skip_uuid": ["a", "b"]},
            row(
                selection=dataclasses.replace(ROW.selection, use_uuid=("k",), skip_uuid=("a", "b"))
            ),
            id="one key or several",
        ),
        pytest.param(
            {"checks": ["F1", "F10"]},
            row(checks=frozenset({vendor.Check.HEALTH, vendor.Check.MEMORY})),
            id="checks by number",
        ),
        pytest.param(
            {"core_policy": "force", "overwrite_env": True, "runtime_class": "fast"},
            row(core_policy="force", overwrite_env=True, runtime_class="fast"),
            id="admission",
        ),
    ],
)
def test_the_configuration_changes_only_what_it_names(
    values: dict[str, Any], want: vendor.Vendor
) -> None:
    assert registry.build([ROW], overrides={"Acme": values}).rows == (want,)


@pytest.mark.parametrize(
    ("values", "want_field"),
    [
        pytest.param({"memry": 1}, "memry", id="an unknown field"),
        pytest.param({"memory_factor": "2"}, "memory_factor", id="a number as text"),
        pytest.param({"memory_factor": -1}, "memory_factor", id="a negative number"),
        pytest.param({"default_count": True}, "default_count", id="a truth value as number"),
        pytest.param({"enabled": "no"}, "enabled", id="a truth value as text"),
        pytest.param({"count": 5}, "count", id="a text that is a number"),
        pytest.param({"use_uuid": [5]}, "use_uuid[0]", id="a list that holds a number"),
        pytest.param({"core_policy": "strict"}, "core_policy", id="an unknown policy"),
        pytest.param({"memoryFactor": "2"}, "memoryFactor", id="the name as it was given"),
        pytest.param({"checks": ["F1", "F14"]}, "checks[1]", id="a check that is no switch"),
    ],
)
def test_what_cannot_be_used_names_its_field(values: dict[str, Any], want_field: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        registry.build([ROW], overrides={"Acme": values})
    assert caught.value.field == f"vendors.Acme.{want_field}"


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({"memry": 1}, "unknown field of a device backend; did you mean memory?"),
        (
            {"resourceCoutName": "a"},
            "unknown field of a device backend; did you mean resourceCountName?",
        ),
        ({"enable": False}, "unknown field of a device backend; did you mean enabled?"),
        ({"xyzzy": 1}, "unknown field of a device backend"),
    ],
)
def test_the_closest_field_is_named(values: dict[str, Any], want: str) -> None:
    (name,) = values
    with pytest.raises(errors.SettingsError) as caught:
        registry.build([ROW], overrides={"Acme": values})
    assert str(caught.value) == f"vendors.Acme.{name}: {want}"


def test_the_closest_row_is_named() -> None:
    with pytest.raises(errors.SettingsError, match=r"new device backend; did you mean NVIDIA\?"):
        registry.build(overrides={"NVIDA": {"memory_factor": 2}})


NEW = {"count": "new.io/card", "register": "new.io/register", "allocated": "new.io/allocated"}


def test_a_new_word_adds_a_backend_with_the_defaults() -> None:
    built = registry.build([ROW], overrides={"New": NEW | {"handshake": "new.io/handshake"}})
    assert built.by_word["New"] == vendor.Vendor(
        keyword="New",
        resources=vendor.Resources(count="new.io/card"),
        node=vendor.NodeKeys(register="new.io/register", handshake="new.io/handshake"),
        pod=vendor.PodKeys(allocated="new.io/allocated"),
    )


@pytest.mark.parametrize("missing", NEW)
def test_a_new_word_needs_its_keys(missing: str) -> None:
    values = {name: value for name, value in NEW.items() if name != missing}
    with pytest.raises(errors.SettingsError) as caught:
        registry.build([ROW], overrides={"New": values})
    assert caught.value.field == f"vendors.New.{missing}"


@pytest.mark.parametrize("word", ["", "a,b", "a;b", "a\nb"])
def test_a_new_word_must_fit_into_a_decision(word: str) -> None:
    with pytest.raises(errors.SettingsError, match="cannot be written into a decision"):
        registry.build([], overrides={word: NEW})


def test_a_row_is_a_cheap_key_and_still_compared_in_full() -> None:
    assert hash(ROW) == hash(row(memory_factor=2))
    assert row(memory_factor=2) != ROW


def test_the_key_that_usage_is_read_from() -> None:
    assert ROW.pod.recorded == "acme.io/allocated"
    assert vendor.PodKeys(allocated="", to_allocate="t").recorded == "t"
    assert (ROW.quota_memory, ROW.quota_cores) == ("acme.io/memory", "acme.io/cores")
    assert row(memory_unit_mib=256, memory_factor=0).mib_per_unit == 256


# --- HAMi's file and our own overrides together


def test_without_a_file_the_rows_are_the_built_in_ones() -> None:
    assert registry.configured(settings.Settings()) == registry.Configured(
        registry=registry.default()
    )


def test_our_own_overrides_win_over_hamis_file() -> None:
    theirs = {"nvidia": {"resourceCountName": "a/gpu", "defaultMemory": 5, "acme": 1}}
    own: dict[str, dict[str, Any]] = {
        "NVIDIA": {"resourceCountName": "b/gpu"},
        "GCU": {"enabled": False},
    }
    found = registry.configured(settings.Settings(device_config=theirs, vendors=own))
    row = found.registry.by_word["NVIDIA"]
    assert (row.resources.count, row.default_memory_mib) == ("b/gpu", 5)
    assert "GCU" not in found.registry.by_word
    assert found.warnings == ("device-config: nvidia.acme is not known, and ignored",)


@pytest.mark.parametrize(
    ("theirs", "own", "want"),
    [
        pytest.param(
            {"nvidia": {"resourceCountName": 5}},
            {},
            "device_config.nvidia.resourceCountName",
            id="a value of a section",
        ),
        pytest.param(
            {"iluvatars": [{"commonWord": "MR-V50", "resourceMemoryName": 5}]},
            {},
            "device_config.iluvatars[0].resourceMemoryName",
            id="a value of a chip",
        ),
        pytest.param(
            {"vnpus": {"hamiVnpuCore": "yes", "configs": []}},
            {},
            "device_config.vnpus.hamiVnpuCore",
            id="a value for all chips",
        ),
        pytest.param(
            {
                "vnpus": {
                    "hamiVnpuCore": "yes",
                    "configs": [{"commonWord": "Ascend310P", "hamiVnpuCore": "no"}],
                }
            },
            {},
            "device_config.vnpus.configs[0].hamiVnpuCore",
            id="a chip's own value before that for all",
        ),
        pytest.param(
            {"amd": {"resourceCountName": "nvidia.com/gpu"}},
            {},
            "device_config.amd.resourceCountName",
            id="a name of another row",
        ),
        pytest.param({"nvidia": [1]}, {}, "device_config.nvidia", id="a section of no kind"),
        pytest.param({}, {}, "device_config", id="nothing at all"),
        pytest.param(
            {"nvidia": {"resourceCountName": "a/gpu"}},
            {"NVIDIA": {"count": 5}},
            "vendors.NVIDIA.count",
            id="our own value",
        ),
    ],
)
def test_what_cannot_be_used_is_named_as_it_was_written(
    theirs: dict[str, Any], own: dict[str, Any], want: str
) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        registry.configured(settings.Settings(device_config=theirs, vendors=own))
    assert caught.value.field == want


def test_a_name_that_is_taken_is_blamed_on_the_row_of_the_configuration() -> None:
    with pytest.raises(errors.SettingsError, match=r"vendors\.Acme\.count: o.* that of Other"):
        registry.build(
            [ROW, OTHER],
            overrides={"Acme": {"count": OTHER.resources.count}, "X": {"enabled": False}},
        )


def test_rows_are_found_by_the_resources_that_a_container_names() -> None:
    same = dataclasses.replace(
        OTHER, resources=vendor.Resources(count="o/c", memory="acme.io/memory")
    )
    built = registry.build([ROW, same])
    assert built.asked({"cpu": "1"}, {}) == set()
    assert built.asked({"acme.io/memory": 1}) == {"Acme", "Other"}
    assert built.asked({"cpu": 1, "acme.io/card": 1}, {"o/c": 1}) == {"Acme", "Other"}
