"""The metadata log of a running service, read as it grows."""

from __future__ import annotations

from running_service import RunningService

from tidegate.assembly import open_topics
from tidegate.core.events import Event
from tidegate.settings import restore

_READ_AT_ONCE = 10_000


class MetadataLog:
    """What is new in the log since the last look."""

    def __init__(self, service: RunningService) -> None:
        self._settings = restore((service.data / "run" / "settings.json").read_text())
        self._topics = open_topics(self._settings, service.data)
        self._seen = [following for _, following in self._topics.bounds(self._settings.metalog.topic)]

    def news(self) -> list[Event]:
        found: list[Event] = []
        for partition in range(len(self._seen)):
            while messages := self._topics.read(
                self._settings.metalog.topic, partition, self._seen[partition], _READ_AT_ONCE
            ):
                self._seen[partition] += len(messages)
                found += [Event.from_bytes(message.value) for message in messages]
        return sorted(found, key=lambda event: event.ts_ns)

    def one(self) -> Event:
        (event,) = self.news()
        return event

    def close(self) -> None:
        self._topics.close()
