"""The log writer: events on their way into the metadata log.

Events that arrive while a batch is being written form the next batch, and a batch waits a millisecond while more
changes are under way, so that one write to stable storage serves many requests. A lonely request waits for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from tidegate import metrics
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.ports import Record, Topics

logger = logging.getLogger(__name__)

Done = Callable[[TidegateError | None], None]
_LARGEST_BATCH = 2000
_COUNT_SECONDS = 1.0
_LINGER_SECONDS = 0.001


class LogWriter(Protocol):
    def append(self, records: list[Record], done: Done) -> None:
        """Calls `done` in the event loop when the records are on stable storage, or with why they are not."""

    async def close(self) -> None: ...


class TopicLogWriter:
    """Writes to a topic from one thread of its own."""

    def __init__(
        self,
        topics: Topics,
        topic: str,
        loop: asyncio.AbstractEventLoop,
        under_way: Callable[[], int] = lambda: 0,
        failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`under_way` tells how many changes will have events soon: a batch waits a moment for them.
        `failed` is told, in any thread, when the log could not be written."""
        self._failed = failed
        self._under_way = under_way
        self._topics = topics
        self._topic = topic
        self._loop = loop
        self._queue: queue.SimpleQueue[tuple[list[Record], Done] | None] = queue.SimpleQueue()
        self._seconds = metrics.Durations(metrics.JOURNAL_SECONDS)
        self._batches = self._events = 0
        self._counted_at = 0.0
        self._thread = threading.Thread(target=self._write_forever, name="log-writer", daemon=True)
        self._thread.start()

    def append(self, records: list[Record], done: Done) -> None:
        self._queue.put((records, done))

    async def close(self) -> None:
        self._queue.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _write_forever(self) -> None:
        closing = False
        while not closing:
            first = self._next()
            if first is None:
                break
            if self._under_way() > self._queue.qsize() + 1:
                time.sleep(_LINGER_SECONDS)
            batch = [first]
            size = len(first[0])
            while size < _LARGEST_BATCH:
                try:
                    entry = self._queue.get_nowait()
                except queue.Empty:
                    break
                if entry is None:
                    closing = True
                    break
                batch.append(entry)
                size += len(entry[0])
            self._write(batch)
        self._count()

    def _next(self) -> tuple[list[Record], Done] | None:
        if self._batches:
            try:
                return self._queue.get(timeout=_COUNT_SECONDS)
            except queue.Empty:
                self._count()
        return self._queue.get()

    def _count(self) -> None:
        """Hands the counts to the metrics."""
        self._counted_at = time.monotonic()
        self._seconds.flush()
        metrics.JOURNAL_BATCHES.inc(self._batches)
        metrics.JOURNAL_EVENTS.inc(self._events)
        self._batches = self._events = 0

    def _write(self, batch: list[tuple[list[Record], Done]]) -> None:
        records = [record for entry in batch for record in entry[0]]
        started = time.monotonic()
        failure: TidegateError | None = None
        try:
            self._topics.append(self._topic, records)
        except TidegateError as error:
            failure = error
            logger.error("the metadata log cannot be written: %s; %d changes stay unacknowledged", error, len(records))
        except Exception as error:  # the thread must live on: nothing can be changed without it
            logger.exception("the metadata log cannot be written; %d changes stay unacknowledged", len(records))
            failure = Unavailable(f"the metadata log cannot be written: {error}")
        if failure is not None:
            if isinstance(failure, Unavailable):  # otherwise it was this batch that was wrong, not the log
                self._failed(str(failure))
            metrics.JOURNAL_FAILURES.inc()
        else:
            self._batches += 1
            self._events += len(records)
        ended = time.monotonic()
        self._seconds.observe(ended - started)
        if ended > self._counted_at + _COUNT_SECONDS:
            self._count()
        self._loop.call_soon_threadsafe(_tell, batch, failure)


class NoLogWriter:
    """For measurements: what the log costs is seen when there is none."""

    def append(self, records: list[Record], done: Done) -> None:
        done(None)

    async def close(self) -> None:
        return


def _tell(batch: list[tuple[list[Record], Done]], failure: TidegateError | None) -> None:
    for _, done in batch:
        done(failure)
