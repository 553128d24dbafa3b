"""What pod and cluster prefer among nodes and among cards: policy words, chains and weights.

A pod chooses with annotations; a word that means nothing falls back to the setting, with a
warning, and never stops a pod. Bad weights do stop it: the user asked for something exact.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Final

from hami_operator.protocol import keys

BINPACK: Final = "binpack"
SPREAD: Final = "spread"
NUMA: Final = "numa"
MUTEX: Final = "mutex"
TOPOLOGY_AWARE: Final = "topology-aware"

NODE_WORDS: Final = (BINPACK, SPREAD)
CARD_WORDS: Final = (BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY_AWARE)

_INTEGER: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_INT32_MAX: Final = 2**31 - 1


class Criterion(enum.Enum):
    """One step in the order of cards; the first card is picked first."""

    HIGHEST_SCORE = enum.auto()
    LOWEST_SCORE = enum.auto()
    HIGHEST_NUMA = enum.auto()
    LOWEST_NUMA = enum.auto()
    FEWEST_USED = enum.auto()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CardPolicy:
    """How the cards of one node are ordered for one pod.

    Attributes:
        words: the known words in written order; ``mutex`` and ``topology-aware`` act in the fit.
        chain: the text was a comma list (or exactly ``numa``), so criteria act as written.
    """

    words: tuple[str, ...]
    chain: bool = False

    def criteria(self, *, numa_bind: bool) -> tuple[Criterion, ...]:
        """The steps of the order, most important first; ties end with index and id.

        Args:
            numa_bind: the pod wants all cards of a container on one NUMA node, so the order
                keeps the cards of a NUMA node together.
        """
        if self.chain:
            return _chain(self.words, numa_bind=numa_bind)
        return _SINGLE[self.words[0]][numa_bind]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Factors of the three parts of a card's score."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """Everything a pod may say about the choice of node and cards.

    Attributes:
        node: ``binpack`` or ``spread``.
        cards: order of cards.
        weights: factors of the card score.
        warnings: sentences about words that were not understood.
        error: why the pod cannot be placed until it changes; empty where it can.
    """

    node: str
    cards: CardPolicy
    weights: Weights
    warnings: tuple[str, ...] = ()
    error: str = ""


def read(annotations: Mapping[str, str], *, node_setting: str, card_setting: str) -> Preferences:
    """Read the three annotations of a pod, with the settings behind them."""
    node, node_warnings = node_policy(annotations.get(keys.NODE_POLICY), setting=node_setting)
    cards, card_warnings = card_policy(annotations.get(keys.GPU_POLICY), setting=card_setting)
    chosen = weights(annotations.get(keys.SCORING_WEIGHTS))
    return Preferences(
        node=node,
        cards=cards,
        weights=chosen if isinstance(chosen, Weights) else Weights(),
        warnings=(*node_warnings, *card_warnings),
        error=chosen if isinstance(chosen, str) else "",
    )


def node_policy(text: str | None, *, setting: str) -> tuple[str, tuple[str, ...]]:
    """``binpack`` or ``spread``, with warnings; an unknown word gives the setting."""
    if text is None:
        return setting, ()
    word = text.strip()
    if word in NODE_WORDS:
        return word, ()
    return setting, (_unknown(keys.NODE_POLICY, word, NODE_WORDS, f"{setting} is used"),)


def card_policy(text: str | None, *, setting: str) -> tuple[CardPolicy, tuple[str, ...]]:
    """The order of cards, with warnings; an unknown single word gives the setting."""
    fallback = _parse(setting)[0] or CardPolicy(words=(SPREAD,))
    if text is None:
        return fallback, ()
    policy, unknown = _parse(text)
    instead = "it is left out" if policy else f"{setting} is used"
    warnings = [_unknown(keys.GPU_POLICY, word, CARD_WORDS, instead) for word in unknown]
    return policy or fallback, tuple(warnings)


def weights(text: str | None) -> Weights | str:
    """The three factors, or the sentence that says what is wrong with them."""
    if text is None:
        return Weights()
    found: dict[str, int] = {}
    problem = _weights_problem(text, found)
    if problem:
        return f'invalid {keys.SCORING_WEIGHTS} annotation "{text}": {problem}'
    return Weights(**found)


def _parse(text: str) -> tuple[CardPolicy | None, tuple[str, ...]]:
    """A policy (None where a single word is unknown) and the words that mean nothing."""
    words = tuple(word.strip() for word in text.split(","))
    known = tuple(dict.fromkeys(word for word in words if word in CARD_WORDS))
    unknown = tuple(word for word in words if word not in CARD_WORDS)
    if "," in text:
        return CardPolicy(words=known, chain=True), tuple(filter(None, unknown))
    if unknown:
        return None, unknown
    return CardPolicy(words=known, chain=known == (NUMA,)), ()


def _unknown(key: str, word: str, known: tuple[str, ...], instead: str) -> str:
    return f'{key}: "{word}" is none of {", ".join(known)}; {instead}'


_STEP: Final = {
    BINPACK: Criterion.HIGHEST_SCORE,
    SPREAD: Criterion.LOWEST_SCORE,
    NUMA: Criterion.HIGHEST_NUMA,
}

# Order of a single word, without and with NUMA binding.
_SINGLE: Final[Mapping[str, tuple[tuple[Criterion, ...], tuple[Criterion, ...]]]] = {
    BINPACK: (
        (Criterion.HIGHEST_SCORE, Criterion.HIGHEST_NUMA),
        (Criterion.LOWEST_NUMA, Criterion.HIGHEST_SCORE),
    ),
    SPREAD: (
        (Criterion.LOWEST_SCORE, Criterion.HIGHEST_NUMA),
        (Criterion.HIGHEST_NUMA, Criterion.LOWEST_SCORE),
    ),
    TOPOLOGY_AWARE: (
        (Criterion.LOWEST_SCORE, Criterion.HIGHEST_NUMA),
        (Criterion.HIGHEST_NUMA, Criterion.LOWEST_SCORE),
    ),
    MUTEX: (
        (Criterion.FEWEST_USED, Criterion.HIGHEST_NUMA),
        (Criterion.FEWEST_USED, Criterion.HIGHEST_NUMA),
    ),
}


def _chain(words: tuple[str, ...], *, numa_bind: bool) -> tuple[Criterion, ...]:
    steps = tuple(_STEP[word] for word in words if word in _STEP) or (Criterion.LOWEST_SCORE,)
    if not numa_bind:
        return steps
    rest = tuple(step for step in steps if step is not Criterion.HIGHEST_NUMA)
    return (Criterion.HIGHEST_NUMA, *rest)


def _weights_problem(text: str, found: dict[str, int]) -> str:
    """Fill ``found`` part by part; the first thing that is wrong, or an empty text."""
    parts = text.split(",")
    if len(parts) != 3:
        return "expected slot, core, and memory weights"
    for part in parts:
        problem = _part_problem(part, found)
        if problem:
            return problem
    return "" if any(found.values()) else "at least one weight must be positive"


def _part_problem(part: str, found: dict[str, int]) -> str:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals:
        return "expected key=value entries"
    if name in found:
        return f'duplicate "{name}" weight'
    if not _INTEGER.fullmatch(value) or abs(int(value)) > _INT32_MAX:
        return f'"{name}" weight must be an integer'
    if int(value) < 0:
        return f'"{name}" weight must not be negative'
    if name not in ("slot", "core", "memory"):
        return f'unknown weight "{name}"'
    found[name] = int(value)
    return ""
