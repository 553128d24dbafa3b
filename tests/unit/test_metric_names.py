"""Every metric that some code counts is in the table, with exactly the labels of the table."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

import hami_operator
from hami_operator.server import families

PACKAGE = pathlib.Path(hami_operator.__file__).parent
TABLE = {family.name: family for family in families.FAMILIES}


def uses() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Where, which name, which labels; of every call that names one of our metrics."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in {"count", "observe", "gauge"} or not node.args:
                continue
            first = node.args[0]
            if isinstance(first, ast.Constant) and str(first.value).startswith("hami_"):
                if any(word.arg is None for word in node.keywords):
                    continue  # given as one mapping: checked where that is built
                labels = frozenset(word.arg for word in node.keywords if word.arg)
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", str(first.value), labels


@pytest.mark.parametrize(
    ("where", "name", "labels"), [pytest.param(*use, id=use[0]) for use in uses()]
)
def test_a_counted_metric_is_in_the_table(where: str, name: str, labels: frozenset[str]) -> None:
    assert name in TABLE, where
    assert labels == set(TABLE[name].labels), where


def test_metrics_are_counted_at_all() -> None:
    assert len(list(uses())) > 15
