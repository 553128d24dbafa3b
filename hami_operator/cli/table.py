"""Text for terminals: columns that line up, and bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_FULL: Final = "█"
_EMPTY: Final = "░"
_MARK: Final = "…"


def columns(rows: Iterable[Sequence[str]], *, heads: Sequence[str] = ()) -> list[str]:
    """Lines with every column as wide as its widest cell; the last column is not padded."""
    cells = [list(map(str, row)) for row in ([heads, *rows] if heads else rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)] if cells else []
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def bar(used: int, total: int, *, width: int = 10) -> str:
    """``███░░░░░░░``: a part of a whole; anything above nothing shows at least one block."""
    if total <= 0:
        return _EMPTY * width
    blocks = min(width, round(width * used / total))
    if used > 0:
        blocks = max(1, blocks)
    return _FULL * blocks + _EMPTY * (width - blocks)


def shortened(text: str, width: int) -> str:
    """The text, cut at the end to ``width`` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + _MARK


def middle_cut(text: str, width: int) -> str:
    """The text, cut in the middle: both ends of an id tell more than its beginning."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}{_MARK}{text[len(text) - tail :]}"
