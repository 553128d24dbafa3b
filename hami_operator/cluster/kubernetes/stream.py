"""Lines out of chunks: one object of a watch may be larger than any reader's line limit."""

from __future__ import annotations

from typing import Final

LONGEST_LINE: Final = 64 * 1024 * 1024
"""The API server stores no object that comes near this."""


class LineTooLong(ValueError):
    """A line that no API server sends; the stream is not what it should be."""


class Lines:
    """Splits a stream at its line ends; each byte is looked at once and copied at most twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next chunk; the lines that it completes, without line end, none empty.

        Raises:
            LineTooLong: more than `LONGEST_LINE` bytes came without a line end.
        """
        head, *rest = chunk.split(b"\n")
        self._parts.append(head)
        self._size += len(head)
        if not rest:
            self._check()
            return []
        lines = [b"".join(self._parts), *rest[:-1]]
        self._parts = [rest[-1]]
        self._size = len(rest[-1])
        return [line for line in lines if line.strip()]

    def _check(self) -> None:
        if self._size > LONGEST_LINE:
            raise LineTooLong(f"more than {LONGEST_LINE} bytes without a line end")
