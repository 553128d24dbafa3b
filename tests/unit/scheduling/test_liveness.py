"""Ages of handshake values: what expires, what is asked, and what moves an age."""

from __future__ import annotations

import pytest

from hami_operator.scheduling import liveness
from tests.moments import asked, at

TIMEOUT_S = 300.0


def expired(signs: liveness.Liveness, seconds: float, *, jump_s: float = 0.0) -> bool:
    return signs.expired("n1", "NVIDIA", TIMEOUT_S, at(seconds, jump_s=jump_s))


def seen(value: str | None, *, at_start: bool = False, seconds: float = 0) -> liveness.Liveness:
    signs = liveness.Liveness()
    signs.see("n1", "NVIDIA", value, at(seconds), at_start=at_start)
    return signs


@pytest.mark.parametrize(
    ("value", "want_ask", "want_expired"),
    [
        pytest.param(None, True, False, id="nobody asked yet"),
        pytest.param("", True, False, id="an empty value is an answer like any other text"),
        pytest.param(asked(0), False, True, id="a readable question is never asked again"),
        pytest.param("Requesting_2026-03-01 12:00:00", False, True, id="dashes are read too"),
        pytest.param("Requesting", True, False, id="a question without a time"),
        pytest.param("Requesting_", True, False, id="a question with an empty time"),
        pytest.param("Requesting_notadate", True, False, id="a question with no date"),
        pytest.param("Requesting_2026.13.01 00:00:00", True, False, id="a month that is none"),
        pytest.param("Deleted_2026-05-07 10:00:00", True, False, id="a tombstone"),
        pytest.param("Deleted", True, False, id="a bare tombstone"),
        pytest.param("Reported 2024-01-23 04:30:04 m=+1.7", True, False, id="an answer"),
        pytest.param("Reported_x", True, False, id="an answer with an underscore"),
        pytest.param("Unknown", True, False, id="any other text is an answer"),
    ],
)
def test_what_a_value_leads_to(value: str | None, want_ask: bool, want_expired: bool) -> None:
    signs = seen(value)
    assert signs.must_ask("n1", "NVIDIA") is want_ask
    assert expired(signs, 10 * TIMEOUT_S) is want_expired


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(0, False, id="at once"),
        pytest.param(300, False, id="exactly the time-out is not yet too long"),
        pytest.param(300.1, True, id="longer than the time-out"),
    ],
)
def test_a_question_expires_by_our_clock_since_we_saw_it(seconds: float, want: bool) -> None:
    assert expired(seen(asked(-3600)), seconds) is want


@pytest.mark.parametrize(
    ("value", "last_good_s"),
    [
        pytest.param(asked(-240), 60, id="four minutes old at start: one minute is left"),
        pytest.param("Requesting_2026-03-01 11:56:00", 60, id="the same with dashes"),
        pytest.param(asked(8 * 3600), 300, id="eight hours ahead counts as just written"),
        pytest.param("Reported 2020", 9000, id="an answer has no age that could expire"),
    ],
)
def test_at_start_the_time_in_the_value_counts(value: str, last_good_s: float) -> None:
    signs = seen(value, at_start=True)
    assert not expired(signs, last_good_s)
    assert expired(signs, last_good_s + 1) is value.startswith("Requesting")


def test_a_question_older_than_the_time_out_at_start_has_expired_at_once() -> None:
    assert expired(seen(asked(-360), at_start=True), 0)


@pytest.mark.parametrize("jump_s", [-3600, 3600])
def test_a_jump_of_the_wall_clock_moves_no_age(jump_s: float) -> None:
    signs = seen(asked(-60), at_start=True)
    assert not expired(signs, 240, jump_s=jump_s)
    assert expired(signs, 241, jump_s=jump_s)


def test_seeing_the_same_value_again_keeps_its_age() -> None:
    signs = seen(asked(0))
    signs.see("n1", "NVIDIA", asked(0), at(200), at_start=True)
    assert signs.age_s("n1", "NVIDIA", at(200)) == 200
    assert expired(signs, 301)


def test_another_value_begins_a_new_age() -> None:
    signs = seen(asked(0))
    signs.see("n1", "NVIDIA", "Reported", at(200), at_start=False)
    signs.see("n1", "NVIDIA", asked(200), at(201), at_start=False)
    assert not expired(signs, 501)
    assert expired(signs, 502)


def test_a_restart_takes_ages_from_the_values_themselves() -> None:
    signs = seen(asked(-100), seconds=0)
    signs.restart(at(50))
    assert signs.age_s("n1", "NVIDIA", at(50)) == 150
    signs.restart(at(60, jump_s=-7200))
    assert signs.age_s("n1", "NVIDIA", at(60)) == 0


def test_one_word_and_one_node_never_affect_another() -> None:
    signs = seen(asked(0))
    signs.see("n1", "MLU", "Reported", at(0), at_start=False)
    signs.see("n2", "NVIDIA", asked(0), at(100), at_start=False)
    late = at(350)
    assert signs.expired("n1", "NVIDIA", TIMEOUT_S, late)
    assert not signs.expired("n1", "MLU", TIMEOUT_S, late)
    assert not signs.expired("n2", "NVIDIA", TIMEOUT_S, late)


@pytest.mark.parametrize("word", [None, "NVIDIA"])
def test_what_is_forgotten_has_no_age(word: str | None) -> None:
    signs = seen(asked(0))
    signs.forget("n1", word)
    signs.forget("n1", word)
    assert signs.age_s("n1", "NVIDIA", at(1)) is None
    assert not expired(signs, 1000)
    assert not signs.must_ask("n1", "NVIDIA")
