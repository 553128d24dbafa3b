"""What pods say about each other: affinity, anti-affinity and spreading."""

from __future__ import annotations

from typing import Final

from tests.differential import chance, fleet

Raw = chance.Raw

APPS: Final = ("web", "db", "cache")
TOPOLOGIES: Final = (fleet.ZONE, fleet.ZONE, fleet.HOST, fleet.HOST, fleet.RACK, fleet.REGION)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def labels(dice: chance.Dice) -> Raw:
    """Labels of a pod; few values, so that pods have to do with each other."""
    made = {"app": dice.pick(APPS)}
    if dice.chance(60):
        made["track"] = dice.pick(("stable", "canary"))
    if dice.chance(40):
        made["pod-template-hash"] = dice.pick(("h1", "h2"))
    return made


def put_affinity(dice: chance.Dice, spec: Raw, own: Raw, *, pending: bool) -> None:
    """Give a pod with these labels terms about others."""
    affinity = spec.setdefault("affinity", {})
    near: Raw = {}
    far: Raw = {}
    if dice.chance(45 if pending else 12):
        near[REQUIRED] = [_term(dice, own) for _ in range(dice.pick((1, 1, 1, 2)))]
    if dice.chance(45):
        far[REQUIRED] = [_term(dice, own) for _ in range(dice.pick((1, 1, 2)))]
    if dice.chance(30):
        near[PREFERRED] = [_weighted(dice, own) for _ in range(dice.number(1, 2))]
    if dice.chance(30):
        far[PREFERRED] = [_weighted(dice, own) for _ in range(dice.number(1, 2))]
    if near:
        affinity["podAffinity"] = near
    if far:
        affinity["podAntiAffinity"] = far
    if not affinity:
        del spec["affinity"]


def put_spread(dice: chance.Dice, spec: Raw, own: Raw) -> None:
    """Give a pod with these labels constraints; the API server takes each kind once a key."""
    made: dict[tuple[str, str], Raw] = {}
    for _ in range(dice.pick((1, 1, 2, 3))):
        one = _constraint(dice, own)
        made.setdefault((one["topologyKey"], one["whenUnsatisfiable"]), one)
    spec["topologySpreadConstraints"] = list(made.values())


def _weighted(dice: chance.Dice, own: Raw) -> Raw:
    return {"weight": dice.pick((1, 10, 100)), "podAffinityTerm": _term(dice, own)}


def _term(dice: chance.Dice, own: Raw) -> Raw:
    made: Raw = {"topologyKey": dice.pick(TOPOLOGIES)}
    selector = _selector(dice)
    if selector is not None:
        made["labelSelector"] = selector
    if dice.chance(25):
        made["namespaces"] = dice.some(("default", "red", "blue"), 1, 2)
    if dice.chance(25):
        made["namespaceSelector"] = dice.pick(_OF_NAMESPACES)
    if selector is not None and dice.chance(15):
        _merge(made, dice.pick(_KEYS), own)
    return made


_OF_NAMESPACES: Final[tuple[Raw, ...]] = (
    {},
    {"matchLabels": {"team": "red"}},
    {"matchExpressions": [chance.requirement("team", "Exists")]},
    {"matchExpressions": [chance.requirement("tier", "NotIn", "base")]},
    {"matchLabels": {"team": "nobody"}},
)
_KEYS: Final = (
    ("matchLabelKeys", "In"),
    ("mismatchLabelKeys", "NotIn"),
)
MERGED: Final = "pod-template-hash"
"""The label of matchLabelKeys; selectors name it only where the API server has merged it."""


def _merge(made: Raw, which: tuple[str, str], own: Raw) -> None:
    """As the API server does: the selector gets the pod's own value of the key."""
    field, operator = which
    made[field] = [MERGED]
    if MERGED in own:
        selector = made["labelSelector"]
        merged = chance.requirement(MERGED, operator, own[MERGED])
        expressions = [*selector.get("matchExpressions", ()), merged]
        made["labelSelector"] = {**selector, "matchExpressions": expressions}


def _selector(dice: chance.Dice) -> Raw | None:
    if dice.chance(4):
        return None
    if dice.chance(5):
        return {}
    if dice.chance(65):
        return {"matchLabels": {"app": dice.pick(APPS)}}
    made: Raw = {"matchExpressions": [dice.pick(_EXPRESSIONS)]}
    if dice.chance(40):
        made["matchLabels"] = {"app": dice.pick(APPS)}
    return made


_EXPRESSIONS: Final[tuple[Raw, ...]] = (
    chance.requirement("app", "In", "web", "db"),
    chance.requirement("app", "NotIn", "web"),
    chance.requirement("track", "Exists"),
    chance.requirement("track", "DoesNotExist"),
    chance.requirement("track", "NotIn", "canary"),
)


def _constraint(dice: chance.Dice, own: Raw) -> Raw:
    made: Raw = {
        "maxSkew": dice.pick((1, 1, 1, 2, 3)),
        "topologyKey": dice.pick(TOPOLOGIES),
        "whenUnsatisfiable": dice.pick(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "nodeAffinityPolicy": dice.pick(("Honor", "Honor", "Ignore")),
        "nodeTaintsPolicy": dice.pick(("Ignore", "Ignore", "Honor")),
    }
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(40):
            del made[field]
    if dice.chance(70) and dice.chance(70):
        made["labelSelector"] = {"matchLabels": {"app": own["app"]}}
    else:
        selector = _selector(dice)
        if selector is not None:
            made["labelSelector"] = selector
    if made["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(20):
        made["minDomains"] = dice.number(1, 4)
    if "labelSelector" in made and dice.chance(20):
        _merge(made, _KEYS[0], own)
    return made
