"""Ascend: templates, soft split, modules of two, networks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_operator import errors
from hami_operator.devices import admit, usage
from tests.unit.devices import family
from tests.unit.devices.rows import candidate, taken

SOFT = {"huawei.com/vnpu-mode": "hami-core"}
ALLOWED = {"hami-vnpu-core": "true"}


def limits(chip: str, **amounts: int) -> dict[str, str]:
    suffixes = {"count": "", "memory": "-memory", "core": "-core"}
    return {f"huawei.com/{chip}{suffixes[name]}": str(n) for name, n in amounts.items()}


# --- admission -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chip", "asked", "want"),
    [
        pytest.param("Ascend910A", 2184, 2184, id="exactly a template"),
        pytest.param("Ascend910A", 2185, 4369, id="a little more is the next one"),
        pytest.param("Ascend910A", 20000, 32768, id="more than any template is the card"),
        pytest.param("Ascend310P", 24000, 21527, id="the card has less than its capacity"),
        pytest.param("Ascend910B4", 0, 8192, id="0 is the smallest"),
    ],
)
def test_memory_is_rounded_to_what_a_card_is_cut_into(chip: str, asked: int, want: int) -> None:
    answer = family.admitted(chip, limits(chip, count=1, memory=asked))
    assert isinstance(answer, admit.Admitted)
    assert answer.container.limits == limits(chip, count=1, memory=want)
    assert answer.container.requests == limits(chip, memory=want)


@pytest.mark.parametrize(
    ("chip", "asked", "names"),
    [
        pytest.param("Ascend910A", {"count": 2, "memory": 2000}, "2000", id="two parts of cards"),
        pytest.param(
            "Ascend910C", {"count": 1, "memory": 16384}, "16384", id="a part of a module"
        ),
        pytest.param("Ascend910C", {"count": 5}, "5", id="an odd number of a module's devices"),
        pytest.param("Ascend910A", {"count": 1, "memory": 32769}, "32769", id="too large"),
        pytest.param("Ascend910A", {"count": 1, "core": 5}, "5", id="cores without soft split"),
    ],
)
def test_what_cannot_be_cut_is_denied(chip: str, asked: dict[str, int], names: str) -> None:
    text = family.denial(family.admitted(chip, limits(chip, **asked)))
    assert "main" in text
    assert names in text
    assert f"huawei.com/{chip}" in text


def test_memory_that_is_no_quantity_is_denied() -> None:
    asked = {"huawei.com/Ascend910A": "1", "huawei.com/Ascend910A-memory": "1.5"}
    assert "1.5" in family.denial(family.admitted("Ascend910A", asked))
    assert "many" in family.denial(
        family.admitted("Ascend910A", {"huawei.com/Ascend910A": "many"})
    )


def test_soft_split_takes_memory_as_it_is_and_allows_cores() -> None:
    asked = limits("Ascend910B3", count=2, memory=5000, core=10)
    answer = family.admitted("Ascend910B3", asked, annotations=SOFT)
    assert isinstance(answer, admit.Admitted)
    assert answer.container.limits == asked
    whole = family.admitted("Ascend910B3", limits("Ascend910B3", count=1), annotations=SOFT)
    assert isinstance(whole, admit.Admitted)
    assert whole.container.limits == limits("Ascend910B3", count=1, memory=65536)


def test_a_super_pod_that_is_switched_off_gives_single_devices() -> None:
    row = family.changed("Ascend910C", superPod=False)
    answer = family.admitted(row, limits("Ascend910C", count=1))
    assert isinstance(answer, admit.Admitted)
    assert answer.container.limits == limits("Ascend910C", count=1, memory=65536)


def test_templates_and_sizes_can_be_configured() -> None:
    row = family.changed(
        "Ascend910A",
        memoryAllocatable=30000,
        memoryCapacity=32000,
        templates=[{"name": "half", "memory": 15000}],
        runtimeClassName="ascend",
    )
    answer = family.admitted(row, limits("Ascend910A", count=1, memory=100))
    whole = family.admitted(row, limits("Ascend910A", count=1, memory=32000))
    assert isinstance(answer, admit.Admitted)
    assert isinstance(whole, admit.Admitted)
    assert answer.container.limits == limits("Ascend910A", count=1, memory=15000)
    assert answer.pod.runtime_class == "ascend"
    assert whole.container.limits == limits("Ascend910A", count=1, memory=30000)


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param({"cpu": "1"}, [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}], id="none"),
        pytest.param(limits("Ascend910A", count=1), [], id="this chip"),
        pytest.param(limits("Ascend310P", count=1), [], id="another chip"),
    ],
)
def test_only_a_container_without_any_chip_is_blinded(
    asked: dict[str, str], want: list[dict[str, str]]
) -> None:
    row = family.changed("Ascend910A", overwriteEnv=True)
    answer = family.admitted(row, asked)
    assert isinstance(answer, admit.Admitted)
    assert list(answer.container.env) == want


def test_a_count_of_0_changes_nothing() -> None:
    answer = family.admitted("Ascend910A", limits("Ascend910A", count=0))
    assert isinstance(answer, admit.Admitted)
    assert not answer.takes
    assert answer.container.limits == limits("Ascend910A", count=0)


# --- fit -------------------------------------------------------------------------------------


def npu(index: int, network: Any = None, **facts: Any) -> usage.CardUsage:
    custom = {} if network is None else {"NetworkID": network}
    return candidate(f"id-{index}", index=index, cores=20, custom=custom, **facts)


@pytest.mark.parametrize(
    ("node", "setting", "pod", "want"),
    [
        pytest.param({}, False, SOFT, "1/1 ModeNotFit", id="nobody allows it"),
        pytest.param({}, True, SOFT, "id-0", id="the setting allows it"),
        pytest.param(ALLOWED, False, SOFT, "id-0", id="the node allows it"),
        pytest.param({"hami-vnpu-core": "false"}, True, SOFT, "1/1 ModeNotFit", id="it does not"),
        pytest.param(ALLOWED, True, {}, "id-0", id="hard split goes anywhere"),
    ],
)
def test_soft_split_needs_a_node_that_allows_it(
    node: dict[str, str], setting: bool, pod: dict[str, str], want: str
) -> None:
    row = family.changed("Ascend910B3", hamiVnpuCore=setting)
    asked = family.wanted("Ascend910B3", memory_mib=1000)
    answer = family.place(row, asked, [npu(0)], node_annotations=node, pod_annotations=pod)
    assert family.told(answer) == want


@pytest.mark.parametrize(
    ("used", "cores", "want"),
    [
        pytest.param(taken(1, 0, 50), 50, "id-0", id="half of a card beside another half"),
        pytest.param(taken(1, 0, 51), 50, "1/1 CardInsufficientCore", id="too few cores"),
        pytest.param(taken(1, 0, 0), 100, "1/1 ExclusiveDeviceAllocateConflict", id="in use"),
        pytest.param(taken(1, 0, 100), 0, "1/1 CardComputeUnitsExhausted", id="all given"),
    ],
)
def test_cores_are_percent_under_soft_split(used: usage.Usage, cores: int, want: str) -> None:
    asked = family.wanted("Ascend910B3", memory_mib=1000, cores=cores)
    answer = family.place(
        "Ascend910B3",
        asked,
        [npu(0, used=used)],
        node_annotations=ALLOWED,
        pod_annotations=SOFT,
    )
    assert family.told(answer) == want


def test_cores_of_a_chip_are_its_own_under_hard_split() -> None:
    asked = family.wanted("Ascend910B3", memory_mib=1000, cores=21)
    assert family.told(family.place("Ascend910B3", asked, [npu(0)])) == "1/1 CardInsufficientCore"


@pytest.mark.parametrize(
    ("chip", "networks", "count", "want"),
    [
        pytest.param(
            "Ascend910B3", [1, 0, 0, 1], 2, "id-0 id-3", id="the first of equal networks"
        ),
        pytest.param("Ascend910B3", [1, 0, 0, "x"], 2, "id-1 id-2", id="no number is no network"),
        pytest.param("Ascend910B3", [1, 0, 0], 1, "id-0", id="one device: the first"),
        pytest.param(
            "Ascend910B3", [1, None, 0, 0], 2, "id-0 id-1", id="one without: as they come"
        ),
        pytest.param("Ascend310P", [1, 0, 0], 2, "id-0 id-1", id="other chips have no network"),
    ],
)
def test_devices_of_one_network_are_taken_together(
    chip: str, networks: list[Any], count: int, want: str
) -> None:
    cards = [npu(index, network) for index, network in enumerate(networks)]
    answer = family.place(chip, family.wanted(chip, count, memory_mib=1000), cards)
    assert family.told(answer) == want


@pytest.mark.parametrize(
    ("indexes", "count", "want"),
    [
        pytest.param([2, 1, 3, 0], 2, "id-2 id-3", id="the module that was seen first"),
        pytest.param([2, 1, 3, 0], 4, "id-2 id-3 id-1 id-0", id="both modules"),
        pytest.param([0, 2, 4], 2, "0/3 AllocatedCardsInsufficientRequest", id="no whole module"),
        pytest.param(
            [0, 1, 2, 4], 4, "2/4 AllocatedCardsInsufficientRequest", id="one whole module"
        ),
        pytest.param([-1, -1, 0, 1], 2, "id-0 id-1", id="unknown indexes are passed over"),
    ],
)
def test_only_whole_modules_are_given(indexes: list[int], count: int, want: str) -> None:
    cards = [
        candidate(f"id-{index}" if index >= 0 else f"x-{number}", index=index, cores=20)
        for number, index in enumerate(indexes)
    ]
    answer = family.place("Ascend910C", family.wanted("Ascend910C", count, memory_mib=1000), cards)
    assert family.told(answer) == want


# --- decision and score ----------------------------------------------------------------------


def test_the_factor_is_taken_out_before_a_template_is_named() -> None:
    row = family.changed("Ascend910A", memoryFactor=2)
    pick = family.pick("id-1", memory_mib=2 * 8738)
    (found,) = json.loads(family.written(row, ((pick,),))["huawei.com/Ascend910A"])
    assert found == {"UUID": "id-1", "temp": "vir08", "memory": 17476}


def test_whole_cards_name_no_template_and_all_slots_stand_in_one_list() -> None:
    slots = (
        (family.pick("id-1", memory_mib=32768),),
        (),
        (family.pick("id-2", memory_mib=32768),),
    )
    found = family.written("Ascend910B4", slots)
    assert found["huawei.com/Ascend910B4"] == (
        '[{"UUID":"id-1","memory":32768},{"UUID":"id-2","memory":32768}]'
    )


def test_the_plugin_key_follows_the_name_of_the_resource() -> None:
    row = family.changed("Ascend910A", resourceName="huawei.com/npu")
    assert row.pod.plugin == ("huawei.com/npu", "predicate-time")
    assert set(family.written(row, ((family.pick("a"),),))) == set(row.pod.names)


@pytest.mark.parametrize(
    ("chip", "networks", "policy", "want"),
    [
        pytest.param("Ascend910B3", [[0, 0], [0, 1]], "binpack", 15.0, id="a sum over containers"),
        pytest.param("Ascend910B3", [[0, 0], [0, 1]], "spread", -15.0, id="turned under spread"),
        pytest.param("Ascend910B3", [[0, "x", 1]], "binpack", 5.0, id="others do not count"),
        pytest.param("Ascend910B3", [["x"]], "binpack", 0.0, id="no number at all"),
        pytest.param("Ascend910B3", [[0, None]], "binpack", 0.0, id="one without a network"),
        pytest.param("Ascend310P", [[0, 0]], "binpack", 0.0, id="another chip"),
    ],
)
def test_a_node_scores_by_how_much_lies_in_one_network(
    chip: str, networks: list[list[Any]], policy: str, want: float
) -> None:
    slots = tuple(
        tuple(
            family.pick("id", custom={} if network is None else {"NetworkID": network})
            for network in slot
        )
        for slot in networks
    )
    assert family.node_score(chip, slots, node_policy=policy) == want


@pytest.mark.parametrize(
    ("value", "field"),
    [
        pytest.param({"templates": "all"}, "templates", id="templates of another shape"),
        pytest.param({"templates": {"a": "1"}}, "templates.a", id="a size as text"),
        pytest.param({"templates": [{"memory": 1}]}, "templates[0]", id="a template without name"),
        pytest.param({"superPod": "yes"}, "superPod", id="a word for true"),
    ],
)
def test_bad_options_are_named(value: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        family.changed("Ascend910A", **value)
    assert caught.value.field == f"vendors.Ascend910A.{field}"
