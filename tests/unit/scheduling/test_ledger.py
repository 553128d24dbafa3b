"""The ledger: what every pod holds, by whatever path it was learnt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings, stateful
from hypothesis import strategies as st

from hami_operator.devices import registry, usage
from hami_operator.protocol import decision, keys, register
from hami_operator.scheduling import claim, containers, effective, ledger
from hami_operator.scheduling import pod as pods
from tests import builders

AL = "hami.io/vgpu-devices-allocated"
MLU_AL = "hami.io/cambricon-mlu-devices-allocated"
ROWS = registry.default()
Kind = containers.Kind
Usage = usage.Usage


def book() -> ledger.Ledger:
    return ledger.Ledger(ROWS)


def bound(name: str, *allocated: str, node: str = "n1", apps: int = 1) -> builders.PodBuilder:
    """A pod of ours on a node, with decisions as ``key=value``."""
    made = builders.pod(name).scheduler("hami-scheduler").on(node).phase("Running")
    for _ in range(apps):
        made = made.container(limits={"nvidia.com/gpu": 1, "cpu": "100m"})
    made = made.annotate({keys.VGPU_NODE: node})
    return made.annotate(dict(item.split("=", 1) for item in allocated))


def gpu(text: str) -> str:
    return f"{AL}={text}"


def slots(*texts: str) -> Mapping[str, decision.Slots]:
    """A decision of ours for NVIDIA, one text per container."""
    return {"NVIDIA": decision.decode(";".join(texts) + ";", key=AL)}


def plain(cards: Mapping[str, Usage]) -> dict[str, tuple[int, int, int]]:
    return {card: (one.used, one.memory_mib, one.cores) for card, one in cards.items()}


def held(books: ledger.Ledger, node: str = "n1", word: str = "NVIDIA") -> Any:
    return plain(books.card_usage(node, word))


def oddities(transition: ledger.Transition) -> list[claim.Oddity]:
    return [finding.oddity for finding in transition.findings]


def pick(card: str, memory_mib: int, cores: int) -> decision.Pick:
    return decision.Pick(id=card, memory_mib=memory_mib, cores=cores)


# ---- effective usage


@pytest.mark.parametrize(
    ("kinds", "takes", "want"),
    [
        pytest.param("aa", [(100, 10), (200, 20)], (2, 300, 30), id="apps add up"),
        pytest.param("ii", [(100, 10), (200, 30)], (1, 200, 30), id="inits run one by one"),
        pytest.param("ia", [(500, 50), (100, 10)], (1, 500, 50), id="an init larger than the app"),
        pytest.param(
            "iaa", [(100, 10), (200, 20), (300, 30)], (2, 500, 50), id="apps larger than the init"
        ),
        pytest.param(
            "iiia", [(100, 10), (300, 30), (200, 20), (50, 5)], (1, 300, 30), id="the largest init"
        ),
        pytest.param(
            "sia", [(1000, 10), (4000, 20), (2000, 15)], (2, 5000, 30), id="a sidecar beside all"
        ),
        pytest.param(
            "sia",
            [(2048, 0), (20480, 0), (10240, 0)],
            (2, 22528, 0),
            id="a sidecar beside the larger of init and app",
        ),
        pytest.param("sa", [(10240, 0), (10240, 0)], (2, 20480, 0), id="a sidecar is no init"),
        pytest.param("ia", [(10, 90), (90, 10)], (1, 90, 90), id="each amount by itself"),
    ],
)
def test_effective_usage(
    kinds: str, takes: list[tuple[int, int]], want: tuple[int, int, int]
) -> None:
    each = tuple((pick("c", *take),) for take in takes)
    found = effective.effective(each, [_KINDS[kind] for kind in kinds])
    assert plain(found) == {"c": want}


_KINDS = {"i": Kind.INIT, "s": Kind.SIDECAR, "a": Kind.APP}


def test_what_one_container_has_of_one_card_is_summed_first() -> None:
    each = ((pick("c", 100, 1), pick("c", 200, 2), pick("d", 5, 5)), (pick("c", 250, 0),))
    found = effective.effective(each, [Kind.INIT, Kind.APP])
    assert plain(found) == {"c": (2, 300, 3), "d": (1, 5, 5)}


def test_after_release_only_sidecars_and_apps_count() -> None:
    each = ((pick("c", 9000, 90),), (pick("c", 1000, 10),), (pick("c", 100, 1),))
    kinds = [Kind.INIT, Kind.SIDECAR, Kind.APP]
    assert plain(effective.effective(each, kinds, released=True)) == {"c": (2, 1100, 11)}


@pytest.mark.parametrize(
    ("each", "want"),
    [
        pytest.param(
            ((pick("c", 100, 1),), (pick("c", 200, 2),)),
            (2, 300, 3),
            id="fewer slots than containers: all count as apps",
        ),
        pytest.param(
            ((pick("c", 100, 1),), (), (), (pick("c", 50, 5),)),
            (1, 100, 5),
            id="a surplus slot counts as an app",
        ),
    ],
)
def test_slots_that_do_not_match_the_containers(
    each: decision.Slots, want: tuple[int, int, int]
) -> None:
    found = effective.effective(each, [Kind.INIT, Kind.INIT, Kind.APP])
    assert plain(found) == {"c": want}


# ---- our own decisions


def test_a_reservation_counts_at_once_and_once_until_it_is_confirmed() -> None:
    books = book()
    pod = bound("a").put("spec.nodeName", "").read()
    books.assume(pod, "n1", slots("G,NVIDIA,3000,30:"))
    assert held(books) == {"G": (1, 3000, 30)}
    assert books.requested("n1") == ({"cpu": 100, "nvidia.com/gpu": 1}, 1)
    assert [entry.state for entry in books] == [ledger.State.RESERVED]
    books.confirm("uid-a")
    books.confirm("uid-a")
    done = books.observe(bound("a", gpu("G,NVIDIA,3000,30:;")).read(), ours=False)
    assert (held(books), done.findings) == ({"G": (1, 3000, 30)}, ())
    assert [(entry.state, entry.foreign) for entry in books] == [(ledger.State.BOUND, False)]


def test_the_watch_may_confirm_first() -> None:
    books = book()
    books.assume(bound("a").read(), "n1", slots("G,NVIDIA,3000,30:"))
    done = books.observe(bound("a", gpu("G,NVIDIA,3000,30:;")).read(), ours=False)
    assert done.after is not None
    assert (done.after.state, done.findings, held(books)) == (
        ledger.State.BOUND,
        (),
        {"G": (1, 3000, 30)},
    )


def test_a_second_decision_replaces_the_first() -> None:
    books = book()
    pod = builders.pod("a").read()
    books.assume(pod, "n1", slots("G,NVIDIA,3000,30:"))
    books.assume(pod, "n2", slots("H,NVIDIA,100,1:"))
    assert (held(books), held(books, "n2")) == ({}, {"H": (1, 100, 1)})
    assert (books.requested("n1"), books.requested("n2")) == (({}, 0), ({}, 1))


@pytest.mark.parametrize("times", [1, 2])
def test_forgetting_gives_everything_back_and_may_be_repeated(times: int) -> None:
    books = book()
    books.assume(builders.pod("a").read(), "n1", slots("G,NVIDIA,3000,30:"))
    freed = [books.forget("uid-a").freed for _ in range(times)]
    assert freed == [frozenset({"NVIDIA"}), frozenset()][:times]
    assert (held(books), books.requested("n1"), len(books)) == ({}, ({}, 0), 0)


def test_forgetting_what_never_was_does_nothing() -> None:
    assert book().forget("uid-x") == ledger.Transition()
    assert book().confirm("uid-x") == ledger.Transition()
    assert book().gone("uid-x") == ledger.Transition()
    assert not ledger.Transition().freed
    assert not ledger.Transition().shrank


def test_a_bound_pod_is_neither_forgotten_nor_decided_again() -> None:
    books = book()
    books.observe(bound("a", gpu("G,NVIDIA,3000,30:;")).read(), ours=True)
    books.forget("uid-a")
    books.assume(builders.pod("a").read(), "n2", slots("H,NVIDIA,100,1:"))
    assert (held(books), held(books, "n2")) == ({"G": (1, 3000, 30)}, {})


def test_a_pod_found_on_another_node_moves_there_with_its_ordinary_requests() -> None:
    books = book()
    pod = builders.pod("a").container(requests={"cpu": "1"})
    books.assume(pod.read(), "n1", slots("G,NVIDIA,3000,30:"))
    seen = pod.on("n2").annotate({keys.VGPU_NODE: "n1", AL: "G,NVIDIA,3000,30:;"})
    done = books.observe(seen.read(), ours=True)
    assert oddities(done) == [claim.Oddity.ELSEWHERE]
    assert (held(books), held(books, "n2")) == ({}, {})
    assert (books.requested("n1"), books.requested("n2")) == (({}, 0), ({"cpu": 1000}, 1))
    assert done.freed == {"NVIDIA"}
    assert done.shrank


@pytest.mark.parametrize(
    ("seen", "want", "want_oddities"),
    [
        pytest.param(
            bound("a", gpu("G,NVIDIA,9,9:;")),
            {"G": (1, 9, 9)},
            [claim.Oddity.FOREIGN],
            id="with another decision: that one is counted, as foreign",
        ),
        pytest.param(
            bound("a").annotate({keys.VGPU_NODE: "n9"}),
            {},
            [claim.Oddity.ELSEWHERE],
            id="without our decision",
        ),
        pytest.param(
            bound("a", gpu("G,NVIDIA,x,9:;")),
            {},
            [claim.Oddity.UNREADABLE],
            id="with a decision that cannot be read",
        ),
    ],
)
def test_somebody_else_bound_the_pod_we_reserved_for(
    seen: builders.PodBuilder, want: object, want_oddities: list[claim.Oddity]
) -> None:
    books = book()
    books.assume(builders.pod("a").read(), "n1", slots("G,NVIDIA,3000,30:"))
    done = books.observe(seen.read(), ours=True)
    assert (held(books), oddities(done)) == (want, want_oddities)


def test_a_new_leader_drops_what_is_not_bound() -> None:
    books = book()
    books.assume(builders.pod("a").read(), "n1", slots("G,NVIDIA,3000,30:"))
    books.observe(bound("b", gpu("G,NVIDIA,100,1:;")).read(), ours=True)
    dropped = books.drop_reservations()
    assert [one.before.name for one in dropped if one.before is not None] == ["a"]
    assert held(books) == {"G": (1, 100, 1)}
    assert books.drop_reservations() == ()


# ---- bound pods, as the watch shows them

TWO = bound("a", gpu("G,NVIDIA,100,10:;"))
INIT = (
    builders.pod("a")
    .on("n1")
    .init("i0", limits={"nvidia.com/gpu": 1})
    .container("c0", limits={"nvidia.com/gpu": 1})
    .annotate({keys.VGPU_NODE: "n1", AL: "G,NVIDIA,20000,10:;G,NVIDIA,10000,5:;"})
)


@pytest.mark.parametrize(
    ("pod", "want", "want_oddities"),
    [
        pytest.param(TWO, {"G": (1, 100, 10)}, [], id="a decision of ours"),
        pytest.param(
            bound("a", gpu("G,NVIDIA,100,5:;G,NVIDIA,100,5:;"), apps=2),
            {"G": (2, 200, 10)},
            [],
            id="two containers on one card take two slots",
        ),
        pytest.param(TWO.terminating(), {"G": (1, 100, 10)}, [], id="seen while terminating"),
        pytest.param(INIT, {"G": (1, 20000, 10)}, [], id="an init container at its peak"),
        pytest.param(
            INIT.init_ended("i0"), {"G": (1, 10000, 5)}, [], id="first seen after its inits ended"
        ),
        pytest.param(
            INIT.init_ended("i0", 1), {"G": (1, 20000, 10)}, [], id="a failed init keeps the peak"
        ),
        pytest.param(
            INIT.init_ended("i0").annotate({AL: "G,NVIDIA,100,10:;"}),
            {"G": (1, 100, 10)},
            [claim.Oddity.DIFFERS],
            id="fewer slots than containers are never released",
        ),
        pytest.param(
            TWO.annotate({AL: "G,NVIDIA,100,10:;H,NVIDIA,7,7:;"}),
            {"G": (1, 100, 10), "H": (1, 7, 7)},
            [claim.Oddity.DIFFERS],
            id="more slots than containers are counted and flagged",
        ),
        pytest.param(
            TWO.annotate({AL: "G,NVIDIA,100,10:;;;;"}),
            {"G": (1, 100, 10)},
            [],
            id="surplus empty slots are ignored",
        ),
        pytest.param(
            TWO.annotate({AL: "G,NVIDIA,100,10:H,NVIDIA,100,10:;"}),
            {"G": (1, 100, 10), "H": (1, 100, 10)},
            [claim.Oddity.DIFFERS],
            id="more cards than were asked for",
        ),
        pytest.param(
            bound("a", gpu("G,NVIDIA,100,10:;")).put(
                "spec.containers",
                [builders.container("c0", limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 50})],
            ),
            {"G": (1, 100, 10)},
            [claim.Oddity.DIFFERS],
            id="more memory than was asked for",
        ),
        pytest.param(
            TWO.put(
                "spec.containers", [builders.container("c0", limits={"nvidia.com/gpu": "1.5"})]
            ),
            {"G": (1, 100, 10)},
            [],
            id="a request that cannot be read is compared with nothing",
        ),
        pytest.param(
            bound("a", gpu(",,0,0:;")), {}, [claim.Oddity.BYPASSED], id="an empty id is no device"
        ),
        pytest.param(
            bound("a", gpu(";")), {}, [claim.Oddity.BYPASSED], id="a decision without devices"
        ),
        pytest.param(
            bound("a").put("metadata.annotations", {}),
            {},
            [claim.Oddity.BYPASSED],
            id="it went round admission",
        ),
        pytest.param(
            TWO.annotate({keys.VGPU_NODE: "n2"}), {}, [claim.Oddity.ELSEWHERE], id="another node"
        ),
        pytest.param(
            TWO.put("metadata.annotations", {AL: "G,NVIDIA,100,10:;"}),
            {},
            [claim.Oddity.ELSEWHERE],
            id="a decision for no node",
        ),
        pytest.param(
            builders.pod("a").on("n1").container(requests={"cpu": "1"}),
            {},
            [],
            id="no devices asked, none decided",
        ),
        pytest.param(
            TWO.annotate({AL: "G,NVIDIA,100:;"}),
            {},
            [claim.Oddity.UNREADABLE],
            id="a decision that cannot be read",
        ),
    ],
)
def test_a_pod_first_seen_on_its_node(
    pod: builders.PodBuilder, want: object, want_oddities: list[claim.Oddity]
) -> None:
    books = book()
    done = books.observe(pod.read(), ours=True)
    assert (held(books), oddities(done)) == (want, want_oddities)
    again = books.observe(pod.read(), ours=True)
    assert (held(books), again.findings) == (want, ())
    assert books.requested("n1")[1] == 1


def test_findings_name_container_key_and_value() -> None:
    books = book()
    found = {
        name: books.observe(pod.uid(name).read(), ours=True).findings[0].text
        for name, pod in {
            "unreadable": TWO.annotate({AL: "G,NVIDIA,abc,30:;"}),
            "elsewhere": TWO.annotate({keys.VGPU_NODE: "n2"}),
            "nowhere": TWO.put("metadata.annotations", {AL: "G,NVIDIA,100,10:;"}),
            "bypassed": bound("a").put("metadata.annotations", {}),
            "differs": TWO.annotate({AL: "G,NVIDIA,100,10:H,NVIDIA,100,10:;"}),
        }.items()
    }
    assert found == {
        "unreadable": f"{AL}: memory: 'abc' is not a 32-bit number",
        "elsewhere": f"bound to node n1, but {keys.VGPU_NODE} is 'n2': "
        "its devices are counted on neither node",
        "nowhere": f"carries {AL} without {keys.VGPU_NODE}: not counted",
        "bypassed": "container c0 asks for nvidia.com/gpu, but the pod was bound without a "
        "decision: its devices are not counted",
        "differs": f"{AL}: container c0 has 2 devices and asks for 1",
    }


def test_a_decision_that_is_not_ours_is_counted_and_flagged() -> None:
    books = book()
    done = books.observe(TWO.scheduler("default-scheduler").read(), ours=False)
    assert oddities(done) == [claim.Oddity.FOREIGN]
    assert "'default-scheduler'" in done.findings[0].text
    assert (held(books), [entry.foreign for entry in books]) == ({"G": (1, 100, 10)}, [True])
    books.observe(TWO.version(2).read(), ours=True)
    assert [entry.foreign for entry in books] == [True]


def test_a_pod_of_another_scheduler_without_devices_is_ordinary_usage() -> None:
    books = book()
    pod = builders.pod("a").on("n1").container(requests={"cpu": "1", "memory": "1Gi"})
    assert books.observe(pod.read(), ours=False).findings == ()
    assert books.requested("n1") == ({"cpu": 1000, "memory": 2**30}, 1)


def test_an_edited_annotation_of_a_known_pod_changes_nothing() -> None:
    books = book()
    books.observe(TWO.read(), ours=True)
    for edited in ("G,NVIDIA,abc,30:;", "G,NVIDIA:;", "G,NVIDIA,1,0:;", ""):
        done = books.observe(TWO.annotate({AL: edited}).read(), ours=True)
        assert done.findings == ()
        assert held(books) == {"G": (1, 100, 10)}
    moved = TWO.annotate({keys.VGPU_NODE: "n2"})
    assert books.observe(moved.read(), ours=True).findings == ()
    assert (held(books), books.closed("n1")) == ({"G": (1, 100, 10)}, {})


def test_inits_that_end_shrink_the_usage_once_and_for_ever() -> None:
    books = book()
    books.observe(INIT.read(), ours=True)
    done = books.observe(INIT.init_ended("i0").read(), ours=True)
    assert held(books) == {"G": (1, 10000, 5)}
    assert done.freed == {"NVIDIA"}
    assert not done.shrank
    books.observe(INIT.read(), ours=True)
    assert held(books) == {"G": (1, 10000, 5)}


def test_ordinary_requests_follow_a_resize() -> None:
    books = book()
    pod = builders.pod("a").on("n1")
    books.observe(pod.container("c", requests={"cpu": "2"}).read(), ours=True)
    done = books.observe(pod.container("c", requests={"cpu": "1"}).read(), ours=True)
    assert (books.requested("n1"), done.shrank) == (({"cpu": 1000}, 1), True)
    done = books.observe(pod.container("c", requests={"cpu": "3"}).read(), ours=True)
    assert (books.requested("n1"), done.shrank) == (({"cpu": 3000}, 1), False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_frees_everything_once(phase: str) -> None:
    books = book()
    books.observe(TWO.read(), ours=True)
    books.observe(bound("b", gpu("G,NVIDIA,7,7:;")).read(), ours=True)
    for _ in range(2):
        books.observe(TWO.phase(phase).read(), ours=True)
        books.gone("uid-a")
    assert (held(books), books.requested("n1")[1]) == ({"G": (1, 7, 7)}, 1)


def test_an_unreadable_decision_closes_its_type_until_the_last_such_pod_is_gone() -> None:
    books = book()
    bad = {AL: "G,NVIDIA,x,1:;", MLU_AL: "M,MLU,5,5:;"}
    books.observe(TWO.annotate(bad).read(), ours=True)
    books.observe(TWO.annotate(bad).uid("b").read(), ours=True)
    assert books.closed("n1") == {"NVIDIA": ("default/a", "default/a")}
    assert held(books, word="MLU") == {"M": (2, 10, 10)}
    assert books.gone("uid-a").freed == {"NVIDIA", "MLU"}
    assert books.closed("n1") == {"NVIDIA": ("default/a",)}
    books.gone("b")
    assert (books.closed("n1"), books.words("n1")) == ({}, ())


def test_an_unreadable_decision_for_another_node_closes_nothing() -> None:
    books = book()
    books.observe(TWO.annotate({AL: "x", keys.VGPU_NODE: "n2"}).read(), ours=True)
    assert (books.closed("n1"), books.closed("n2")) == ({}, {})


def test_namespaces_add_up_over_nodes_and_shrink_with_a_release() -> None:
    books = book()
    books.observe(INIT.read(), ours=True)
    books.observe(bound("b", gpu("H,NVIDIA,100,10:;"), node="n2").read(), ours=True)
    other = bound("c", gpu("H,NVIDIA,1,1:;"), node="n2").put("metadata.namespace", "other")
    books.observe(other.read(), ours=True)
    assert books.namespace_usage("default") == {"NVIDIA": Usage(2, 20100, 20)}
    books.observe(INIT.init_ended("i0").read(), ours=True)
    assert books.namespace_usage("default") == {"NVIDIA": Usage(2, 10100, 15)}
    books.gone("uid-a")
    books.gone("uid-b")
    assert (books.namespace_usage("default"), books.namespace_usage("other")) == (
        {},
        {"NVIDIA": Usage(1, 1, 1)},
    )


def test_a_node_is_named_exactly_when_its_totals_have_changed() -> None:
    books = book()
    steps: list[Callable[[], object]] = [
        lambda: books.assume(TWO.read(), "n1", slots("G,NVIDIA,100,10:")),
        lambda: books.confirm("uid-a"),
        lambda: books.observe(TWO.read(), ours=True),
        lambda: books.gone("uid-a"),
    ]
    changed = [(step(), books.take_changed())[1] for step in steps]
    assert changed == [("n1",), (), (), ("n1",)]


def test_the_pods_of_a_node_can_be_had_and_counted_in_another_ledger() -> None:
    books, other = book(), book()
    books.observe(TWO.read(), ours=True)
    (entry,) = books.on("n1")
    assert (entry.name, books.on("n9")) == (TWO.read().name, ())
    other.put(entry)
    assert other.card_usage("n1", "NVIDIA") == books.card_usage("n1", "NVIDIA")
    assert other.requested("n1") == books.requested("n1")


def test_neighbours_are_known_by_their_annotations_and_uids() -> None:
    books = book()
    books.observe(TWO.annotate({"example.com/class": "online"}).read(), ours=True)
    (neighbour,) = books.card_usage("n1", "NVIDIA")["G"].pods
    assert neighbour["example.com/class"] == "online"
    assert books.owners("n1", "NVIDIA") == {"G": ("uid-a",)}
    assert books.owners("n9", "NVIDIA") == {}


def test_nobody_changes_the_ledger_through_what_it_hands_out() -> None:
    books = book()
    pod = TWO.read()
    books.observe(pod, ours=True)
    for given_out in (
        books.card_usage("n1", "NVIDIA"),
        books.requested("n1")[0],
        books.namespace_usage("default"),
        books.owners("n1", "NVIDIA"),
        books.closed("n1"),
        pod.annotations,
    ):
        if isinstance(given_out, dict):
            given_out.clear()
    (entry,) = books.entries()
    for frozen in (entry.slots, entry.requests, entry.usage, entry.annotations):
        with pytest.raises(TypeError):
            frozen["x"] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.node = "n2"  # type: ignore[misc]
    assert held(books) == {"G": (1, 100, 10)}
    assert books.requested("n1") == ({"cpu": 100, "nvidia.com/gpu": 1}, 1)
    assert books.get("uid-a") is entry


# ---- whatever happens, in whatever order

CARDS = ("G", "H")
NODES = ("n1", "n2")


def amounts() -> Any:
    picks = st.builds(pick, st.sampled_from(CARDS), st.integers(0, 9), st.integers(0, 9))
    return st.lists(st.lists(picks, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)


def recount(books: ledger.Ledger) -> tuple[Any, Any]:
    """Totals per (node, word, card) and per node, from the entries alone."""
    cards: dict[Any, list[int]] = {}
    nodes: dict[str, list[Any]] = {}
    for entry in books.entries():
        mine = nodes.setdefault(entry.node, [0, {}])
        mine[0] += 1
        for name, amount in entry.requests.items():
            mine[1][name] = mine[1].get(name, 0) + amount
        for word, each in entry.slots.items():
            fresh = effective.effective(each, entry.kinds, released=entry.released)
            for card, one in fresh.items():
                total = cards.setdefault((entry.node, word, card), [0, 0, 0])
                for place, amount in enumerate((one.used, one.memory_mib, one.cores)):
                    total[place] += amount
    return cards, nodes


class Books(stateful.RuleBasedStateMachine):
    """The totals equal the sum over the entries, whatever events come in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.books = book()

    names = st.sampled_from("abc")
    nodes = st.sampled_from(NODES)

    def _pod(self, name: str, node: str, value: str, *, done: bool) -> pods.Pod:
        made = builders.pod(name).init("i").container("c", requests={"cpu": "1"}).on(node)
        made = made.annotate({keys.VGPU_NODE: node, AL: value})
        return (made.init_ended("i") if done else made).read()

    @stateful.rule(name=names, node=nodes, each=amounts())
    def assume(self, name: str, node: str, each: decision.Slots) -> None:
        self.books.assume(self._pod(name, "", "", done=False), node, {"NVIDIA": each})

    @stateful.rule(name=names, end=st.sampled_from(["confirm", "forget", "gone"]))
    def end(self, name: str, end: str) -> None:
        getattr(self.books, end)(f"uid-{name}")

    @stateful.rule(name=names, node=nodes, each=amounts(), done=st.booleans(), ours=st.booleans())
    def observe(self, name: str, node: str, each: decision.Slots, done: bool, ours: bool) -> None:
        value = decision.encode(each, "NVIDIA")
        self.books.observe(self._pod(name, node, value, done=done), ours=ours)

    @stateful.rule(name=names, node=nodes)
    def observe_unreadable(self, name: str, node: str) -> None:
        self.books.observe(self._pod(name, node, "x", done=False), ours=True)

    @stateful.rule()
    def new_leader(self) -> None:
        self.books.drop_reservations()
        assert all(entry.state is ledger.State.BOUND for entry in self.books)

    @stateful.invariant()
    def totals_are_the_sum_of_the_entries(self) -> None:
        cards, nodes = recount(self.books)
        for node in NODES:
            found = held(self.books, node)
            assert found == {
                card: tuple(total) for (on, _, card), total in cards.items() if on == node
            }
            count, requests = nodes.get(node, [0, {}])
            assert self.books.requested(node) == (requests, count)
            assert min((min(one) for one in found.values()), default=0) >= 0

    @stateful.invariant()
    def closed_types_are_those_of_unreadable_entries(self) -> None:
        for node in NODES:
            want = {word for e in self.books if e.node == node for word in e.unreadable}
            assert set(self.books.closed(node)) == want

    @stateful.invariant()
    def namespaces_are_the_sum_too(self) -> None:
        total = sum(
            one.memory_mib
            for entry in self.books
            for each in entry.usage.values()
            for one in each.values()
        )
        found = self.books.namespace_usage("default").get("NVIDIA", Usage())
        assert found.memory_mib == total


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@given(st.lists(st.tuples(st.sampled_from("abc"), amounts()), max_size=6), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_events_does_not_matter(
    seen: list[tuple[str, decision.Slots]], random: Any
) -> None:
    """The last look at each pod aside, a start reads pods in any order."""
    latest = dict(seen)
    made = [bound(name, gpu(decision.encode(each, "NVIDIA"))) for name, each in latest.items()]
    first, second = book(), book()
    for pod in made:
        first.observe(pod.read(), ours=True)
    random.shuffle(made)
    for pod in made:
        second.observe(pod.read(), ours=True)
    assert held(first) == held(second)
    assert first.requested("n1") == second.requested("n1")


# ---- what must never happen


def _lost(books: ledger.Ledger, node: str, card: str) -> None:
    """As a bug would: the totals of a card forget a pod that is still there."""
    total = books._tables[node].cards["NVIDIA"][card]
    total.used = total.memory_mib = total.cores = 0


def test_a_total_below_zero_is_added_up_again_and_told_once() -> None:
    books = book()
    for name in ("a", "b"):
        books.observe(bound(name, gpu("c,NVIDIA,100,10:;")).read(), ours=True)
    books.observe(bound("far", gpu("c,NVIDIA,7,7:;"), node="n2").read(), ours=True)
    assert books.take_miscounts() == ()
    books.take_changed()
    _lost(books, "n1", "c")
    books.gone("uid-a")
    assert held(books) == {"c": (1, 100, 10)}
    assert held(books, "n2") == {"c": (1, 7, 7)}
    assert books.namespace_usage("default") == {"NVIDIA": Usage(2, 107, 17)}
    assert books.requested("n1") == ({"nvidia.com/gpu": 1, "cpu": 100}, 1)
    assert set(books.take_changed()) == {"n1", "n2"}
    assert books.take_miscounts() == ("c on n1",)
    assert books.take_miscounts() == ()


def test_a_namespace_below_zero_is_found_too() -> None:
    books = book()
    for name in ("a", "b"):
        books.observe(bound(name, gpu("c,NVIDIA,100,10:;")).read(), ours=True)
    books._namespaces["default"]["NVIDIA"].memory_mib = 0
    books.gone("uid-a")
    assert books.namespace_usage("default") == {"NVIDIA": Usage(1, 100, 10)}
    assert books.take_miscounts() == ("NVIDIA in namespace default",)


def test_what_one_pod_takes_is_told_apart_from_the_others() -> None:
    books = book()
    books.observe(bound("a", gpu("c,NVIDIA,100,10:;")).read(), ours=True)
    books.observe(bound("b", gpu("c,NVIDIA,50,5:d,NVIDIA,1,1:;")).read(), ours=True)
    cards = [register.Card(id=id) for id in "cde"]
    found = {one.card.id: one.usage for one in books.share("uid-b", "NVIDIA", cards)}
    assert plain(found) == {"c": (1, 50, 5), "d": (1, 1, 1), "e": (0, 0, 0)}
    assert books.held("n1", "NVIDIA") == ("c", "d")
    assert books.held("n1", "MLU") == books.held("ghost", "NVIDIA") == ()
