"""Usage as new pods find it, for rows that count in their own way: equal after a restart."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from hami_operator.devices import partition, registry, usage
from hami_operator.protocol import decision, register
from hami_operator.scheduling import claim, ledger, nodes, quota, room, snapshot
from tests import builders, moments

REGISTRY = registry.default()
LIST = "hami.io/vgpu-mig-allocations"
CLASS = "metax-tech.com/sgpu-app-class"
QOS = "metax-tech.com/sgpu-qos-policy"
PROFILE = register.Profile(
    name="1g.5gb",
    memory_mib=5120,
    cores=14,
    slices=1,
    placements=tuple(register.Placement(start=start, size=1) for start in range(7)),
)


def mig(id: str, mode: str = "mig") -> register.Card:
    profiles = (PROFILE,) if mode == "mig" else ()
    return register.Card(
        id=id, count=7, memory_mib=40960, cores=100, mode=mode, mig_profiles=profiles
    )


class Books:
    """A node's books."""

    def __init__(self, node: builders.NodeBuilder) -> None:
        self.nodes = nodes.Nodes(REGISTRY, 300)
        self.nodes.seen(node.read(), moments.at(0), at_start=True)
        self.ledger = ledger.Ledger(REGISTRY)
        self._sight = snapshot.Snapshot(self.nodes, self.ledger)

    def see(self, *pods: builders.PodBuilder) -> Books:
        for pod in pods:
            self.ledger.observe(pod.on("n1").read(), ours=True)
        return self

    def cards(self, word: str) -> dict[str, usage.CardUsage]:
        (view,) = self._sight.views()
        return {one.card.id: one for one in view.cards[word]}


def pod(name: str, word: str, value: str, **annotations: str) -> builders.PodBuilder:
    """A bound pod with a decision; one app container per slot."""
    key = REGISTRY.by_word[word].pod.allocated
    made = builders.pod(name).annotate({key: value, "hami.io/vgpu-node": "n1"} | annotations)
    for _ in range(value.count(";")):
        made = made.container()
    return made


# --- partitioned cards -----------------------------------------------------------------------


def reserved(*entries: tuple[int, int, str, int], **made: Any) -> str:
    return json.dumps(
        [
            {
                "containerIndex": container,
                "deviceIndex": device,
                "gpuUUID": card,
                "profile": "1g.5gb",
                "placement": {"start": start, "size": 1},
                **made,
            }
            for container, device, card, start in entries
        ]
    )


def migs(*cards: register.Card) -> Books:
    node = builders.roomy("n1").register("NVIDIA", cards, form=register.Form.JSON)
    return Books(node)


ONE = "GPU-a,NVIDIA,5120,14:;"
TWO = "GPU-a,NVIDIA,5120,14:GPU-a,NVIDIA,5120,14:;"


@pytest.mark.parametrize(
    ("value", "listed", "places", "closed"),
    [
        pytest.param(ONE, reserved((0, 0, "GPU-a", 6)), [6], "", id="an entry, a reservation"),
        pytest.param(
            ONE,
            reserved((0, 0, "GPU-a", 6), migUUID="M", gpuInstanceID=7, computeInstanceID=0),
            [6],
            "",
            id="that the plugin has made",
        ),
        pytest.param(TWO, reserved((0, 0, "GPU-a", 6)), [6], "GPU-a", id="one entry without"),
        pytest.param(
            ONE,
            reserved((0, 0, "GPU-a", 6), (0, 1, "GPU-a", 5)),
            [6, 5],
            "",
            id="a reservation that is left over is in use",
        ),
        pytest.param(ONE, None, [], "GPU-a", id="no list"),
        pytest.param(ONE, "garbage", [], "GPU-a", id="a list that cannot be read"),
        pytest.param(
            ONE,
            reserved((0, 0, "GPU-a", 6), (0, 1, "GPU-z", 0)),
            [6],
            "GPU-a GPU-b",
            id="a reservation of an unknown card closes all partitioned ones",
        ),
        pytest.param(
            "GPU-c,NVIDIA,1000,0:;",
            reserved((0, 0, "GPU-c", 6)),
            [],
            "GPU-c",
            id="a reservation of a shared card closes it",
        ),
        pytest.param("GPU-c,NVIDIA,1000,0:;", None, [], "", id="a shared card needs none"),
        pytest.param("GPU-a[3-5],NVIDIA,1000,0:;", None, [], "GPU-a", id="an id of old plugins"),
        pytest.param("GPU-c[0],NVIDIA,1000,0:;", None, [], "GPU-c", id="such an id on any card"),
        pytest.param(
            "GPU-a[3],NVIDIA,1,0:GPU-b,NVIDIA,5120,14:;",
            reserved((0, 0, "GPU-b", 1)),
            [],
            "GPU-a",
            id="the other card of such a pod stays open",
        ),
    ],
)
def test_the_places_of_partitioned_cards_are_those_of_the_pods_on_them(
    value: str, listed: str | None, places: list[int], closed: str
) -> None:
    books = migs(mig("GPU-a"), mig("GPU-b"), mig("GPU-c", "hami-core"))
    books.see(pod("p", "NVIDIA", value, **({LIST: listed} if listed is not None else {})))

    cards = books.cards("NVIDIA")

    assert [place.start for place in cards["GPU-a"].usage.places] == places
    assert " ".join(sorted(id for id, one in cards.items() if not one.card.healthy)) == closed
    books.ledger.gone("uid-p")
    after = books.cards("NVIDIA")
    assert all(one.card.healthy and one.usage == usage.UNUSED for one in after.values())


def test_two_pods_that_disagree_close_their_card_alone() -> None:
    books = migs(mig("GPU-a"), mig("GPU-b"))
    books.see(
        pod("p", "NVIDIA", ONE, **{LIST: reserved((0, 0, "GPU-a", 6))}),
        pod("q", "NVIDIA", ONE),
    )
    assert {id: one.card.healthy for id, one in books.cards("NVIDIA").items()} == {
        "GPU-a": False,
        "GPU-b": True,
    }


def test_a_reservation_counts_at_once_and_a_list_that_an_earlier_attempt_left_does_not() -> None:
    stale = {LIST: reserved((0, 0, "GPU-b", 0))}
    pending = builders.pod("p").container().annotate(stale)
    place = register.Placement(start=6, size=1)
    pick = decision.Pick(
        id="GPU-a",
        memory_mib=5120,
        cores=14,
        custom={partition.CUSTOM: partition.Instance(profile="1g.5gb", place=place)},
    )
    ours, again = migs(mig("GPU-a"), mig("GPU-b")), migs(mig("GPU-a"), mig("GPU-b"))
    ours.ledger.assume(pending.read(), "n1", {"NVIDIA": ((pick,),)})
    again.see(pod("p", "NVIDIA", ONE, **{LIST: reserved((0, 0, "GPU-a", 6))}))

    def plain(books: Books) -> list[usage.CardUsage]:
        cards = books.cards("NVIDIA").values()
        return [
            dataclasses.replace(one, usage=dataclasses.replace(one.usage, pods=()))
            for one in cards
        ]

    assert plain(ours) == plain(again)
    assert ours.cards("NVIDIA")["GPU-a"].usage.places == (place,)


@pytest.mark.parametrize(
    ("value", "listed", "want"),
    [
        pytest.param(ONE, reserved((0, 0, "GPU-a", 6)), "", id="nothing odd"),
        pytest.param(ONE, "[{", "is not JSON", id="an unreadable list"),
        pytest.param("GPU-a[3-5],NVIDIA,1,0:;", "", "GPU-a[3-5]", id="an old id"),
    ],
)
def test_what_keeps_a_card_closed_is_told(value: str, listed: str, want: str) -> None:
    one = pod("p", "NVIDIA", value, **{LIST: listed}).on("n1")
    limits = {"nvidia.com/gpu": 1}
    one = one.put("spec.containers", [{"name": "c", "resources": {"limits": limits}}])
    found = claim.read(one.read(), REGISTRY)
    texts = [finding.text for finding in found.findings]
    assert found.unreadable == ()
    assert len(texts) == bool(want)
    assert want in "".join(texts)


# --- masks, slices, policies -----------------------------------------------------------------


def neurons() -> Books:
    amounts = {"aws.amazon.com/neuron": "2", "aws.amazon.com/neuroncore": "4"}
    return Books(builders.roomy("n1").capacity(amounts).allocatable(amounts))


def neuron(mask: int, index: int = 0) -> str:
    return f"n1-AWSNeuron-{index},AWSNeuron,0,{mask}:;"


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param([neuron(1)], 1, id="one core"),
        pytest.param([neuron(1), neuron(2)], 3, id="both cores"),
        pytest.param([neuron(1), neuron(1)], 1, id="two pods on the same core"),
        pytest.param([neuron(3), neuron(1)], 3, id="a device and one of its cores"),
        pytest.param([neuron(3, 1)], 0, id="another device"),
        pytest.param([neuron(3, 7)], 0, id="a device that is not registered"),
        pytest.param([neuron(255)], 3, id="bits that the device does not have"),
    ],
)
def test_masks_are_joined_whoever_holds_them(values: list[str], want: int) -> None:
    books = neurons().see(
        *(pod(f"p{number}", "AWSNeuron", value) for number, value in enumerate(values))
    )
    assert books.cards("AWSNeuron")["n1-AWSNeuron-0"].usage.cores == want


@pytest.mark.parametrize(("init", "app"), [(1, 2), (2, 1)])
def test_the_core_of_an_init_container_is_free_when_it_has_ended(init: int, app: int) -> None:
    key = REGISTRY.by_word["AWSNeuron"].pod.allocated
    made = builders.pod("p").init("i").container("c")
    made = made.annotate({key: neuron(init) + neuron(app), "hami.io/vgpu-node": "n1"})
    books = neurons().see(made)
    before = books.cards("AWSNeuron")["n1-AWSNeuron-0"].usage
    books.see(made.init_ended("i").version(2))
    after = books.cards("AWSNeuron")["n1-AWSNeuron-0"].usage
    assert (before.cores, after.cores) == (3, app)
    assert (before.used, after.used) == (1, 1)


DRS = json.dumps(
    {
        "devices": [{"index": "0", "capacity": 6}],
        "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
    }
)


@pytest.mark.parametrize(
    ("percents", "want"),
    [
        pytest.param([17], 1, id="a sixth"),
        pytest.param([50], 3, id="a half"),
        pytest.param([100], 6, id="all"),
        pytest.param([17, 17, 50], 5, id="three pods"),
        pytest.param([1], 1, id="less than a slice is one"),
        pytest.param([], 0, id="none"),
    ],
)
def test_slices_are_read_from_percents(percents: list[int], want: int) -> None:
    books = Books(builders.roomy("n1").annotate({"enflame.com/gcu-drs-capacity": DRS}))
    books.see(
        *(
            pod(f"p{number}", "Enflame", f"n1-enflame-drs-0,Enflame,6144,{percent}:;")
            for number, percent in enumerate(percents)
        ),
        pod("elsewhere", "Enflame", "n1-enflame-drs-9,Enflame,6144,17:;"),
    )
    assert books.cards("Enflame")["n1-enflame-drs-0"].usage.used == want


@pytest.mark.parametrize(
    ("registered", "annotations", "cores", "want"),
    [
        pytest.param("", {QOS: "fixed-share"}, 60, "fixed-share", id="the policy of the pod"),
        pytest.param("burst-share", {QOS: "fixed-share"}, 60, "fixed-share", id="before it shows"),
        pytest.param("burst-share", {QOS: "fixed-share"}, 100, "", id="a whole card has none"),
        pytest.param("burst-share", {CLASS: "online"}, 0, "burst-share", id="online changes none"),
    ],
)
def test_a_policy_that_decisions_imply_is_known_after_a_restart(
    registered: str, annotations: Mapping[str, str], cores: int, want: str
) -> None:
    listed = [
        {
            "uuid": id,
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": True,
            "qosPolicy": registered,
        }
        for id in ("a", "b")
    ]
    node = builders.roomy("n1").annotate({"metax-tech.com/node-gpu-devices": json.dumps(listed)})
    books = Books(node).see(
        pod("p", "Metax-SGPU", f"a,Metax-SGPU,4096,{cores}:gone,Metax-SGPU,1,1:;", **annotations)
    )
    cards = books.cards("Metax-SGPU")
    assert cards["a"].card.custom["QosPolicy"] == want
    assert cards["b"].card.custom["QosPolicy"] == registered
    assert len(cards["a"].usage.pods) == 1
    books.ledger.gone("uid-p")
    assert books.cards("Metax-SGPU")["a"].card.custom["QosPolicy"] == registered


# --- quota in other units --------------------------------------------------------------------


def test_a_namespace_is_charged_in_the_units_of_its_limits() -> None:
    cards = [register.Card(id="a", count=10, memory_mib=196608, cores=304, model="M")]
    books = Books(builders.roomy("n1").register("AMD", cards, form=register.Form.JSON))
    books.see(
        pod("p", "AMD", "a,M,1000,76:;"),
        pod("q", "AMD", "gone,M,1000,3:;"),
        pod("r", "AMD", "a,M,1000,76:;").put("metadata.namespace", "other"),
    )
    limits = quota.Quotas(REGISTRY)
    limits.seen(
        {
            "metadata": {"name": "q", "namespace": "default", "uid": "u"},
            "spec": {"hard": {"limits.amd.com/gpucores": "150"}},
        }
    )

    def cores(known: nodes.Nodes | None) -> int:
        accounts = limits.accounts("default", books.ledger, known)
        assert accounts is not None
        account = accounts(REGISTRY.by_word["AMD"])
        assert account is not None
        assert accounts(REGISTRY.by_word["NVIDIA"]) is None
        return account.used.cores

    assert cores(books.nodes) == 25 + 100, "a card that is gone counts as a whole one"
    assert cores(None) == 200


def test_cores_of_a_mask_are_counted_for_the_quota() -> None:
    books = neurons().see(pod("p", "AWSNeuron", neuron(3)), pod("q", "AWSNeuron", neuron(2, 1)))
    limits = quota.Quotas(REGISTRY)
    limits.seen(
        {
            "metadata": {"name": "q", "namespace": "default", "uid": "u"},
            "spec": {"hard": {"limits.aws.amazon.com/neuroncore": "4"}},
        }
    )
    accounts = limits.accounts("default", books.ledger, books.nodes)
    assert accounts is not None
    account = accounts(REGISTRY.by_word["AWSNeuron"])
    assert account == quota.Account(cores=4, used=usage.Usage(2, 0, 3))
    asks = room.Room(
        account=dataclasses.replace(account, cores=6),
        row=REGISTRY.by_word["AWSNeuron"],
        kinds=(),
        taken=[(), ()],
        slot=1,
    )
    held = decision.Pick(id="x", memory_mib=0, cores=2)
    assert asks([held], 0, 2, "y")
    assert not asks([held], 0, 3, "y")
