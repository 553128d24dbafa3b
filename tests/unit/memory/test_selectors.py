"""Selectors: what they say, what they match, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from hami_operator.cluster.memory import refusals, resources, selectors

LABELS = {"a": "1", "b": "2", "empty": ""}


def obj(**changes: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "labels": LABELS}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {}, **changes}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", True, id="nothing asked"),
        pytest.param("a=1", True, id="equal"),
        pytest.param("a==1", True, id="equal, written twice"),
        pytest.param("a=2", False, id="another value"),
        pytest.param("x=1", False, id="an absent key is not equal"),
        pytest.param("a!=2", True, id="not equal"),
        pytest.param("a!=1", False, id="equal, but should not be"),
        pytest.param("x!=1", True, id="an absent key differs"),
        pytest.param("a in (1, 3)", True, id="one of"),
        pytest.param("a in (3,4)", False, id="none of"),
        pytest.param("a notin (3,4)", True, id="outside"),
        pytest.param("a notin (1)", False, id="not outside"),
        pytest.param("x notin (1)", True, id="an absent key is outside"),
        pytest.param("a", True, id="exists"),
        pytest.param("x", False, id="does not exist, but should"),
        pytest.param("!x", True, id="does not exist"),
        pytest.param("!a", False, id="exists, but should not"),
        pytest.param("a=1,b=2", True, id="both hold"),
        pytest.param("a=1,b=3", False, id="one does not hold"),
        pytest.param("a=1,b in (2,3),!x", True, id="commas inside brackets do not split"),
        pytest.param("empty=", True, id="the empty value"),
        pytest.param("empty in (,1)", True, id="the empty value among others"),
        pytest.param("a>0", True, id="greater"),
        pytest.param("a>1", False, id="not greater"),
        pytest.param("a<2", True, id="less"),
        pytest.param("x<2", False, id="an absent key is not less"),
        pytest.param("empty>0", False, id="a text is not greater"),
        pytest.param("example.com/a_b-c", False, id="a key with a prefix"),
    ],
)
def test_label_selectors(text: str, want: bool) -> None:
    selector = selectors.parse(resources.PODS, labels=text)
    assert selector.matches(obj()) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a in b", "found 'b' expected: '('", id="no bracket"),
        pytest.param("a in (b", "found '' expected: ',' or ')'", id="an open bracket"),
        pytest.param("a=b=c", "found '=', expected: ',' or 'end of string'", id="two values"),
        pytest.param("=b", "found '=' expected: identifier", id="no key"),
        pytest.param("a b", "found 'b' expected: in, notin", id="no operator"),
        pytest.param("a>b", "found 'b' expected: an integer", id="greater than a text"),
        pytest.param("a,,b", "found ',' expected: identifier", id="an empty part"),
        pytest.param("!", "found '' expected: identifier", id="not, and nothing"),
    ],
)
def test_unreadable_label_selectors(text: str, want: str) -> None:
    with pytest.raises(refusals.Refused) as caught:
        selectors.parse_labels(text)
    assert caught.value.code == 400
    assert want in caught.value.message


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("metadata.name=p", True, id="the name"),
        pytest.param("metadata.namespace!=ns", False, id="not the namespace"),
        pytest.param("spec.nodeName=n1", True, id="the node"),
        pytest.param("spec.nodeName==n1", True, id="the node, written twice"),
        pytest.param("spec.nodeName=", False, id="no node"),
        pytest.param("spec.schedulerName=", True, id="an absent field is empty"),
        pytest.param("status.phase!=Failed,status.phase!=Succeeded", True, id="not ended"),
        pytest.param("spec.nodeName=n1,status.phase=Running", False, id="one does not hold"),
        pytest.param("spec.hostNetwork=false", True, id="an absent truth value is false"),
    ],
)
def test_field_selectors(text: str, want: bool) -> None:
    selector = selectors.parse(resources.PODS, fields=text)
    assert selector.matches(obj()) is want


def test_a_truth_value_is_compared_as_text() -> None:
    selector = selectors.parse(resources.NODES, fields="spec.unschedulable=true")
    assert selector.matches(obj(spec={"unschedulable": True}))
    assert not selector.matches(obj(spec={}))


@pytest.mark.parametrize(
    ("resource", "text", "want"),
    [
        pytest.param("pods", "spec.foo=1", "field label not supported: spec.foo", id="pods"),
        pytest.param("nodes", "spec.nodeName=1", "field label not supported", id="nodes"),
        pytest.param(
            "leases",
            "spec.holderIdentity=1",
            '"spec.holderIdentity" is not a known field selector: only "metadata.name"',
            id="a kind without own fields",
        ),
        pytest.param("pods", "a", "invalid selector: 'a'; can't understand 'a'", id="no value"),
    ],
)
def test_unknown_fields(resource: str, text: str, want: str) -> None:
    with pytest.raises(refusals.Refused) as caught:
        selectors.parse(resources.find(resource), fields=text)
    assert caught.value.code == 400
    assert want in caught.value.message


def test_a_namespace_is_part_of_the_selection() -> None:
    inside = selectors.parse(resources.PODS, namespace="ns")
    outside = selectors.parse(resources.PODS, namespace="other")
    assert (inside.matches(obj()), outside.matches(obj())) == (True, False)


def test_no_condition_is_the_selector_of_everything() -> None:
    assert selectors.parse(resources.PODS) is selectors.ALL


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(None, True, id="none selects everything"),
        pytest.param({}, True, id="an empty one selects everything"),
        pytest.param({"matchLabels": {"a": "1"}}, True, id="a label"),
        pytest.param({"matchLabels": {"a": "2"}}, False, id="another value"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]},
            True,
            id="an expression",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True, id="absent"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Odd"}]},
            False,
            id="an unknown operator matches nothing",
        ),
    ],
)
def test_selector_objects(selector: dict[str, Any] | None, want: bool) -> None:
    requirements = selectors.from_object(selector)
    assert all(requirement.matches(LABELS) for requirement in requirements) is want
