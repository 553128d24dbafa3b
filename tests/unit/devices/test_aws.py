"""AWS Neuron: whole devices in windows, single cores as bits of a mask."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.devices import account, admit, fit, request, usage
from hami_operator.protocol import decision
from tests.unit.devices import family
from tests.unit.devices.rows import candidate

WORD = "AWSNeuron"
INF = {"node.kubernetes.io/instance-type": "inf2.48xlarge"}
TRN = {"node.kubernetes.io/instance-type": "trn1.32xlarge"}


def neuron(index: int = 0, taken: int = 0, each: int = 2, **facts: Any) -> usage.CardUsage:
    """A device with so many cores, of which a mask is taken."""
    used = usage.Usage(taken.bit_count(), 0, taken)
    usual = {"count": each, "memory_mib": 0, "cores": 2**each - 1}
    return candidate(f"n-{index}", index=index, used=used, **(usual | facts))


def placed(cards: list[usage.CardUsage], *, of: dict[str, str], **context: Any) -> str:
    """``id/mask`` of each pick, or the reason."""
    answer = family.place(WORD, family.ask(WORD, **of), cards, **({"node_labels": INF} | context))
    if isinstance(answer, fit.NoFit):
        return answer.text()
    return " ".join(f"{pick.id}/{pick.cores}" for pick in answer.picks)


# --- devices and requests --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "want"),
    [
        pytest.param({"neuron": "1", "neuroncore": "2"}, [(2, 3)], id="two cores"),
        pytest.param({"neuron": "1", "neuroncore": "8"}, [(8, 255)], id="eight cores"),
        pytest.param({"neuron": "2", "neuroncore": "5"}, [(2, 3), (2, 3)], id="rounded down"),
        pytest.param({"neuron": "1"}, [(0, 0)], id="no cores"),
        pytest.param({"neuroncore": "2"}, [], id="no devices"),
        pytest.param({"neuron": "1", "neuroncore": "32"}, [], id="more than a mask holds"),
    ],
)
def test_cores_are_a_mask_of_each_device(
    capacity: dict[str, str], want: list[tuple[int, int]]
) -> None:
    found = family.devices(
        WORD, capacity={f"aws.amazon.com/{key}": value for key, value in capacity.items()}
    )
    assert [(card.count, card.cores) for card in found.cards] == want
    assert bool(found.findings) is (capacity.get("neuroncore") == "32")


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"count": "0", "cores": "0"}, None, id="zeros"),
        pytest.param({"count": "0", "cores": "3"}, (1, {"neuroncore": 3}), id="cores"),
        pytest.param({"count": "3"}, (3, {"neuron": 3}), id="devices"),
        pytest.param({"cores": "4294967294"}, (1, {"neuroncore": 4294967294}), id="the most"),
        pytest.param({"cores": "4294967295"}, request.Invalid, id="too many"),
        pytest.param({"count": "1", "cores": "x"}, request.Invalid, id="no number"),
    ],
)
def test_a_container_asks_for_devices_or_for_cores(asked: dict[str, str], want: Any) -> None:
    found = family.ask(WORD, **asked)
    if isinstance(found, request.Request):
        assert (found.count, found.detail) == want
        assert found.counted is ("neuron" in found.detail)
    else:
        assert found is want or isinstance(found, want)


@pytest.mark.parametrize(
    ("cores", "nodes", "let_in"),
    [
        pytest.param("1", [2], True, id="one core"),
        pytest.param("2", [2], True, id="all cores of a device that are given singly"),
        pytest.param("3", [2], False, id="more, and no multiple"),
        pytest.param("4", [2], True, id="two devices"),
        pytest.param("3", [], False, id="without a node, two cores to a device"),
        pytest.param("3", [8], False, id="of eight cores two are given singly"),
        pytest.param("3", [8, 1], True, id="the least of the nodes decides"),
        pytest.param("3", [0], True, id="a node that shows no cores"),
    ],
)
def test_cores_that_no_node_could_give_are_denied(
    cores: str, nodes: list[int], let_in: bool
) -> None:
    cards = [(neuron(0, each=each).card, neuron(1, each=each).card) for each in nodes]
    about = admit.Pod(cards={WORD: [(), *cards]}.__getitem__)
    container = admit.Container(name="main", limits={"aws.amazon.com/neuroncore": cores})
    answer = admit.admit(family.ROWS[WORD], container, about)
    assert isinstance(answer, admit.Admitted) is let_in


# --- fit -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "asked", "want"),
    [
        pytest.param([neuron(0)], {"count": "1"}, "n-0/3", id="a device"),
        pytest.param([neuron(0, each=8)], {"count": "1"}, "n-0/255", id="all its cores"),
        pytest.param([neuron(0, 1)], {"count": "1"}, "1/1 CardInsufficientCore", id="in use"),
        pytest.param([neuron(0, each=0)], {"count": "1"}, "1/1 CardTimeSlicingExhausted", id="0"),
        pytest.param([neuron(0)], {"cores": "1"}, "n-0/1", id="the lowest core"),
        pytest.param([neuron(0, 1)], {"cores": "1"}, "n-0/2", id="the next core"),
        pytest.param([neuron(0, 2)], {"cores": "1"}, "n-0/1", id="the core that is left"),
        pytest.param([neuron(0, 1), neuron(1)], {"cores": "2"}, "n-1/3", id="two of one device"),
        pytest.param(
            [neuron(0, 3, each=8)],
            {"cores": "1"},
            "1/1 CardInsufficientCore",
            id="only the first two cores are given singly",
        ),
        pytest.param([neuron(0), neuron(1)], {"cores": "4"}, "n-0/3 n-1/3", id="two devices"),
        pytest.param([neuron(0)], {"cores": "4"}, "NodeInsufficientDevice", id="too many"),
        pytest.param(
            [neuron(0), neuron(1)], {"cores": "3"}, "2/2 CardInsufficientCore", id="no multiple"
        ),
        pytest.param(
            [neuron(0, each=1)] * 2, {"cores": "2"}, "1/2 NumaNotFit", id="one core per device"
        ),
        pytest.param(
            [neuron(0, each=0)], {"cores": "1"}, "1/1 CardInsufficientCore", id="no cores at all"
        ),
        pytest.param(
            [neuron(0, each=0), neuron(1, each=0)],
            {"count": "2"},
            "1/2 NumaNotFit",
            id="devices without cores are no window",
        ),
    ],
)
def test_cores_and_devices(cards: list[usage.CardUsage], asked: dict[str, str], want: str) -> None:
    assert placed(cards, of=asked) == want


@pytest.mark.parametrize(
    ("free", "count", "labels", "want"),
    [
        pytest.param([1, 2, 3], 2, INF, "1 2", id="anywhere on inf"),
        pytest.param([0, 2, 3], 2, INF, "2 3", id="neighbours alone"),
        pytest.param([0, 2], 2, INF, None, id="no neighbours"),
        pytest.param([4, 5, 6, 7], 4, TRN, "4 5 6 7", id="aligned on trn"),
        pytest.param([3, 4, 5, 6], 4, TRN, None, id="not aligned on trn"),
        pytest.param([0, 1], 2, TRN, None, id="two are no window of trn"),
        pytest.param([0, 1], 2, {}, None, id="an unknown instance type is no inf"),
    ],
)
def test_several_devices_are_a_window(
    free: list[int], count: int, labels: dict[str, str], want: str | None
) -> None:
    cards = [neuron(index, 0 if index in free else 3) for index in range(8)]
    found = placed(cards[::-1], of={"count": str(count)}, node_labels=labels)
    if want is None:
        assert found == "1/8 NumaNotFit"
    else:
        assert found == " ".join(f"n-{index}/3" for index in map(int, want.split()))


@pytest.mark.parametrize(
    ("context", "want"),
    [
        pytest.param(
            {"pod_annotations": {"aws.amazon.com/nouse-neuron-uuid": "n-1"}},
            "1/3 CardUuidMismatch",
            id="a device that is not wanted",
        ),
        pytest.param({"quota_fits": lambda *_: False}, "3/3 ResourceQuotaNotFit", id="no quota"),
    ],
)
def test_a_window_says_who_broke_it(context: dict[str, Any], want: str) -> None:
    cards = [neuron(index) for index in range(3)]
    assert placed(cards, of={"count": "2"}, **context) == want


@pytest.mark.parametrize(
    ("asked", "cores"),
    [({"cores": "1"}, [1]), ({"count": "1"}, [8]), ({"count": "2"}, [8, 8])],
)
def test_a_quota_counts_cores_and_not_masks(asked: dict[str, str], cores: list[int]) -> None:
    questions = []

    def fits(picks: list[decision.Pick], memory_mib: int, number: int, card: str) -> bool:
        questions.append(number)
        return True

    cards = [neuron(index, each=8) for index in range(len(cores))]
    placed(cards, of=asked, quota_fits=fits)
    assert questions == cores


def test_masks_are_joined_and_measured_by_their_bits() -> None:
    row = family.ROWS[WORD]
    pick = family.pick("n-0", cores=5)
    assert account.charge(row, neuron(0, 3, each=4), pick).usage.cores == 7
    assert account.metered(row, pick).cores == 2


# --- decision --------------------------------------------------------------------------------


def test_devices_and_cores_are_numbered_over_all_containers() -> None:
    def device(index: int, mask: int) -> decision.Pick:
        return family.pick(f"n-{index}", index, cores=mask, custom={"cores_per_device": 8})

    slots = ((device(1, 255),), (), (device(2, 2), device(3, 3)))
    limits: Any = ({"aws.amazon.com/neuron": "1"}, {}, {"aws.amazon.com/neuroncore": "3"})
    found = family.written(WORD, slots, limits=limits)
    assert found["AWS_NEURON_IDS"] == "1,17,24,25"
    assert found["NEURON_RESOURCE_TYPE"] == "aws.amazon.com/neuroncore"
