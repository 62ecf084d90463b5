"""A message as the function of a worker gets it, and what the function says about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from tidegate.ports import Message
from tidegate.workers.redelivery import PriorAttempts

Task = TypeVar("Task")


@dataclass(frozen=True, slots=True)
class Delivery(Generic[Task]):
    """`prior` is there if an earlier delivery was begun and never finished: its process was killed, or lost its lease.
    Then whatever the function does may have been done already."""

    message: Message
    task: Task
    prior: PriorAttempts | None = None

    @property
    def attempt(self) -> int:
        return self.message.attempt

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier attempt was made, be it that it failed or that nothing is known of it."""
        return self.attempt > 1 or self.prior is not None

    @property
    def origin(self) -> str:
        """Where the message stands: one text for all of its deliveries."""
        return f"{self.message.topic}/{self.message.partition}/{self.message.offset}"

    def appended_before(self, topic: str) -> Iterator[bytes]:
        """What the topic got since this message was begun for the first time, if that was not finished."""
        return self.prior.appended(topic) if self.prior is not None else iter(())


class Disposition(Enum):
    """What becomes of a message. `LEFT` is neither done nor failed: it is delivered again as it is. `POSTPONED` is not
    failed either: it is delivered again at a time that the answer names. `BUSY` is no answer yet: the work goes on."""

    DONE = "done"
    RETRY = "retried"
    DEAD_LETTER = "dead-lettered"
    POSTPONED = "postponed"
    LEFT = "left"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a `RETRY` there are as many as the policy allows; what still fails then becomes a dead letter. `not_before`
    (Unix time) is when what was postponed comes again."""

    disposition: Disposition
    reason: str = ""
    not_before: float = 0.0


DONE = Answer(Disposition.DONE)
LEFT = Answer(Disposition.LEFT)
BUSY = Answer(Disposition.BUSY)
