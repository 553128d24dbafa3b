"""Lists in pages, and what a watch shows."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from hami_operator.cluster.memory import records, refusals, resources, selectors, store
from tests.unit.memory import objects

POD = ("default", "p")
PENDING = selectors.parse(resources.PODS, fields="spec.nodeName=")


@pytest.fixture
def memory() -> store.Store:
    return objects.new_store()


def fill(memory: store.Store, count: int, namespace: str = "default") -> None:
    for number in range(count):
        memory.create("configmaps", objects.config_map(f"c{number:02}", namespace))


def names(found: list[records.Record]) -> list[str]:
    return [record.key[1] for record in found]


def test_a_list_is_ordered_by_namespace_and_name(memory: store.Store) -> None:
    for namespace, name in (("kube-system", "a"), ("default", "b"), ("default", "a")):
        memory.create("configmaps", objects.config_map(name, namespace))
    keys = [record.key for record in memory.list("configmaps").records]
    inside = memory.list("configmaps", namespace="default")
    assert keys == [("default", "a"), ("default", "b"), ("kube-system", "a")]
    assert names(inside.records) == ["a", "b"]
    assert inside.version == memory.version


def test_pages_show_the_moment_of_the_first_one(memory: store.Store) -> None:
    fill(memory, 5)
    first = memory.list("configmaps", limit=2)
    memory.delete("configmaps", ("default", "c03"))
    memory.create("configmaps", objects.config_map("c99"))
    second = memory.list("configmaps", limit=2, token=first.token)
    last = memory.list("configmaps", limit=2, token=second.token)
    assert [names(page.records) for page in (first, second, last)] == [
        ["c00", "c01"],
        ["c02", "c03"],
        ["c04"],
    ]
    assert [page.remaining for page in (first, second, last)] == [3, 1, None]
    assert {page.version for page in (first, second, last)} == {first.version}
    assert last.token == ""


def test_pages_of_a_selection(memory: store.Store) -> None:
    fill(memory, 4)
    fill(memory, 4, "kube-system")
    selector = selectors.parse(resources.find("configmaps"), fields="metadata.name!=c01")
    first = memory.list("configmaps", namespace="kube-system", selector=selector, limit=2)
    rest = memory.list("configmaps", namespace="kube-system", selector=selector, token=first.token)
    assert names(first.records) + names(rest.records) == ["c00", "c02", "c03"]
    assert first.remaining is None


@hypothesis.given(strategies.integers(0, 12), strategies.integers(1, 5))
def test_pages_together_are_the_list(count: int, limit: int) -> None:
    memory = objects.new_store()
    fill(memory, count)
    found: list[records.Record] = []
    token = ""
    while True:
        page = memory.list("configmaps", limit=limit, token=token)
        found += page.records
        token = page.token
        assert len(page.records) <= limit
        if not token:
            break
    assert found == memory.list("configmaps").records


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("odd", id="no token"),
        pytest.param("eyJydiI6MX0", id="half a token"),
        pytest.param("!", id="no base64"),
        pytest.param("WzFd", id="a list"),
    ],
)
def test_unreadable_tokens(memory: store.Store, token: str) -> None:
    with pytest.raises(refusals.Refused, match="continue key is not valid") as caught:
        memory.list("configmaps", limit=1, token=token)
    assert caught.value.code == 400


def test_a_token_expires_with_its_moment(memory: store.Store) -> None:
    fill(memory, 3)
    token = memory.list("configmaps", limit=1).token
    memory.compact("configmaps")
    with pytest.raises(refusals.Refused) as caught:
        memory.list("configmaps", limit=1, token=token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_only_the_latest_moments_are_kept(memory: store.Store) -> None:
    fill(memory, 3)
    first = memory.list("configmaps", limit=1).token
    for number in range(8):
        memory.create("configmaps", objects.config_map(f"more{number}"))
        assert memory.list("configmaps", limit=1).token
    with pytest.raises(refusals.Refused, match="too old"):
        memory.list("configmaps", limit=1, token=first)


def test_a_watch_shows_every_write_after_its_version(memory: store.Store) -> None:
    start = memory.version
    memory.create("pods", objects.pod())
    memory.patch("pods", POD, {"metadata": {"labels": {"a": "b"}}})
    memory.create("configmaps", objects.config_map())
    memory.delete("pods", POD)
    events = memory.events_since("pods", start)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [event.record.version for event in events]
    assert versions == [start + 1, start + 2, start + 4]
    assert memory.events_since("pods", versions[1]) == events[2:]
    assert memory.events_since("pods", memory.version + 5) == []


def test_what_leaves_the_selection_is_shown_as_it_was(memory: store.Store) -> None:
    before = memory.create("pods", objects.pod())
    bound = memory.bind(POD, objects.binding(annotations={"a": "1"}))
    (event,) = memory.events_since("pods", before.version, selector=PENDING)
    assert event.type == "DELETED"
    assert event.record.obj == {
        **before.obj,
        "metadata": {**before.obj["metadata"], "resourceVersion": str(bound.version)},
    }
    (again,) = memory.events_since("pods", before.version, selector=PENDING)
    assert again.record is event.record


def test_what_enters_the_selection_is_added(memory: store.Store) -> None:
    memory.create("pods", objects.pod())
    start = memory.version
    memory.patch("pods", POD, {"metadata": {"labels": {"a": "b"}}})
    selector = selectors.parse(resources.PODS, labels="a=b")
    assert [event.type for event in memory.events_since("pods", start, selector=selector)] == [
        "ADDED"
    ]


def test_what_was_never_selected_is_not_shown(memory: store.Store) -> None:
    start = memory.version
    memory.create("pods", objects.pod())
    memory.bind(POD, objects.binding())
    memory.delete("pods", POD, grace_s=0)
    selector = selectors.parse(resources.PODS, labels="a=b")
    assert memory.events_since("pods", start, selector=selector) == []


def test_a_selected_watch_sees_a_bound_pod_go_only_once(memory: store.Store) -> None:
    start = memory.version
    memory.create("pods", objects.pod())
    memory.bind(POD, objects.binding())
    memory.delete("pods", POD, grace_s=0)
    seen = memory.events_since("pods", start, selector=PENDING)
    assert [event.type for event in seen] == ["ADDED", "DELETED"]


def test_the_window_is_bounded() -> None:
    memory = objects.new_store(window=4)
    start = memory.version
    fill(memory, 9)
    with pytest.raises(refusals.Refused) as caught:
        memory.events_since("configmaps", start)
    assert objects.refusal(caught.value) == (
        410,
        "Expired",
        f"too old resource version: {start} ({start + 5})",
    )
    assert len(memory.events_since("configmaps", start + 5)) == 4


def test_compaction_expires_everything_before(memory: store.Store) -> None:
    fill(memory, 1)
    version = memory.version
    memory.compact("configmaps")
    with pytest.raises(refusals.Refused, match="too old resource version"):
        memory.events_since("configmaps", version)
    fresh = memory.list("configmaps").version
    assert memory.events_since("configmaps", fresh) == []
    assert memory.events_since("pods", version) == []


def test_listeners_are_told_of_each_write(memory: store.Store) -> None:
    told: list[str] = []
    memory.subscribe(told.append)
    memory.create("events.events.k8s.io", objects.event())
    memory.create("pods", objects.pod())
    memory.patch("pods", POD, {})
    assert told == ["events", "pods"]


def test_an_object_is_encoded_once_for_all(memory: store.Store) -> None:
    record = memory.create("pods", objects.pod())
    assert record.item(resources.PODS) is record.item(resources.PODS)
    assert record.metadata_json() is record.metadata_json()


@hypothesis.given(
    strategies.lists(
        strategies.tuples(strategies.sampled_from("abc"), strategies.sampled_from("+-x")),
        max_size=25,
    ),
    strategies.booleans(),
)
def test_a_watch_from_the_list_leads_to_the_next_list(
    steps: list[tuple[str, str]], selected: bool
) -> None:
    memory = objects.new_store()
    text = "on=yes" if selected else ""
    selector = selectors.parse(resources.find("configmaps"), labels=text)
    half = len(steps) // 2
    for name, action in steps[:half]:
        act(memory, name, action)
    start = memory.list("configmaps", selector=selector)
    picture = {record.key: record.version for record in start.records}
    for name, action in steps[half:]:
        act(memory, name, action)
    for event in memory.events_since("configmaps", start.version, selector=selector):
        if event.type == "DELETED":
            del picture[event.record.key]
        else:
            assert (event.record.key in picture) is (event.type == "MODIFIED")
            picture[event.record.key] = event.record.version
    end = memory.list("configmaps", selector=selector)
    assert picture == {record.key: record.version for record in end.records}


def act(memory: store.Store, name: str, action: str) -> None:
    """Create or delete an object, or switch its label on and off."""
    key = ("default", name)
    found = memory.find("configmaps", key)
    if action == "-":
        if found:
            memory.delete("configmaps", key)
    elif found is None:
        memory.create("configmaps", objects.config_map(name, labels={"on": "yes"}))
    else:
        on = found.obj["metadata"]["labels"]["on"]
        label = {"on": "no" if on == "yes" and action == "x" else "yes"}
        memory.patch("configmaps", key, {"metadata": {"labels": label}})
