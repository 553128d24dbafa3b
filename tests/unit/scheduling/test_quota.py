"""Namespace arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hami_operator.devices import registry, usage
from hami_operator.protocol import decision
from hami_operator.scheduling import ledger, quota
from tests import builders

REGISTRY = registry.default()
NVIDIA = REGISTRY.by_word["NVIDIA"]
MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"
ODD = "is not a whole number from 0 up: not a limit"


def resource_quota(hard: Any, name: str = "q", uid: str = "u", namespace: str = "ns") -> Any:
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": {"hard": hard},
    }


def seen(*objects: Any) -> quota.Quotas:
    found = quota.Quotas(REGISTRY)
    for raw in objects:
        assert found.seen(raw).findings == ()
    return found


@pytest.mark.parametrize(
    ("hard", "want"),
    [
        pytest.param({MEMORY: "2000", CORES: 400}, {"memory": 2000, "cores": 400}, id="both"),
        pytest.param({MEMORY: "2k"}, {"memory": 2000}, id="a quantity with a suffix"),
        pytest.param({MEMORY: "0"}, {"memory": 0}, id="an explicit 0 is a limit"),
        pytest.param({"requests.nvidia.com/gpumem": "5"}, {}, id="requests are not ours"),
        pytest.param({"limits.nvidia.com/gpu": "5"}, {}, id="counts are not ours"),
        pytest.param({"0123456nvidia.com/gpumem": "5"}, {}, id="a key that only looks alike"),
        pytest.param({"nvidia.com/gpumem": "5"}, {}, id="a key without limits."),
        pytest.param({"limits.cpu": "x"}, {}, id="others' keys are not even read"),
        pytest.param({}, {}, id="nothing at all"),
    ],
)
def test_limits_are_read(hard: Any, want: Mapping[str, int]) -> None:
    names = {"memory": NVIDIA.quota_memory, "cores": NVIDIA.quota_cores}
    assert seen(resource_quota(hard)).limits("ns") == {
        names[name]: amount for name, amount in want.items()
    }


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(
            resource_quota({MEMORY: "1.5", CORES: "10"}),
            [f"ResourceQuota ns/q: spec.hard[%s]: '1.5' {ODD}"],
            id="a fraction",
        ),
        pytest.param(
            resource_quota({MEMORY: "-1", CORES: "10"}),
            [f"ResourceQuota ns/q: spec.hard[%s]: '-1' {ODD}"],
            id="a negative amount",
        ),
        pytest.param(
            resource_quota({MEMORY: ["1"], CORES: "10"}),
            [f"ResourceQuota ns/q: spec.hard[%s]: \"['1']\" {ODD}"],
            id="no quantity",
        ),
        pytest.param(
            resource_quota(7), ["ResourceQuota ns/q: spec.hard: is not an object"], id="no map"
        ),
    ],
)
def test_what_cannot_be_read_is_no_limit_and_is_told(raw: Any, want: Sequence[str]) -> None:
    found = quota.Quotas(REGISTRY)
    assert [str(odd) for odd in found.seen(raw).findings] == [
        text.replace("%s", MEMORY) for text in want
    ]
    assert found.limits("ns").keys() <= {NVIDIA.quota_cores}


def test_the_lowest_of_several_objects_holds() -> None:
    found = seen(
        resource_quota({MEMORY: "100"}, "a"),
        resource_quota({MEMORY: "50", CORES: "7"}, "b"),
        resource_quota({CORES: "9"}, "c"),
        resource_quota({MEMORY: "1"}, "a", namespace="other"),
    )
    assert found.limits("ns") == {NVIDIA.quota_memory: 50, NVIDIA.quota_cores: 7}
    found.gone("ns", "b")
    assert found.limits("ns") == {NVIDIA.quota_memory: 100, NVIDIA.quota_cores: 9}


def test_an_update_swaps_old_for_new() -> None:
    found = seen(resource_quota({MEMORY: "100", CORES: "1"}), resource_quota({MEMORY: "200"}))
    assert found.limits("ns") == {NVIDIA.quota_memory: 200}


@pytest.mark.parametrize(
    ("gone", "want"),
    [
        pytest.param(("ns", "q", "u"), {}, id="the object itself"),
        pytest.param(("ns", "q"), {}, id="by name alone"),
        pytest.param(("ns", "q", "older"), {MEMORY: 5}, id="an older one of that name"),
        pytest.param(("ns", "r"), {MEMORY: 5}, id="one that was never seen"),
        pytest.param(("elsewhere", "q"), {MEMORY: 5}, id="one of another namespace"),
    ],
)
def test_an_object_is_forgotten(gone: tuple[str, ...], want: Mapping[str, int]) -> None:
    found = seen(resource_quota({MEMORY: "5"}), resource_quota({CORES: "1"}, namespace="x"))
    for _ in range(2):
        found.gone(*gone)
        assert {f"limits.{name}": one for name, one in found.limits("ns").items()} == want
    assert found.limits("x") == {NVIDIA.quota_cores: 1}


@pytest.mark.parametrize(
    ("word", "key", "want"),
    [
        ("NVIDIA", MEMORY, 10),
        ("MLU", "limits.cambricon.com/mlu.smlu.vmemory", 2560),
        ("Mthreads", "limits.mthreads.com/sgpu-memory", 5120),
        ("HCU", "limits.hygon.com/hcumem", 10),
        ("DCU", "limits.hygon.com/dcumem", 10),
    ],
)
def test_a_memory_limit_counts_in_the_units_of_its_resource(
    word: str, key: str, want: int
) -> None:
    found = seen(resource_quota({key: "10"}))
    used = usage.Usage(1, 2, 3)
    row = REGISTRY.by_word[word]
    assert found.account("ns", row, used) == quota.Account(memory_mib=want, used=used)
    others = [one for one in REGISTRY if one.keyword != word]
    assert [found.account("ns", one) for one in others] == [None] * len(others)
    assert found.account("elsewhere", row) is None


@pytest.mark.parametrize(
    ("account", "asked", "want"),
    [
        pytest.param(quota.Account(memory_mib=10), (10, 99), True, id="used up exactly"),
        pytest.param(quota.Account(memory_mib=10), (11, 0), False, id="one too many"),
        pytest.param(quota.Account(cores=10), (99, 10), True, id="only cores are limited"),
        pytest.param(quota.Account(cores=10), (0, 11), False, id="cores above"),
        pytest.param(quota.Account(memory_mib=0), (1, 0), False, id="0 blocks"),
        pytest.param(
            quota.Account(memory_mib=10, used=usage.Usage(1, 9, 9)), (2, 0), False, id="with used"
        ),
        pytest.param(
            quota.Account(cores=10, used=usage.Usage(1, 9, 9)), (2, 1), True, id="up with used"
        ),
        pytest.param(quota.Account(), (2**31, 2**31), True, id="nothing is limited"),
    ],
)
def test_equality_fits(account: quota.Account, asked: tuple[int, int], want: bool) -> None:
    assert account.fits(*asked) is want


def pick(card: str, memory_mib: int, cores: int = 1) -> decision.Pick:
    return decision.Pick(id=card, memory_mib=memory_mib, cores=cores)


def test_usage_of_a_namespace_includes_reservations() -> None:
    books = ledger.Ledger(REGISTRY)
    pod = builders.pod("p", "ns").container().read()
    books.assume(pod, "n", {"NVIDIA": ((pick("a", 30, 7),),)})
    found = seen(resource_quota({MEMORY: "100"}))
    accounts = found.accounts("ns", books)
    assert accounts is not None
    assert accounts(NVIDIA) == quota.Account(memory_mib=100, used=usage.Usage(1, 30, 7))
    assert accounts(REGISTRY.by_word["HCU"]) is None
    assert found.accounts("other", books) is None
    books.forget(pod.uid)
    assert accounts(NVIDIA) == quota.Account(memory_mib=100, used=usage.Usage(1, 30, 7))
    again = found.accounts("ns", books)
    assert again is not None
    assert again(NVIDIA) == quota.Account(memory_mib=100)


def test_a_namespace_whose_quotas_limit_no_device_has_no_accounts() -> None:
    found = seen(resource_quota({"limits.cpu": "4"}))
    assert found.accounts("ns", ledger.Ledger(REGISTRY)) is None


def hard(**amounts: Any) -> dict[str, str]:
    return {f"limits.nvidia.com/{name}": str(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("before", "now", "want"),
    [
        pytest.param({}, {"gpumem": 1}, False, id="a first limit"),
        pytest.param({"gpumem": 5}, {"gpumem": 5}, False, id="only the status changed"),
        pytest.param({"gpumem": 5}, {"gpumem": 6}, True, id="raised"),
        pytest.param({"gpumem": 5}, {"gpumem": 4}, False, id="lowered"),
        pytest.param({"gpumem": 5}, {}, True, id="no limit any more"),
        pytest.param({"gpumem": 0}, {}, True, id="no block any more"),
        pytest.param({"gpumem": 5, "gpucores": 5}, {"gpumem": 4, "gpucores": 6}, True, id="one"),
        pytest.param({"gpumem": 20}, {"gpumem": 30}, False, id="another object is lower"),
        pytest.param({"gpumem": 5}, {"gpumem": "x"}, True, id="unreadable is no limit"),
    ],
)
def test_an_update_tells_whether_more_is_allowed(
    before: Mapping[str, Any], now: Mapping[str, Any], want: bool
) -> None:
    found = seen(resource_quota(hard(gpumem=10), "other"), resource_quota(hard(**before)))
    assert found.seen(resource_quota(hard(**now))).loosened is want


def test_a_delete_tells_whether_more_is_allowed() -> None:
    found = seen(resource_quota(hard(gpumem=10), "a"), resource_quota(hard(gpumem=20), "b"))
    assert [found.gone("ns", name).loosened for name in ("b", "b", "x", "a")] == [
        False,
        False,
        False,
        True,
    ]
    assert list(found) == []


def test_findings_are_news_once() -> None:
    found = quota.Quotas(REGISTRY)
    texts = ["1.5", "1.5", "x", "7", "1.5"]
    changes = [found.seen(resource_quota({MEMORY: text})) for text in texts]
    assert [change.news is not None for change in changes] == [True, False, True, False, True]
    assert [(one.name, len(one.findings)) for one in found] == [("q", 1)]
    gone = found.gone("ns", "q")
    assert (gone.findings, gone.news) == ((), None)


def test_limits_cannot_be_changed_by_who_reads_them() -> None:
    found = seen(resource_quota(hard(gpumem=10)))
    with pytest.raises(TypeError):
        found.limits("ns")["nvidia.com/gpumem"] = 99  # type: ignore[index]


def test_standings_are_all_that_is_limited_or_used() -> None:
    books = ledger.Ledger(REGISTRY)
    for name, namespace in (("p", "ns"), ("free", "unlimited")):
        pod = builders.pod(name, namespace).container().read()
        books.assume(pod, "n", {"NVIDIA": ((pick("a", 30, 7),),)})
    mlu = "cambricon.com/mlu.smlu.vmemory"
    found = seen(resource_quota({MEMORY: "100", f"limits.{mlu}": "2"}))
    lines = {
        (one.namespace, one.name.removeprefix("nvidia.com/"), one.used, one.limit)
        for one in found.standings(books)
    }
    assert lines == {
        ("ns", "gpumem", 30, 100),
        ("ns", "gpucores", 7, None),
        ("ns", mlu, 0, 512),
        ("unlimited", "gpumem", 30, None),
        ("unlimited", "gpucores", 7, None),
    }


def test_no_two_types_count_for_one_limit() -> None:
    names = [name for row in REGISTRY for name in (row.quota_memory, row.quota_cores) if name]
    assert len(names) == len(set(names))
