"""The metadata log of a running service: all of it, and what is new in it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from running_service import RunningService

from tidegate.assembly import open_topics
from tidegate.core.events import Event
from tidegate.ports import Topics
from tidegate.settings import Settings, restore
from tidegate.topic_pages import appended_since


def settings_of(service: RunningService) -> Settings:
    return restore((service.data / "run" / "settings.json").read_text())


def events_since(topics: Topics, topic: str, offsets: list[int]) -> list[Event]:
    """In the order of their times. The offsets, one per partition, are moved on."""
    found = []
    for message in appended_since(topics, topic, offsets):
        found.append(Event.from_bytes(message.value))
        offsets[message.partition] = message.offset + 1
    return sorted(found, key=lambda event: event.ts_ns)


def logged_events(settings: Settings, data: Path) -> list[Event]:
    """All that the log holds."""
    with closing(open_topics(settings, data)) as topics:
        topic = settings.metalog.topic
        return events_since(topics, topic, [0] * len(topics.bounds(topic)))


class MetadataLog:
    """What is new in the log since the last look."""

    def __init__(self, service: RunningService) -> None:
        settings = settings_of(service)
        self._topic = settings.metalog.topic
        self._topics = open_topics(settings, service.data)
        self._seen = [following for _, following in self._topics.bounds(self._topic)]

    def news(self) -> list[Event]:
        return events_since(self._topics, self._topic, self._seen)

    def one(self) -> Event:
        (event,) = self.news()
        return event

    def close(self) -> None:
        self._topics.close()
