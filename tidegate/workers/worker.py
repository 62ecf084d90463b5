"""A worker: a member of a consumer group that finishes a batch of messages before the next.

A message is acknowledged after its function has returned, and so after all that the function wrote is on stable
storage. Whatever breaks off in between is delivered again, and the function is told so.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event as Flag
from typing import Generic

from tidegate import metrics
from tidegate.core.errors import InvalidInput, TidegateError, Unavailable
from tidegate.ports import Consumer, Message, Tables, Topics
from tidegate.workers.batch_size import BatchSize
from tidegate.workers.delivery import DONE, LEFT, Answer, Delivery, Disposition, Task
from tidegate.workers.lag_gauge import LagGauge
from tidegate.workers.rate import InstallationRate
from tidegate.workers.redelivery import Redelivery
from tidegate.workers.retry_policy import RetryPolicy

_WAIT_SECONDS = 1.0
_FIRST_BATCH, _MOST = 10, 1000
_DEFAULT_LEASE_SECONDS = 10.0
_RETRIES = RetryPolicy()

logger = logging.getLogger(__name__)

Handle = Callable[[Delivery[Task]], None]
HandleBatch = Callable[[Sequence[Delivery[Task]]], Iterable[Answer]]


class _Silence:
    """How long a consumer was not heard of at most, while a batch was under way."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.longest = 0.0

    def end(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self._since)
        self._since = now


class Worker(Generic[Task]):
    """Has every message of the topic seen to by one of two functions.

    `handle` sees to one message. If it raises `Unavailable` the message is tried again, as `retries` has it, and then
    becomes a dead letter, at once where it raises another error of Tidegate's. Whatever else it raises ends the worker.
    `handle_batch` sees to several, and answers for each, in their order; it takes from the `rate` itself. No message
    may take as long as the lease: it would be delivered to another worker meanwhile. A `handle_batch` whose messages
    take longer gives `BUSY` beside its answers, at least every quarter of a lease, which keeps the lease.

    `decode` makes a task from a message's value and raises `InvalidInput` where it is none: that is a dead letter.
    `appends` are the topics to which the functions append: what they got since is told when a message comes again.
    `lease_seconds` are those of the topics. `acknowledged` is told how many messages were. For one thread.
    """

    def __init__(
        self,
        topics: Topics,
        tables: Tables,
        *,
        topic: str,
        group: str,
        decode: Callable[[bytes], Task],
        handle: Handle[Task] | None = None,
        handle_batch: HandleBatch[Task] | None = None,
        retries: RetryPolicy = _RETRIES,
        rate: InstallationRate | None = None,
        appends: Sequence[str] = (),
        lease_seconds: float = _DEFAULT_LEASE_SECONDS,
        size: BatchSize | None = None,
        acknowledged: Callable[[int], None] = lambda count: None,
        stop: Flag,
    ) -> None:
        assert (handle is None) is not (handle_batch is None), "one function sees to the messages"
        self._topics = topics
        self._topic = topic
        self._group = group
        self._decode = decode
        self._handle = handle
        self._handle_batch = handle_batch or self._one_by_one
        self._retries = retries
        self._rate = rate
        self._lease_seconds = lease_seconds
        self._size = size or BatchSize(_FIRST_BATCH, least=1, most=_MOST, lease_seconds=lease_seconds)
        self._redelivery = Redelivery(tables, topics, topic=topic, group=group, appends=appends)
        self._acknowledged = acknowledged
        self._stop = stop
        self._consumer: Consumer | None = None
        self._lag = LagGauge(topics, topic, group)

    def run_forever(self) -> None:
        while not self._stop.is_set():
            self.run_once(_WAIT_SECONDS)

    def run_once(self, wait_seconds: float = 0.0) -> int:
        """Finishes one batch of messages and says how many there were."""
        self._lag.show()
        most = self._size.current
        if self._rate is not None:
            most = self._rate.portion(self._size.seconds, most)
        if self._consumer is None:
            self._consumer = self._topics.consumer(self._topic, self._group)
        messages = self._consumer.poll(most, wait_seconds)
        try:
            tasks = self._decoded(self._consumer, messages)
            if tasks:
                self._finish(self._consumer, tasks)
        except BaseException:
            self._leave()  # what was polled is delivered again, to us or to another
            raise
        return len(messages)

    def close(self) -> None:
        self._leave()
        if self._rate is not None:
            self._rate.leave()

    def _leave(self) -> None:
        """Until the next round."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Unavailable):
                consumer.close()

    def _decoded(self, consumer: Consumer, messages: Sequence[Message]) -> list[tuple[Message, Task]]:
        tasks = []
        for message in messages:
            try:
                tasks.append((message, self._decode(message.value)))
            except InvalidInput as error:
                logger.error("a message of %s cannot be read: %s", self._topic, error)
                consumer.dead_letter(message, str(error))
                self._count(Disposition.DEAD_LETTER.value)
        return tasks

    def _finish(self, consumer: Consumer, tasks: list[tuple[Message, Task]]) -> None:
        began = time.monotonic()
        prior = self._redelivery.begin([message for message, _ in tasks])
        again = set(map(id, prior.messages))
        deliveries = [Delivery(message, task, prior if id(message) in again else None) for message, task in tasks]
        if again:
            self._count("redelivered", len(again))
        silence = _Silence()
        finished = self._settle(consumer, deliveries, self._kept(consumer, self._handle_batch(deliveries), silence))
        silence.end()
        seconds = time.monotonic() - began
        self._size.observe(len(deliveries), seconds)
        metrics.WORKER_BATCH_SECONDS.labels(self._topic, self._group).observe(seconds)
        # Once the lease was lost, what was acknowledged comes again all the same, and must be remembered.
        if silence.longest < self._lease_seconds:
            self._redelivery.end(finished)
        if len(finished) < len(deliveries):
            self._leave()  # a consumer that stays open is not given again what it left

    def _kept(self, consumer: Consumer, answers: Iterable[Answer], silence: _Silence) -> Iterator[Answer]:
        """The answers; while there is none yet, the lease is kept."""
        for answer in answers:
            if answer.disposition is Disposition.BUSY:
                consumer.renew()
                silence.end()
            else:
                yield answer

    def _settle(
        self, consumer: Consumer, deliveries: Sequence[Delivery[Task]], answers: Iterable[Answer]
    ) -> list[Message]:
        """Does with the messages as is answered; gives those that are finished. Where answers take their time, those
        that came are acknowledged meanwhile, which keeps the lease."""
        finished: list[Message] = []
        done: list[Message] = []
        settled_at = time.monotonic()
        for delivery, answer in zip(deliveries, answers, strict=True):
            if answer.disposition is Disposition.DONE:
                done.append(delivery.message)
            elif answer.disposition is not Disposition.LEFT:
                self._put_aside(consumer, delivery.message, answer)
                finished.append(delivery.message)
            if time.monotonic() > settled_at + self._size.seconds:
                self._acknowledge(consumer, done)
                finished, done, settled_at = finished + done, [], time.monotonic()
        self._acknowledge(consumer, done)
        return finished + done

    def _acknowledge(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        if messages:
            consumer.acknowledge(messages)
            self._acknowledged(len(messages))
            self._count(Disposition.DONE.value, len(messages))

    def _put_aside(self, consumer: Consumer, message: Message, answer: Answer) -> None:
        if answer.disposition is Disposition.POSTPONED:
            consumer.retry_later(message, not_before=answer.not_before)
            self._count(Disposition.POSTPONED.value)
            return
        if answer.disposition is Disposition.RETRY and self._retries.may_retry(message.attempt):
            delay = self._retries.delay(message.attempt, random.random)
            consumer.retry_later(message, not_before=time.time() + delay)
            self._count(Disposition.RETRY.value)
            return
        logger.error("a message of %s is given up after %d tries: %s", self._topic, message.attempt, answer.reason)
        consumer.dead_letter(message, answer.reason)
        self._count(Disposition.DEAD_LETTER.value)

    def _one_by_one(self, deliveries: Sequence[Delivery[Task]]) -> Iterator[Answer]:
        return map(self._answer, deliveries)

    def _answer(self, delivery: Delivery[Task]) -> Answer:
        assert self._handle is not None
        wait = self._rate.take(1) if self._rate is not None else 0.0
        if self._stop.wait(wait) if wait else self._stop.is_set():
            return LEFT
        try:
            self._handle(delivery)
        except Unavailable as error:
            return Answer(Disposition.RETRY, str(error))
        except TidegateError as error:
            return Answer(Disposition.DEAD_LETTER, str(error))
        return DONE

    def _count(self, result: str, messages: int = 1) -> None:
        metrics.WORKER_MESSAGES.labels(self._topic, self._group, result).inc(messages)
