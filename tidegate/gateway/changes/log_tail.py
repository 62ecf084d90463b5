"""The events that the metadata log gets about a few keys, whichever gateway writes them."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.events import Event
from tidegate.core.known_events import KnownEvents
from tidegate.ports import Topics
from tidegate.topic_pages import appended_since

_LOOKS_BACK = 3


class LogTail:
    """All calls but `watch` block, and come from one thread at a time."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._reached: list[int] = []
        self._ends: list[list[int]] = []  # of the last looks that read nothing, the oldest first
        self._events: dict[str, list[Event]] = {}

    def watch(self, bucket: str, key: str) -> None:
        """From here on the key's events are kept. It may be called while the log is read: what is appended later is
        read later."""
        self._events.setdefault(f"{bucket}/{key}", [])

    def keep_only(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Forgets all other keys."""
        kept = {f"{bucket}/{key}" for bucket, key in wanted}
        for name in [name for name in self._events if name not in kept]:
            del self._events[name]

    def known(self, bucket: str, key: str) -> KnownEvents:
        """What the log has got about a key that is watched."""
        self.catch_up()
        return KnownEvents(self._events.get(f"{bucket}/{key}", ()))

    def catch_up(self) -> None:
        """Reads what was appended since the last time. Nothing is read while no key is watched; whoever is watched then
        is read about from a few looks before: its last change may have been logged when it came into doubt."""
        bounds = self._topics.bounds(self._topic)
        if not self._events or len(self._reached) != len(bounds):
            self._ends = [*self._ends[1 - _LOOKS_BACK :], [end for _, end in bounds]]
            self._reached = list(self._ends[0] if len(self._ends[0]) == len(bounds) else self._ends[-1])
            return
        self._ends = []
        for message in appended_since(self._topics, self._topic, self._reached):
            if message.key in self._events:
                self._events[message.key].append(Event.from_bytes(message.value))
            self._reached[message.partition] = message.offset + 1
