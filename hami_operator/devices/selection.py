"""What a pod's annotations demand of the cards it may get."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from hami_operator.devices import vendor
from hami_operator.protocol import fields, register


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """The demands, read; None is no demand, an empty set is one that nothing meets.

    Attributes:
        use_types: upper-case parts, one of which the model must contain.
        skip_types: upper-case parts, none of which the model may contain.
        use_ids: the only ids that will do.
        skip_ids: ids that will not do.
    """

    use_types: tuple[str, ...] | None = None
    skip_types: tuple[str, ...] = ()
    use_ids: frozenset[str] | None = None
    skip_ids: frozenset[str] = frozenset()

    @property
    def by_type(self) -> bool:
        """Whether models matter."""
        return self.use_types is not None or bool(self.skip_types)

    @property
    def by_id(self) -> bool:
        """Whether ids matter."""
        return self.use_ids is not None or bool(self.skip_ids)

    def allows_model(self, card: register.Card) -> bool:
        """Whether the card's model will do."""
        if not self.skip_types and self.use_types is None:
            return True
        model = card.model.upper()
        if self.use_types is not None and not any(part in model for part in self.use_types):
            return False
        return not any(part in model for part in self.skip_types)

    def allows_id(self, card: register.Card) -> bool:
        """Whether the card itself will do."""
        return card.id not in self.skip_ids and (self.use_ids is None or card.id in self.use_ids)


ANY = Chosen()
"""No demand at all."""


def read(keys: vendor.Selection, annotations: Mapping[str, str]) -> Chosen:
    """The demands of a pod on the cards of one backend."""
    if not annotations:
        return ANY
    return _chosen(
        annotations.get(keys.use_type),
        annotations.get(keys.skip_type),
        tuple(map(annotations.get, keys.use_uuid)),
        tuple(map(annotations.get, keys.skip_uuid)),
    )


@functools.lru_cache(maxsize=4096)  # the same few texts meet every node of every attempt
def _chosen(
    use_type: str | None,
    skip_type: str | None,
    use_uuid: tuple[str | None, ...],
    skip_uuid: tuple[str | None, ...],
) -> Chosen:
    demanded = [frozenset(items(text)) for text in use_uuid if text and text.strip()]
    return Chosen(
        use_types=_parts(use_type) if use_type and use_type.strip() else None,
        skip_types=_parts(skip_type),
        use_ids=frozenset.intersection(*demanded) if demanded else None,
        skip_ids=frozenset().union(*map(items, skip_uuid)),
    )


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(item.upper() for item in items(text))


def items(text: str | None) -> tuple[str, ...]:
    """The items of a comma list, trimmed, empty ones dropped."""
    return tuple(item for item in map(str.strip, (text or "").split(",")) if item)


@functools.lru_cache(maxsize=4096)  # one text per node, read at every attempt
def cordoned(text: str | None) -> frozenset[str]:
    """Ids in the value of the cordon annotation."""
    return frozenset(items(text))


def numa_bound(row: vendor.Vendor, pod_annotations: Mapping[str, str]) -> bool:
    """Whether the pod wants the cards of each container on one NUMA node."""
    return pod_annotations.get(row.selection.numa_bind) in fields.TRUE_WORDS
