"""What a pod says about nodes: tolerations, selector, node affinity."""

from __future__ import annotations

from typing import Final

from tests.differential import chance, fleet

Raw = chance.Raw

READINESS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
VALUES: Final = {
    fleet.ARCH: ("amd64", "arm64"),
    fleet.ZONE: fleet.ZONES,
    fleet.REGION: ("r1", "r2"),
    fleet.DISK: ("ssd", "hdd", "tape"),
    fleet.RACK: ("a", "b"),
    fleet.CPUS: ("4", "8", "many", ""),
}
OPERATORS: Final = ("In", "In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def put(dice: chance.Dice, spec: Raw, names: list[str]) -> None:
    """Give a pending pod what it says about nodes."""
    tolerations = _tolerations(dice)
    spec["tolerations"] = [*tolerations, *default_tolerations(tolerations)]
    if dice.about("affinity", 35, 6):
        keys = dice.some(list(VALUES)[:5], 1, 2)
        spec["nodeSelector"] = {key: dice.pick(VALUES[key][:2]) for key in keys}
    required = dice.about("affinity", 80, 10)
    preferred = dice.about("affinity", 40, 15)
    affinity: Raw = {}
    if required:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = _required(dice, names)
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": dice.pick((1, 7, 50, 100)),
                "preference": _term(dice, names, required=False),
            }
            for _ in range(dice.number(1, 3))
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def default_tolerations(known: list[Raw]) -> list[Raw]:
    """What admission adds where a pod says nothing about an unready node."""
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in READINESS
        if not any(_is_about(one, key) for one in known)
    ]


def _is_about(toleration: Raw, key: str) -> bool:
    of_key = toleration.get("key", key) == key
    return of_key and toleration.get("effect", "NoExecute") == "NoExecute"


def _tolerations(dice: chance.Dice) -> list[Raw]:
    made = []
    if dice.about("unschedulable", 25, 2):
        made.append(dice.pick(_OF_CORDONS))
    if dice.about("taints", 60, 15):
        made += [_toleration(dice) for _ in range(dice.number(1, 4))]
    if dice.about("taints", 4, 1):
        made.append({"operator": "Exists"})
    return made


_OF_CORDONS: Final[tuple[Raw, ...]] = (
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Equal", "value": "true"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute",
     "tolerationSeconds": 5},
)  # fmt: skip


def _toleration(dice: chance.Dice) -> Raw:
    made: Raw = {"key": dice.pick(fleet.TAINT_KEYS)}
    operator = dice.pick(("Exists", "Exists", "Equal", "Equal", ""))
    if operator:
        made["operator"] = operator
    if operator != "Exists":
        value = dice.pick(fleet.TAINT_VALUES)
        if value:
            made["value"] = value
    effect = dice.pick(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule", "", ""))
    if effect:
        made["effect"] = effect
    if effect == "NoExecute" and dice.chance(50):
        made["tolerationSeconds"] = 30
    return made


def _required(dice: chance.Dice, names: list[str]) -> Raw:
    terms = [_term(dice, names) for _ in range(dice.pick((1, 1, 2, 3)))]
    if dice.chance(6):
        terms.append({})
    return {"nodeSelectorTerms": terms}


def _term(dice: chance.Dice, names: list[str], *, required: bool = True) -> Raw:
    made: Raw = {}
    if dice.chance(88):
        made["matchExpressions"] = [
            _expression(dice, required=required or dice.chance(6))
            for _ in range(dice.pick((1, 1, 2)))
        ]
    if not made or dice.about("affinity", 15, 5):
        operator = dice.pick(("In", "In", "In", "NotIn"))
        names = [*names, "nowhere"]
        made["matchFields"] = [
            chance.requirement("metadata.name", operator, dice.pick(names))
            for _ in range(dice.pick((1, 1, 1, 1, 2)))
        ]
    return made


_BOUNDS: Final = ("4", "7", "0", "08", "15")
"""In preferences mostly such as can be read: kube-scheduler fails at the others."""


def _expression(dice: chance.Dice, *, required: bool) -> Raw:
    operator = dice.pick(OPERATORS)
    if operator in {"Gt", "Lt"}:
        key = dice.pick((fleet.CPUS, fleet.CPUS, fleet.DISK))
        return chance.requirement(
            key, operator, dice.pick(("4", "7", "0", "08", "15", "many") if required else _BOUNDS)
        )
    key = dice.pick(list(VALUES))
    if operator in {"Exists", "DoesNotExist"}:
        return chance.requirement(key, operator)
    return chance.requirement(key, operator, *dice.some(VALUES[key], 1, 2))
