"""What a worker was about to do with messages when it stopped, so that it does not do it twice.

Messages are delivered at least once: a process that is killed between acting and acknowledging gets them again. Before
it acts on a batch it therefore notes down the messages and how long the topics are to which it will append. When a
message comes again, what was appended to those topics since then tells what the earlier attempt got done.

The notes stand in the tables, one entry per partition. They cost two small writes per batch, and only a redelivery
reads the topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.ports import Message, Tables, Topics
from tidegate.topic_pages import appended_since

_PREFIX = "workers/begun/"
# A crash right after an acknowledgement leaves a note that nobody needs; more than so many are not kept.
_MOST_NOTES = 50

_Delivery = tuple[int, int]
_Ends = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class _Note:
    """Deliveries (offset and attempt) that were begun when the topics had those ends."""

    deliveries: frozenset[_Delivery]
    ends: _Ends


@dataclass(frozen=True, slots=True)
class PriorAttempts:
    """Messages of the present batch that were begun before, and from where on their results must be looked for."""

    topics: Topics
    messages: Sequence[Message]
    since: _Ends

    def appended(self, topic: str) -> Iterator[bytes]:
        """Every value that was appended to the topic since the messages were first begun."""
        offsets = [self._since(topic, partition) for partition in range(len(self.topics.bounds(topic)))]
        return (message.value for message in appended_since(self.topics, topic, offsets))

    def _since(self, topic: str, partition: int) -> int:
        """From the beginning where a worker of another version noted nothing down about the topic."""
        ends = self.since.get(topic, [])
        return ends[partition] if partition < len(ends) else 0


class Redelivery:
    """Of one consumer of one topic, which finishes a batch before it begins the next. `appends` are the topics to which
    it appends. For one thread."""

    def __init__(self, tables: Tables, topics: Topics, *, topic: str, group: str, appends: Sequence[str]) -> None:
        self._tables = tables
        self._topics = topics
        self._prefix = f"{_PREFIX}{group}/{topic}/"
        self._appends = tuple(appends)

    def begin(self, messages: Sequence[Message]) -> PriorAttempts:
        """Call this before anything is done with the messages."""
        ends = {topic: [following for _, following in self._topics.bounds(topic)] for topic in self._appends}
        again: list[Message] = []
        since: _Ends = {}
        for partition in sorted({message.partition for message in messages}):
            batch = [message for message in messages if message.partition == partition]
            recalled, earliest = self._note(partition, batch, ends)
            again += recalled
            since = _earlier(since, earliest)
        return PriorAttempts(self._topics, again, since)

    def _note(self, partition: int, batch: list[Message], ends: _Ends) -> tuple[list[Message], _Ends]:
        key = f"{self._prefix}{partition}"
        notes = _still_open(_parse(self._tables.get(key)), batch)
        recalled = [message for message in batch if any(_delivery(message) in note.deliveries for note in notes)]
        earliest: _Ends = {}
        for note in notes:
            if any(_delivery(message) in note.deliveries for message in recalled):
                earliest = _earlier(earliest, note.ends)
        fresh = frozenset(map(_delivery, batch)) - frozenset(map(_delivery, recalled))
        notes += [_Note(fresh, ends)] if fresh else []
        self._tables.put(key, _text(notes[-_MOST_NOTES:]))
        return recalled, earliest

    def end(self, messages: Sequence[Message]) -> None:
        """Call this when the messages are acknowledged."""
        for partition in {message.partition for message in messages}:
            key = f"{self._prefix}{partition}"
            done = {_delivery(message) for message in messages if message.partition == partition}
            left = [_Note(note.deliveries - done, note.ends) for note in _parse(self._tables.get(key))]
            self._tables.put(key, _text([note for note in left if note.deliveries]))


def _delivery(message: Message) -> _Delivery:
    return message.offset, message.attempt


def _still_open(notes: list[_Note], batch: list[Message]) -> list[_Note]:
    """Without the deliveries that must be finished: first deliveries come in order, the unfinished ones first."""
    first = min((message.offset for message in batch if message.attempt == 1), default=0)
    open_notes = [
        _Note(frozenset(item for item in note.deliveries if item[1] > 1 or item[0] >= first), note.ends)
        for note in notes
    ]
    return [note for note in open_notes if note.deliveries]


def _earlier(one: _Ends, other: _Ends) -> _Ends:
    if not (one and other):
        return one or other
    return {
        topic: [min(pair) for pair in zip(ends, other[topic], strict=False)]
        for topic, ends in one.items()
        if topic in other
    }


def _text(notes: list[_Note]) -> str:
    return json.dumps([[sorted(note.deliveries), note.ends] for note in notes], separators=(",", ":"))


def _parse(text: str | None) -> list[_Note]:
    if text is None:
        return []
    return [
        _Note(frozenset((offset, attempt) for offset, attempt in deliveries), ends)
        for deliveries, ends in json.loads(text)
    ]
