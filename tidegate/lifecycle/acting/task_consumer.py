"""What the processors have in common: a member of a consumer group that finishes a batch of tasks before the next."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event as Flag
from typing import Generic, TypeVar

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.ports import Consumer, Message, Topics

# Few and soon: what waits for a retry is a backlog, and no pass starts before it is gone.
_POSTPONED_SECONDS = (5.0, 15.0)
_WAIT_SECONDS = 1.0

logger = logging.getLogger(__name__)

Task = TypeVar("Task")


class TaskConsumer(ABC, Generic[Task]):
    """`read` makes a task from a message's value and raises `InvalidInput` where it is none. For one thread."""

    def __init__(self, topics: Topics, topic: str, group: str, *, read: Callable[[bytes], Task], stop: Flag) -> None:
        self._topics = topics
        self._topic = topic
        self._group = group
        self._read = read
        self._stop = stop
        self._consumer: Consumer | None = None

    @abstractmethod
    def _most(self) -> int:
        """How many tasks to take at once; called before each poll."""

    @abstractmethod
    def _process(self, consumer: Consumer, tasks: Sequence[tuple[Message, Task]]) -> None:
        """Sees to the tasks, of which there is at least one, and acknowledges them."""

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Finishes one batch of tasks and says how many there were."""
        most = self._most()
        if self._consumer is None:
            self._consumer = self._topics.consumer(self._topic, self._group)
        messages = self._consumer.poll(most, wait_seconds)
        try:
            tasks = self._tasks(self._consumer, messages)
            if tasks:
                self._process(self._consumer, tasks)
        except BaseException:
            self._leave()  # what was polled is delivered again, to us or to another
            raise
        return len(messages)

    def close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        """Until the next round."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Unavailable):
                consumer.close()

    def _tasks(self, consumer: Consumer, messages: Sequence[Message]) -> list[tuple[Message, Task]]:
        tasks = []
        for message in messages:
            try:
                tasks.append((message, self._read(message.value)))
            except InvalidInput as error:
                logger.error("a message of %s cannot be read: %s", self._topic, error)
                consumer.dead_letter(message, str(error))
        return tasks

    @staticmethod
    def _may_wait(message: Message) -> bool:
        """Whether there is another attempt."""
        return message.attempt <= len(_POSTPONED_SECONDS)

    @staticmethod
    def _postpone(consumer: Consumer, message: Message) -> None:
        consumer.retry_later(message, not_before=time.time() + _POSTPONED_SECONDS[message.attempt - 1])
