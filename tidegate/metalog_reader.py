"""Reading the metadata log without a consumer group: the newest events, pages, and what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge

from tidegate.core.errors import InvalidInput
from tidegate.core.events import Event
from tidegate.ports import Topics
from tidegate.topic_pages import newest

Positions = tuple[int, ...]
Wanted = Callable[[Event], bool]


class MetalogReader:
    """Positions are offsets, one per partition; events of one key lie in one partition, in order."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._topics = topics
        self._topic = topic

    def start(self) -> Positions:
        return tuple(first for first, _ in self._topics.bounds(self._topic))

    def end(self) -> Positions:
        return tuple(following for _, following in self._topics.bounds(self._topic))

    def tail(self, count: int, wanted: Wanted, end: Positions) -> list[Event]:
        """The newest `count` events before `end` that are wanted, the oldest first."""
        bounds = list(zip(self.start(), end, strict=True))
        return newest(self._topics, self._topic, bounds, count, read=Event.from_bytes, wanted=wanted, moment_ns=_moment)

    def page(self, positions: Positions, limit: int, wanted: Wanted) -> tuple[list[Event], Positions]:
        """Looks at most at `limit` events from the positions on, and says where the next page begins."""
        start = self.start()
        if len(positions) != len(start):
            raise InvalidInput(f"the position must name {len(start)} partitions, not {len(positions)}")
        reached = [max(position, first) for position, first in zip(positions, start, strict=True)]
        events: list[Event] = []
        pages = [self._numbered(number, offset, limit) for number, offset in enumerate(reached)]
        for looked, (partition, event) in enumerate(merge(*pages, key=lambda item: _moment(item[1]))):
            if looked == limit:
                break
            reached[partition] += 1
            if wanted(event):
                events.append(event)
        return events, tuple(reached)

    def _numbered(self, partition: int, offset: int, limit: int) -> Iterator[tuple[int, Event]]:
        for message in self._topics.read(self._topic, partition, offset, limit):
            yield partition, Event.from_bytes(message.value)


def _moment(event: Event) -> int:
    return event.ts_ns


def show_positions(positions: Positions) -> str:
    return ",".join(map(str, positions))


def parse_positions(text: str) -> Positions:
    try:
        positions = tuple(int(part) for part in text.split(","))
    except ValueError:
        positions = (-1,)
    if min(positions) < 0:
        raise InvalidInput(f"{text!r} is not a position: take `next` of an earlier answer")
    return positions
