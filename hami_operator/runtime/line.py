"""Who is next at a node: binds that need its lock stand in line, one line per node.

Only the first in line may try; everybody else costs nothing. A line ends with its last member.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses


@dataclasses.dataclass(eq=False, slots=True)
class Place:
    """One place in a line.

    Attributes:
        node: whose line it is.
        holder: UID of the pod that stands here.
        until_s: when its patience ends, on the monotonic clock.
    """

    node: str
    holder: str
    until_s: float
    _news: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Let it look again."""
        self._news.set()

    async def wait(self) -> None:
        """Wait for the next `wake`, also one that came since the last `wait` returned."""
        await self._news.wait()
        self._news.clear()


class Lines:
    """All lines."""

    def __init__(self) -> None:
        self._lines: dict[str, collections.OrderedDict[Place, None]] = {}

    def join(self, node: str, holder: str, *, until_s: float) -> Place:
        """A new place at the end of a node's line, whose first may let it go ahead."""
        place = Place(node=node, holder=holder, until_s=until_s)
        self._lines.setdefault(node, collections.OrderedDict())[place] = None
        self.wake(node)
        return place

    def leave(self, place: Place) -> None:
        """Give a place up and wake who is first then; harmless when repeated."""
        line = self._lines.get(place.node)
        if line is None or place not in line:
            return
        del line[place]
        if not line:
            del self._lines[place.node]
            return
        next(iter(line)).wake()

    def is_first(self, place: Place) -> bool:
        """Whether it is this one's turn."""
        line = self._lines.get(place.node)
        return line is not None and next(iter(line)) is place

    def wake(self, node: str) -> None:
        """Something about a node has changed: its first looks again."""
        line = self._lines.get(node)
        if line:
            next(iter(line)).wake()

    def promote(self, node: str, holder: str) -> bool:
        """Let a pod that stands further back go first; False where it does not stand there.

        Only the first may promote another one, since it has nothing in its hands yet.
        """
        line = self._lines.get(node, collections.OrderedDict())
        place = next((each for each in line if each.holder == holder), None)
        if place is None or self.is_first(place):
            return False
        line.move_to_end(place, last=False)
        place.wake()
        return True

    def tick(self, now_s: float) -> None:
        """Time has passed: the first of each line looks again, and so do the impatient."""
        for line in self._lines.values():
            first = next(iter(line))
            for place in line:
                if place is first or place.until_s <= now_s:
                    place.wake()

    def wake_all(self) -> None:
        """Everybody looks again."""
        for line in self._lines.values():
            for place in line:
                place.wake()

    def nodes(self) -> tuple[str, ...]:
        """Nodes that somebody stands in line for."""
        return tuple(self._lines)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))
