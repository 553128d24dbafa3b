"""Handshake values, and what the next tick does about them."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_operator.protocol import handshake

Kind = handshake.Kind


def utc(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=datetime.UTC)  # type: ignore[arg-type,misc]  # parts of a date


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(None, Kind.ABSENT, id="no annotation"),
        pytest.param("Requesting_2026.02.01 08:15:30", Kind.REQUESTING, id="dots"),
        pytest.param("Requesting_2026-02-01 08:15:30", Kind.REQUESTING, id="dashes"),
        pytest.param("Requesting_2026.02-01 08:15:30", Kind.UNREADABLE, id="dots and dashes"),
        pytest.param("Requesting", Kind.UNREADABLE, id="no time"),
        pytest.param("Requesting_", Kind.UNREADABLE, id="an empty time"),
        pytest.param("Requesting_not-a-timestamp", Kind.UNREADABLE, id="another text"),
        pytest.param("Requesting_2026.13.01 08:15:30", Kind.UNREADABLE, id="month 13"),
        pytest.param("Requesting_0000.01.01 00:00:00", Kind.UNREADABLE, id="year 0"),
        pytest.param("Requesting_2026.02.01 08:15:30 ", Kind.UNREADABLE, id="a blank behind"),
        pytest.param("Requesting_2026.02.01T08:15:30", Kind.UNREADABLE, id="a T between"),
        pytest.param("Deleted_2026.02.01 08:15:30", Kind.TOMBSTONE, id="tombstone"),
        pytest.param("Deleted", Kind.TOMBSTONE, id="bare tombstone"),
        pytest.param("Reported 2024-01-23 04:30:04.43 +0000 UTC m=+1.7", Kind.ANSWER, id="answer"),
        pytest.param("Reported_2026.02.01 08:15:30", Kind.ANSWER, id="answer with underscore"),
        pytest.param("Unknown", Kind.ANSWER, id="any other word"),
        pytest.param("", Kind.ANSWER, id="an empty text is somebody's"),
        pytest.param("requesting_2026.02.01 08:15:30", Kind.ANSWER, id="case matters"),
    ],
)
def test_what_a_value_says(value: str | None, want: Kind) -> None:
    assert handshake.classify(value) is want


@pytest.mark.parametrize("kind", Kind)
def test_exactly_a_readable_question_is_left_alone_and_can_expire(kind: Kind) -> None:
    waiting = kind is Kind.REQUESTING
    assert handshake.TRANSITIONS[kind] == handshake.Transition(ask=not waiting, can_expire=waiting)


@pytest.mark.parametrize(
    "value", ["Requesting_2026.02.01 08:15:30", "Requesting_2026-02-01 08:15:30"]
)
def test_the_time_of_a_question_is_read_as_utc(value: str) -> None:
    assert handshake.requested_at(value) == utc(2026, 2, 1, 8, 15, 30)


@pytest.mark.parametrize("value", [None, "Reported_2026.02.01 08:15:30", "Requesting"])
def test_other_values_have_no_time(value: str | None) -> None:
    assert handshake.requested_at(value) is None


def test_a_question_is_written_in_utc_whatever_the_zone_of_the_clock() -> None:
    east = datetime.timezone(datetime.timedelta(hours=9))
    wall = datetime.datetime(2026, 2, 1, 17, 15, 30, 999_999, tzinfo=east)
    assert handshake.encode(wall) == "Requesting_2026.02.01 08:15:30"


def test_a_clock_far_in_the_past_is_written_with_four_digits() -> None:
    assert handshake.encode(utc(7, 1, 2)) == "Requesting_0007.01.02 00:00:00"


@given(st.datetimes(timezones=st.just(datetime.UTC)))
def test_reading_undoes_writing(wall: datetime.datetime) -> None:
    value = handshake.encode(wall)
    assert handshake.classify(value) is Kind.REQUESTING
    assert handshake.requested_at(value) == wall.replace(microsecond=0)


@given(st.text(max_size=40) | st.text(max_size=40).map("Requesting_".__add__))
def test_any_text_has_a_kind_with_a_transition(value: str) -> None:
    assert handshake.classify(value) in handshake.TRANSITIONS
