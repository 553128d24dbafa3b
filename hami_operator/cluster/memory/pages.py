"""Lists in pages: all pages show the same moment, however long the reader takes."""

from __future__ import annotations

import base64
import binascii
import bisect
import collections
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from hami_operator.cluster.memory import records, refusals, selectors

KEPT_SNAPSHOTS: Final = 8
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


class Page(NamedTuple):
    """One page of a list; ``token`` is empty on the last one."""

    records: list[records.Record]
    version: int
    token: str = ""
    remaining: int | None = None


class Snapshots:
    """The moments that page tokens refer to; only the latest `KEPT_SNAPSHOTS` are kept."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[tuple[str, int], list[records.Record]] = (
            collections.OrderedDict()
        )

    def take(self, bucket: str, version: int, found: Iterable[records.Record]) -> None:
        """Remember a moment."""
        if (bucket, version) not in self._kept:
            self._kept[bucket, version] = list(found)
            if len(self._kept) > KEPT_SNAPSHOTS:
                self._kept.popitem(last=False)

    def forget(self, bucket: str) -> None:
        """Let all tokens of a kind expire."""
        for stale in [known for known in self._kept if known[0] == bucket]:
            del self._kept[stale]

    def page(
        self,
        bucket: str,
        *,
        version: int,
        start: records.Key,
        namespace: str,
        selector: selectors.Selector,
        limit: int,
    ) -> Page:
        """The part of a moment that follows ``start``; 410 if it has been forgotten."""
        everything = self._kept.get((bucket, version))
        if everything is None:
            raise refusals.expired(_TOO_OLD)
        first = bisect.bisect_right(everything, start, key=lambda record: record.key)
        rest = selected(everything[first:], selector, namespace)
        if not limit or len(rest) <= limit:
            return Page(rest, version)
        page = rest[:limit]
        remaining = len(rest) - limit if selector is selectors.ALL else None
        return Page(page, version, write_token(page[-1].key, version), remaining)


def selected(
    found: Sequence[records.Record], selector: selectors.Selector, namespace: str = ""
) -> list[records.Record]:
    """The records of a namespace (empty: all) that a selector matches."""
    return [
        record
        for record in found
        if (not namespace or record.key[0] == namespace)
        and (selector is selectors.ALL or selector.matches(record.obj))
    ]


def write_token(key: records.Key, version: int) -> str:
    """The token of the page that follows ``key``."""
    content = {"v": "meta.k8s.io/v1", "rv": version, "start": "\0".join(key)}
    return base64.urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("=")


def read_token(token: str) -> tuple[records.Key, int]:
    """Where the page starts, and which moment it shows.

    Raises:
        refusals.Refused: 400, it is no token.
    """
    try:
        padded = token + "=" * (-len(token) % 4)
        content = orjson.loads(base64.urlsafe_b64decode(padded))
        namespace, _, name = content["start"].partition("\0")
        return (namespace, name), int(content["rv"])
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"invalid continue token: continue key is not valid: {error}"
        raise refusals.bad_request(text) from error
