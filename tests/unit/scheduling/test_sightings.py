"""Pods as they were last seen: late and repeated news is none."""

from __future__ import annotations

import pytest

from hami_operator.scheduling import sightings
from tests import builders

BASE = builders.pod("a").version(5)


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param(BASE, False, id="the same again"),
        pytest.param(BASE.version(4).label("x"), False, id="an older version"),
        pytest.param(BASE.version(6), True, id="a newer version"),
        pytest.param(BASE.label("x"), True, id="the same version, but another object"),
        pytest.param(BASE.version("").label("x"), True, id="a version that is no number"),
        pytest.param(BASE.uid("other"), True, id="another pod of that name"),
    ],
)
def test_what_is_news(seen: builders.PodBuilder, want: bool) -> None:
    seen_so_far = sightings.Sightings()
    assert seen_so_far.see(BASE.read()) == sightings.Sighting(before=None, news=True)
    assert seen_so_far.see(seen.read()).news is want


def test_the_latest_pod_of_a_name_is_the_one_that_the_name_means() -> None:
    seen = sightings.Sightings()
    old, new = BASE.read(), BASE.uid("new").read()
    seen.see(old)
    seen.see(new)
    assert seen.named("default", "a") == new
    assert seen.end("uid-a") == old
    assert seen.named("default", "a") == new
    seen.end("new")
    assert (seen.named("default", "a"), seen.all(), len(seen)) == (None, (), 0)


def test_a_pod_that_has_ended_never_comes_back() -> None:
    seen = sightings.Sightings()
    seen.see(BASE.read())
    seen.end("uid-a")
    assert seen.see(BASE.version(99).read()) == sightings.Sighting(before=None, news=False)
    assert seen.get("uid-a") is None


def test_the_memory_of_ended_pods_is_bounded() -> None:
    seen = sightings.Sightings(remembered=2)
    for name in ("a", "b", "c"):
        assert seen.end(f"uid-{name}") is None
    assert seen.see(BASE.read()).news
    assert not seen.see(builders.pod("b").read()).news
