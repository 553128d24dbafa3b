"""Whatever a pod asks of whatever cards: no row breaks a limit, changes its input or wavers."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hami_operator.devices import account, fit, partition, registry, request, usage, vendor
from hami_operator.protocol import decision, register
from tests.unit.devices.rows import Node

REGISTRY = registry.default()
ROWS = st.sampled_from(list(REGISTRY))
# Rows that do not count slots, since they give a card once or by its size.
NO_SLOTS = {"kunlun", "XPU"}
PROFILES = (
    register.Profile(
        name="1g.5gb",
        memory_mib=30,
        cores=14,
        slices=1,
        placements=tuple(register.Placement(start=start, size=1) for start in range(7)),
    ),
    register.Profile(
        name="2g.10gb",
        memory_mib=60,
        cores=28,
        slices=2,
        placements=tuple(register.Placement(start=start, size=2) for start in (0, 2, 4)),
    ),
)
SLICES = {"minor": "0", "maxSlice": 6, "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}}
NETWORKS: Sequence[Mapping[str, Any]] = [
    {},
    {"NetworkID": 0},
    {"NetworkID": 1},
    {"NetworkID": "a"},
]
CUSTOMS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "Enflame": [SLICES],
    "Vastai": [{}, {"AIC": "7", "DeviceStrategy": "die"}, {"AIC": "8"}],
    "Metax-SGPU": [{}, {"QosPolicy": "fixed-share", "LinkZone": 1}, {"LinkZone": 2}],
}
CORES = {"AWSNeuron": [0, 1, 3, 255], "AMD": [0, 50, 304], "Mthreads": [16]}
MEMORIES = {"XPU": [98304], "kunlun": [98304], "Enflame": [40960]}
CLASSES = st.fixed_dictionaries(
    {}, optional={"metax-tech.com/sgpu-app-class": st.sampled_from(["online", "offline", "x"])}
)


@st.composite
def card_of(draw: st.DrawFn, row: vendor.Vendor, number: int) -> usage.CardUsage:
    """One card of a row, and what others have of it."""
    word = row.keyword
    chip = word.startswith("Ascend")
    mode = draw(st.sampled_from(["", "hami-core", "mig"])) if word == "NVIDIA" else ""
    card = register.Card(
        id=f"c{number}",
        index=draw(st.sampled_from([number, number, number, -1])),
        count=draw(st.sampled_from([1, 2, 4, 4, 0])),
        memory_mib=draw(st.sampled_from(MEMORIES.get(word, [65536, 65536, 120, 0]))),
        cores=draw(st.sampled_from(CORES.get(word, [100, 100, 0]))),
        model=draw(st.sampled_from(["A10", "A100"])),
        numa=draw(st.integers(0, 1)),
        mode=mode,
        healthy=draw(st.sampled_from([True] * 6 + [False])),
        mig_profiles=PROFILES if mode == "mig" else (),
        custom=draw(st.sampled_from(NETWORKS if chip else CUSTOMS.get(word, [{}]))),
    )
    used = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    taken = usage.Usage(
        used=used,
        memory_mib=draw(st.sampled_from([0, 30, 24576 * used, card.memory_mib])) if used else 0,
        cores=draw(st.sampled_from([0, 1, 40, card.cores])) if used else 0,
        pods=tuple(draw(st.lists(CLASSES, min_size=used, max_size=used))),
        places=draw(st.sampled_from([(), (register.Placement(start=4, size=2),)])),
    )
    return usage.CardUsage(card, taken)


@st.composite
def scenes(
    draw: st.DrawFn,
) -> tuple[vendor.Vendor, request.Request, list[usage.CardUsage], fit.Context]:
    """A row, a request as its containers make it, cards, and a pod."""
    row = draw(ROWS)
    amounts = st.sampled_from(["1", "2", "4", "30", "0", "100"])
    names = st.sampled_from(row.resources.names)
    limits = draw(st.dictionaries(names, amounts, min_size=1, max_size=2))
    if row.hooks.ask is None:
        limits[row.resources.count] = draw(st.sampled_from(["1", "2", "3", "4"]))
    wanted = request.read(row, limits=limits, requests={})
    assume(isinstance(wanted, request.Request))
    assert isinstance(wanted, request.Request)
    cards = [draw(card_of(row, number)) for number in range(draw(st.sampled_from([4, 8, 2, 0])))]
    picked = row.selection
    keys = [picked.use_type, picked.numa_bind, *picked.use_uuid, *picked.skip_uuid]
    wishes = st.sampled_from(["a10", "c0, c1, c4", "true", "", "mig", "hami-core"])
    said = st.sampled_from([0, 0, 1, 2])
    own = ["nvidia.com/vgpu-mode", "huawei.com/vnpu-mode"]
    key = st.sampled_from([*filter(None, keys), *own])
    annotations = draw(st.dictionaries(key, wishes, max_size=draw(said)))
    context = fit.Context(
        pod_annotations=annotations | (draw(CLASSES) if row.keyword == "Metax-SGPU" else {}),
        node_annotations=draw(st.sampled_from([{}, {"hami-vnpu-core": "true"}])),
        node_labels=draw(
            st.sampled_from([{}, {"node.kubernetes.io/instance-type": "inf2.48xlarge"}])
        ),
        policy=draw(st.sampled_from([(), ("mutex",), ("binpack", "topology-aware")])),
    )
    return row, wanted, cards, context


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_no_row_breaks_a_limit_of_a_card(
    scene: tuple[vendor.Vendor, request.Request, list[usage.CardUsage], fit.Context],
) -> None:
    row, wanted, cards, context = scene
    answer = fit.fit(row, wanted, cards, context)

    if isinstance(answer, fit.NoFit):
        assert answer.counts
        assert all(number >= 0 for _, number in answer.counts)
        return
    assert len(answer.picks) == wanted.count or not wanted.counted
    standing = {one.card.id: one for one in cards}
    for pick in answer.picks:
        before = standing[pick.id]
        assert "mutex" not in context.policy or not before.usage.used
        assert _holds(row, before, pick)
        standing[pick.id] = account.charge(row, before, pick, context.pod_annotations)
    ids = [pick.id for pick in answer.picks if partition.CUSTOM not in pick.custom]
    assert len(ids) == len(set(ids))


def _holds(row: vendor.Vendor, before: usage.CardUsage, pick: decision.Pick) -> bool:
    """Whether the card has room for the pick, and is one that may be given at all."""
    card, used = before.card, before.usage
    after = account.charge(row, before, pick).usage
    place = pick.custom[partition.CUSTOM].place if partition.CUSTOM in pick.custom else None
    if place is not None:
        cells = set(range(place.start, place.start + place.size))
        taken = {cell for one in used.places for cell in range(one.start, one.start + one.size)}
        return card.healthy and not cells & taken and after.used <= card.count
    cores_hold = after.cores <= card.cores
    if row.keyword == "AWSNeuron":
        cores_hold = not used.cores & pick.cores and not pick.cores & ~card.cores
    soft = row.keyword.startswith("Ascend") and after.cores <= 100
    return (
        card.healthy
        and card.mode != "mig"
        and (after.used <= card.count or row.keyword in NO_SLOTS | {"GCU"})
        and (pick.memory_mib == 0 or after.memory_mib <= card.memory_mib)
        and (pick.cores == 0 or cores_hold or soft or row.keyword in {"Enflame", "XPU"})
    ) or (row.keyword == "GCU" and not used.used and card.healthy)


@settings(max_examples=200, deadline=None)
@given(scenes(), st.integers(0, 400), st.integers(0, 400))
def test_no_row_breaks_a_quota(
    scene: tuple[vendor.Vendor, request.Request, list[usage.CardUsage], fit.Context],
    memory_left: int,
    cores_left: int,
) -> None:
    row, wanted, cards, context = scene
    if not row.quota_memory and not row.quota_cores:
        return
    by_id = {one.card.id: one.card for one in cards}
    left = memory_left * (1 if row.keyword not in MEMORIES else 1000)

    def fits(picks: Any, memory_mib: int, cores: int, card: str) -> bool:
        metered = [account.metered(row, pick, by_id[pick.id]) for pick in picks]
        memory_mib += sum(pick.memory_mib for pick in metered)
        return memory_mib <= left and cores + sum(p.cores for p in metered) <= cores_left

    answer = fit.fit(row, wanted, cards, dataclasses.replace(context, quota_fits=fits))

    if isinstance(answer, fit.Fit):
        spent = [account.metered(row, pick) for pick in answer.picks]
        assert sum(pick.memory_mib for pick in spent) <= left
        assert sum(pick.cores for pick in spent) <= cores_left


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_no_row_changes_what_it_is_given_or_wavers(
    scene: tuple[vendor.Vendor, request.Request, list[usage.CardUsage], fit.Context],
) -> None:
    row, wanted, cards, context = scene
    before = copy.deepcopy([(one.card.id, dict(one.card.custom), one.usage) for one in cards])
    first = fit.fit(row, wanted, cards, context)
    turned = dataclasses.replace(
        context, pod_annotations=dict(reversed(list(context.pod_annotations.items())))
    )

    assert fit.fit(row, wanted, tuple(cards), turned) == first
    assert [(one.card.id, dict(one.card.custom), one.usage) for one in cards] == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**33) | st.sampled_from(["", "0", "1g.6gb", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["devices", "profiles", "index", "capacity", "uuid", "totalVRam", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ROWS, JSON | st.text(max_size=30))
def test_no_own_form_raises(row: vendor.Vendor, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    own = ["enflame.com/gcu-drs-capacity", "metax-tech.com/node-gpu-devices"]
    if row.hooks.devices is None:
        return
    found = row.hooks.devices(row, Node(annotations=dict.fromkeys(own, text)))
    for card in found.cards if found else ():
        assert not decision.FORBIDDEN.search(card.id)
        assert 0 <= card.memory_mib <= decision.INT32_MAX
        assert 0 <= card.count <= decision.INT32_MAX
