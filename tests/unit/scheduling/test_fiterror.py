"""The text that says why no node took a pod."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.scheduling import fiterror
from hami_operator.scheduling.rejection import Rejection


def rejected(*texts: str) -> Rejection:
    return Rejection(plugin="Any", texts=texts, resolvable=True)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param((0, {}), "0/0 nodes are available:", id="nothing known"),
        pytest.param(
            (12, {f"n{index}": rejected("Too many pods") for index in range(10)}, None),
            "0/12 nodes are available: 10 Too many pods.",
            id="nodes that were not looked at count in the total",
        ),
        pytest.param(
            (11, {f"n{i}": rejected("a" if i < 10 else "b") for i in range(11)}),
            "0/11 nodes are available: 1 b, 10 a.",
            id="sorted as text, not as numbers",
        ),
        pytest.param(
            (1, {"n": rejected("x", "y")}),
            "0/1 nodes are available: 1 x, 1 y.",
            id="several texts of one node",
        ),
        pytest.param(
            (3, {"n": rejected("x")}, "all of it is wrong"),
            "0/3 nodes are available: all of it is wrong.",
            id="what rejects on all nodes replaces the counts",
        ),
    ],
)
def test_message(arguments: tuple[Any, ...], want: str) -> None:
    assert fiterror.message(*arguments) == want


def test_preemption_speaks_last() -> None:
    text = fiterror.message(1, {"n": rejected("x")}, post_filter="preemption: not helpful.")
    assert text == "0/1 nodes are available: 1 x. preemption: not helpful."


@pytest.mark.parametrize(
    ("all_nodes", "want"),
    [
        pytest.param(5, "0/5 nodes are available: 1 x, 4 not asked.", id="four were not asked"),
        pytest.param(1, "0/1 nodes are available: 1 x.", id="all were asked"),
    ],
)
def test_nodes_that_were_not_asked(all_nodes: int, want: str) -> None:
    text = fiterror.message(all_nodes, {"n": rejected("x")}, absent=rejected("not asked"))
    assert text == want
