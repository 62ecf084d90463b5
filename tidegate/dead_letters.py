"""The dead letters of a topic: reading them, sending them back to where they came from, and discarding them.

A dead letter cannot be removed from its topic. What was sent back or discarded is noted in the tables, and is not shown
any more; the note lives a little longer than the letter.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Self

from msgspec import Struct

from tidegate.core import codec
from tidegate.core.errors import InvalidInput, NotFound
from tidegate.ports import Message, Record, Tables, Topics
from tidegate.topic_pages import messages

SUFFIX = ".dead-letters"

# What was done about a letter: `dl:TOPIC/PARTITION:OFFSET`.
_HANDLED = "dl:"
_RETRIED, _DISCARDED = "retried", "discarded"
_SPARE_SECONDS = 86_400.0
_PAGE = 1000


class _Origin(Struct, frozen=True):
    topic: str
    partition: int
    offset: int


class _Content(Struct, frozen=True):
    key: str
    value: str
    reason: str
    attempt: int
    group: str
    origin: _Origin


class DeadLetter(Struct, frozen=True):
    """`id` is PARTITION:OFFSET in the topic of dead letters; `value` is the message that was given up."""

    id: str
    key: str
    value: bytes
    reason: str
    attempt: int
    group: str
    origin: str
    died_at: float

    @classmethod
    def of(cls, message: Message) -> Self:
        content = codec.decoded(message.value, _Content, "dead letter")
        try:
            value = base64.b64decode(content.value, validate=True)
        except binascii.Error as error:
            raise InvalidInput(f"not a dead letter: {error}") from None
        at = content.origin
        return cls(
            id=f"{message.partition}:{message.offset}",
            key=content.key,
            value=value,
            reason=content.reason,
            attempt=content.attempt,
            group=content.group,
            origin=f"{at.topic}/{at.partition}/{at.offset}",
            died_at=message.appended_at,
        )


class DeadLetters:
    """Of one topic; `keep_seconds` is how long letters are kept."""

    def __init__(self, tables: Tables, topics: Topics, topic: str, *, keep_seconds: float) -> None:
        self._tables = tables
        self._topics = topics
        self._topic = topic
        self._life = keep_seconds + _SPARE_SECONDS
        self._prefix = f"{_HANDLED}{topic}/"

    def open(self, count: int) -> list[DeadLetter]:
        """Those about which nothing was done yet, the oldest first, at most so many."""
        found: list[DeadLetter] = []
        handled = self._handled()
        for message in self._messages():
            if len(found) == count:
                break
            if f"{message.partition}:{message.offset}" not in handled:
                found.append(DeadLetter.of(message))
        return found

    def count(self) -> int:
        """How many are open."""
        bounds = self._bounds()
        places = [tuple(map(int, name.split(":"))) for name in self._handled()]
        done = sum(partition < len(bounds) and offset >= bounds[partition][0] for partition, offset in places)
        return sum(following - first for first, following in bounds) - done

    def get(self, letter_id: str) -> DeadLetter:
        """Raises `NotFound` where there is none, or where something was done about it."""
        partition, offset = _place(letter_id)
        if 0 <= partition < len(self._bounds()):
            found = self._topics.read(self._letters_topic, partition, offset, 1)
            if found and found[0].offset == offset:
                handled = self._tables.get(self._prefix + letter_id)
                if handled is None:
                    return DeadLetter.of(found[0])
                raise NotFound(f"the dead letter {letter_id} was {handled} already")
        raise NotFound(f"there is no dead letter {letter_id}")

    def retry(self, letter_id: str) -> DeadLetter:
        """Sends it back to its topic. Should this end before it is noted, it is sent twice, which consumers stand."""
        letter = self.get(letter_id)
        self._topics.append(self._topic, [Record(letter.key, letter.value)])
        self._note(letter_id, _RETRIED)
        return letter

    def discard(self, letter_id: str) -> DeadLetter:
        letter = self.get(letter_id)
        self._note(letter_id, _DISCARDED)
        return letter

    def _note(self, letter_id: str, what: str) -> None:
        self._tables.put(self._prefix + letter_id, what, expires_in=self._life)

    @property
    def _letters_topic(self) -> str:
        return self._topic + SUFFIX

    def _bounds(self) -> list[tuple[int, int]]:
        try:
            return self._topics.bounds(self._letters_topic)
        except NotFound:  # made with the first letter
            return []

    def _messages(self) -> Iterator[Message]:
        for partition, (first, following) in enumerate(self._bounds()):
            yield from messages(self._topics, self._letters_topic, partition, first, following)

    def _handled(self) -> set[str]:
        found: set[str] = set()
        after = None
        while entries := self._tables.scan(self._prefix, after=after, limit=_PAGE):
            found.update(name.removeprefix(self._prefix) for name, _ in entries)
            after = entries[-1][0]
        return found


def _place(letter_id: str) -> tuple[int, int]:
    partition, colon, offset = letter_id.partition(":")
    if not (colon and partition.isdecimal() and offset.isdecimal()):
        raise InvalidInput(f"a dead letter is named PARTITION:OFFSET, as the list shows it, not {letter_id!r}")
    return int(partition), int(offset)
