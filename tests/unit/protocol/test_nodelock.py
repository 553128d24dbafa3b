"""The node lock: its value in both directions, and every row of the tables."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator import errors
from hami_operator.protocol import bindphase, instant, keys, nodelock

Phase: TypeAlias = bindphase.Phase
Trace: TypeAlias = nodelock.Trace
Verdict: TypeAlias = nodelock.Verdict
Release: TypeAlias = nodelock.Release
NOON = datetime.datetime(2026, 2, 1, 12, tzinfo=datetime.UTC)
TEXT = "2026-02-01T12:00:00Z"


def lock(namespace: str = "", name: str = "", **later: float) -> nodelock.Lock:
    return nodelock.Lock(at=NOON + datetime.timedelta(**later), namespace=namespace, name=name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(f"{TEXT},default,pod-a", lock("default", "pod-a"), id="with a holder"),
        pytest.param(TEXT, lock(), id="time alone"),
    ],
)
def test_a_value_is_written_and_read(text: str, value: nodelock.Lock) -> None:
    assert nodelock.encode(value) == text
    assert nodelock.decode(text) == value


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-02-01T21:00:00+09:00,a,b", lock("a", "b"), id="another zone"),
        pytest.param(
            "2026-02-01T12:00:00.5Z,a,b", lock("a", "b", milliseconds=500), id="half a second"
        ),
        pytest.param(
            "2026-02-01T12:00:00.123456789Z", lock(microseconds=123456), id="nanoseconds"
        ),
        pytest.param(f"{TEXT},,", lock(), id="empty names"),
    ],
)
def test_what_others_write_is_read(text: str, want: nodelock.Lock) -> None:
    assert nodelock.decode(text) == want


@pytest.mark.parametrize(
    ("text", "want_field"),
    [
        pytest.param("lock", "time", id="a word"),
        pytest.param("", "time", id="an empty text"),
        pytest.param("2026-02-01 12:00:00,a,b", "time", id="a blank for the T"),
        pytest.param("2026-02-01T12:00:00,a,b", "time", id="no zone"),
        pytest.param("2026-02-30T12:00:00Z,a,b", "time", id="no such day"),
        pytest.param("20260201T120000Z", "time", id="another ISO form"),
        pytest.param("0001-01-01T00:00:00+23:00", "time", id="before the calendar"),
        pytest.param("2026-02-01T12:00:00+99:00", "time", id="no such zone"),
        pytest.param(f"{TEXT},a", "fields", id="two parts"),
        pytest.param(f"{TEXT},a,b,c", "fields", id="four parts"),
    ],
)
def test_an_unreadable_value_names_key_and_field(text: str, want_field: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        nodelock.decode(text)
    assert (caught.value.key, caught.value.field) == (keys.NODE_LOCK, want_field)


@given(st.text(max_size=40) | st.text(max_size=20).map(TEXT.__add__))
def test_any_value_is_judged(text: str) -> None:
    facts = dataclasses.replace(FREE, value=text, holder=Trace.GONE)
    assert nodelock.judge(facts).verdict in (Verdict.REPLACE, Verdict.WAIT)
    assert nodelock.judge(facts, nodelock.OWNERLESS).verdict in (Verdict.REPLACE, Verdict.WAIT)


# --- age -------------------------------------------------------------------------------------


def at(monotonic_s: float, wall_s: float = 0.0) -> instant.Instant:
    return instant.Instant(monotonic_s=monotonic_s, wall=NOON + datetime.timedelta(seconds=wall_s))


@pytest.mark.parametrize(
    ("first_seen", "now", "at_start", "want"),
    [
        pytest.param(at(10), at(70), False, 60.0, id="since we first saw it"),
        pytest.param(at(10), at(10, 600), False, 0.0, id="its own time does not count"),
        pytest.param(at(10), at(10, 600), True, 600.0, id="its own time at our start"),
        pytest.param(at(10), at(70, 5), True, 60.0, id="the longer of both at our start"),
        pytest.param(at(10), at(10, -600), True, 0.0, id="a time in the future"),
    ],
)
def test_age(
    first_seen: instant.Instant, now: instant.Instant, at_start: bool, want: float
) -> None:
    found = nodelock.age_s(lock("a", "b"), first_seen=first_seen, now=now, at_start=at_start)
    assert found == want


# --- texts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "want_owner"),
    [
        pytest.param(f"{TEXT},ns,holder", "ns/holder", id="a holder"),
        pytest.param(TEXT, "an unknown holder", id="time alone"),
        pytest.param(None, "an unknown holder", id="no value"),
    ],
)
def test_contention_names_node_limit_and_holder(value: str | None, want_owner: str) -> None:
    assert nodelock.contention("n1", value, 300.0) == (
        f"node n1 has been locked within 5m0s by {want_owner}: node lock contention"
    )


@pytest.mark.parametrize(
    ("seconds", "want"), [(28, "28s"), (120, "2m0s"), (300, "5m0s"), (3725, "1h2m5s"), (0, "0s")]
)
def test_durations_are_written_as_go_does(seconds: float, want: str) -> None:
    assert nodelock.go_duration(seconds) == want


# --- the shared lock -------------------------------------------------------------------------

CLAIM = nodelock.Claim(namespace="ns", name="me", uid="uid-me", created=NOON)
FREE = nodelock.Facts(value=None, node="n1", claim=CLAIM)
OTHER = f"{TEXT},ns,holder"
OURS = f"{TEXT},ns,me"


def holder(**facts: Any) -> nodelock.Holder:
    usual: dict[str, Any] = {
        "uid": "uid-holder",
        "created": NOON,
        "node_name": "n1",
        "phase": "Pending",
        "bind_phase": Phase.ALLOCATING,
        "unserved": True,
    }
    return nodelock.Holder(**(usual | facts))


def facts(value: str | None, **known: Any) -> nodelock.Facts:
    return dataclasses.replace(FREE, value=value, **known)


LATER = NOON + datetime.timedelta(seconds=61)
SOON = NOON + datetime.timedelta(seconds=60)


@pytest.mark.parametrize(
    ("given_facts", "want_row", "want_fresh", "want_expired"),
    [
        pytest.param(facts(None), 1, Verdict.SET, Verdict.SET, id="1 absent"),
        pytest.param(facts("lock"), 2, Verdict.REPLACE, Verdict.REPLACE, id="2 unreadable"),
        pytest.param(
            facts(OURS, set_for="uid-me"), 3, Verdict.OWN, Verdict.RENEW, id="3 set by us"
        ),
        pytest.param(facts(OURS), 3, Verdict.OWN, Verdict.RENEW, id="3 ours by name"),
        pytest.param(
            facts(OURS, claim=dataclasses.replace(CLAIM, created=SOON)),
            3,
            Verdict.OWN,
            Verdict.RENEW,
            id="3 a minute before our pod is still ours",
        ),
        pytest.param(
            facts(OURS, claim=dataclasses.replace(CLAIM, created=None)),
            3,
            Verdict.OWN,
            Verdict.RENEW,
            id="3 nothing says that it is older",
        ),
        pytest.param(
            facts(OURS, set_for="uid-before"),
            4,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="4 set by us for an earlier pod of our name",
        ),
        pytest.param(
            facts(OURS, claim=dataclasses.replace(CLAIM, created=LATER)),
            4,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="4 older than our pod",
        ),
        pytest.param(facts(TEXT), 5, Verdict.WAIT, Verdict.REPLACE, id="5 time alone"),
        pytest.param(facts(f"{TEXT},,"), 5, Verdict.WAIT, Verdict.REPLACE, id="5 empty names"),
        pytest.param(facts(OTHER), 6, Verdict.ASK, Verdict.ASK, id="6 holder not in the cache"),
        pytest.param(
            facts(OTHER, holder=Trace.GONE),
            6,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="6 holder does not exist",
        ),
        pytest.param(
            facts(OTHER, holder=holder(created=LATER)),
            8,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="8 holder is a later pod of that name",
        ),
        pytest.param(
            facts(OTHER, holder=holder(), set_for="uid-before"),
            8,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="8 set by us for an earlier pod of that name",
        ),
        pytest.param(
            facts(OTHER, holder=holder(phase="Running")),
            9,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="9 holder runs",
        ),
        pytest.param(
            facts(OTHER, holder=holder(phase="Failed")),
            9,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="9 holder has ended",
        ),
        pytest.param(
            facts(OTHER, holder=holder(node_name="n2")),
            9,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="9 holder is bound elsewhere",
        ),
        pytest.param(
            facts(OTHER, holder=holder(bind_phase=Phase.FAILED)),
            9,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="10 allocation failed",
        ),
        pytest.param(
            facts(OTHER, holder=holder(bind_phase=Phase.SUCCESS, unserved=False)),
            9,
            Verdict.REPLACE,
            Verdict.REPLACE,
            id="10 all is served",
        ),
        pytest.param(
            facts(OTHER, holder=holder(bind_phase=Phase.SUCCESS)),
            11,
            Verdict.WAIT,
            Verdict.WAIT,
            id="11 one type is served, another is not",
        ),
        pytest.param(
            facts(OTHER, holder=holder()), 11, Verdict.WAIT, Verdict.WAIT, id="11 being served"
        ),
        pytest.param(
            facts(OTHER, holder=holder(bind_phase=Phase.UNKNOWN, unserved=False)),
            11,
            Verdict.WAIT,
            Verdict.WAIT,
            id="11 a phase that nobody knows",
        ),
        pytest.param(
            facts(OTHER, holder=holder(node_name="")),
            12,
            Verdict.WAIT,
            Verdict.REPLACE,
            id="12 holder is not bound",
        ),
        pytest.param(
            facts(OTHER, holder=holder(node_name=""), bind_in_flight=True),
            12,
            Verdict.WAIT,
            Verdict.WAIT,
            id="12 our own bind of the holder is under way",
        ),
    ],
)
def test_each_row_of_the_shared_lock(
    given_facts: nodelock.Facts, want_row: int, want_fresh: Verdict, want_expired: Verdict
) -> None:
    fresh = nodelock.judge(given_facts)
    expired = nodelock.judge(dataclasses.replace(given_facts, expired=True))

    assert (fresh.row, fresh.verdict) == (want_row, want_fresh)
    assert (expired.row, expired.verdict) == (want_row, want_expired)
    assert not fresh.overdue
    assert expired.overdue == (want_expired is Verdict.WAIT)


@pytest.mark.parametrize(
    ("given_facts", "want"),
    [
        pytest.param(facts("lock"), "its value cannot be read", id="unreadable"),
        pytest.param(
            facts(TEXT, expired=True), "it names no holder and has expired", id="nobody's"
        ),
        pytest.param(
            facts(OTHER, holder=holder(node_name=""), expired=True),
            "its holder was not bound in time",
            id="not bound",
        ),
        pytest.param(facts(OTHER, holder=Trace.GONE), None, id="a dead holder is no news"),
        pytest.param(facts(TEXT), None, id="a lock that stays"),
        pytest.param(facts(None), None, id="a free lock"),
    ],
)
def test_a_lock_that_others_may_miss_is_taken_with_a_reason(
    given_facts: nodelock.Facts, want: str | None
) -> None:
    assert nodelock.judge(given_facts).takeover_reason == want


def test_a_table_without_a_matching_row_is_an_error() -> None:
    with pytest.raises(LookupError):
        nodelock.judge(FREE, table=())
    with pytest.raises(LookupError):
        nodelock.release(FREE, table=())


@pytest.mark.parametrize(
    ("given_facts", "want"),
    [
        pytest.param(facts(None), Release.DONE, id="absent"),
        pytest.param(facts(OURS), Release.REMOVE, id="ours by name"),
        pytest.param(facts(OURS, set_for="uid-me"), Release.REMOVE, id="set by us"),
        pytest.param(facts(OURS, set_for="uid-next"), Release.LEAVE, id="our name, another pod"),
        pytest.param(facts(TEXT), Release.REMOVE, id="time alone"),
        pytest.param(facts(OTHER), Release.LEAVE, id="another holder"),
        pytest.param(facts("lock"), Release.LEAVE, id="unreadable"),
    ],
)
def test_releasing_the_shared_lock(given_facts: nodelock.Facts, want: Release) -> None:
    assert nodelock.release(given_facts) is want


# --- a vendor's own lock ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_facts", "want_fresh", "want_expired"),
    [
        pytest.param(facts(None), Verdict.SET, Verdict.SET, id="absent"),
        pytest.param(facts("lock"), Verdict.REPLACE, Verdict.REPLACE, id="unreadable"),
        pytest.param(facts(TEXT, set_for="uid-me"), Verdict.OWN, Verdict.RENEW, id="ours"),
        pytest.param(facts(TEXT), Verdict.WAIT, Verdict.REPLACE, id="somebody's"),
        pytest.param(
            facts(TEXT, set_for="uid-holder"),
            Verdict.WAIT,
            Verdict.ASK,
            id="set by us, for a pod that is not in the cache",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=Trace.GONE),
            Verdict.WAIT,
            Verdict.REPLACE,
            id="set by us, for a pod that is gone",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=holder()),
            Verdict.WAIT,
            Verdict.WAIT,
            id="set by us, for a pod that still waits",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=holder(phase="Running")),
            Verdict.WAIT,
            Verdict.REPLACE,
            id="set by us, for a pod that runs",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=holder(node_name="")),
            Verdict.WAIT,
            Verdict.REPLACE,
            id="set by us, for a pod that was never bound",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=holder(node_name=""), bind_in_flight=True),
            Verdict.WAIT,
            Verdict.WAIT,
            id="set by us, for a pod that is being bound",
        ),
        pytest.param(
            facts(TEXT, set_for="uid-holder", holder=holder(uid="uid-next")),
            Verdict.WAIT,
            Verdict.REPLACE,
            id="set by us, for an earlier pod",
        ),
    ],
)
def test_each_row_of_a_lock_without_owner(
    given_facts: nodelock.Facts, want_fresh: Verdict, want_expired: Verdict
) -> None:
    expired = dataclasses.replace(given_facts, expired=True)
    assert nodelock.judge(given_facts, nodelock.OWNERLESS).verdict is want_fresh
    assert nodelock.judge(expired, nodelock.OWNERLESS).verdict is want_expired


@pytest.mark.parametrize(
    ("given_facts", "want"),
    [
        pytest.param(facts(None), Release.DONE, id="absent"),
        pytest.param(facts(TEXT, set_for="uid-me"), Release.REMOVE, id="set for this pod"),
        pytest.param(facts(TEXT, set_for="uid-holder"), Release.LEAVE, id="set for another"),
        pytest.param(facts(TEXT), Release.LEAVE, id="not set by us"),
    ],
)
def test_releasing_a_lock_without_owner(given_facts: nodelock.Facts, want: Release) -> None:
    assert nodelock.release(given_facts, nodelock.OWNERLESS_RELEASES) is want
