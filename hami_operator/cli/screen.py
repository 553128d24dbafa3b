"""Progress for people: a block that is redrawn in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final, TextIO

from hami_operator.cli import table

_UP: Final = "\x1b[{}F"
_CLEAR: Final = "\x1b[J"


class Screen:
    """Told lines stay, and the block below them is replaced.

    Args:
        stream: where to write; a terminal gets the block, anything else told lines alone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._block: list[str] = []
        self.live = stream.isatty()

    def tell(self, line: str) -> None:
        """Write a line that stays."""
        self._write([line], self._block)

    def draw(self, block: Sequence[str]) -> None:
        """Replace the block; off a terminal nothing happens."""
        if self.live:
            self._write([], list(block))

    def clear(self) -> None:
        """Take the block away."""
        self._write([], [])

    def _write(self, told: Sequence[str], block: list[str]) -> None:
        erase = f"{_UP.format(len(self._block))}{_CLEAR}" if self._block else ""
        size = shutil.get_terminal_size()
        # A block that wrapped or scrolled could not be taken back.
        block = [table.shortened(line, size.columns) for line in block[: size.lines - 1]]
        self._stream.write(erase + "".join(f"{line}\n" for line in (*told, *block)))
        self._stream.flush()
        self._block = block
