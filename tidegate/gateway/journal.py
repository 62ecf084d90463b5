"""The journal: events on their way into the metadata log.

Events that arrive while a batch is being written form the next batch, so one write to stable storage
serves as many requests as came in the meantime and a lonely request waits for none.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidegate import metrics
from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.ports import Record, Topics

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

Done = Callable[[TidegateError | None], None]
_LARGEST_BATCH = 2000


class Journal(Protocol):
    def append(self, records: list[Record], done: Done) -> None:
        """Calls `done` in the event loop when the records are on stable storage, or with why they are not."""

    async def close(self) -> None: ...


class TopicJournal:
    """Writes to a topic from one thread of its own."""

    def __init__(self, topics: Topics, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        self._topics = topics
        self._topic = topic
        self._loop = loop
        self._queue: queue.SimpleQueue[tuple[list[Record], Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_forever, name="journal", daemon=True)
        self._thread.start()

    def append(self, records: list[Record], done: Done) -> None:
        self._queue.put((records, done))

    async def close(self) -> None:
        self._queue.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _write_forever(self) -> None:
        closing = False
        while not closing:
            first = self._queue.get()
            if first is None:
                return
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

    def _write(self, batch: list[tuple[list[Record], Done]]) -> None:
        records = [record for entry in batch for record in entry[0]]
        started = time.monotonic()
        failure: TidegateError | None = None
        try:
            self._topics.append(self._topic, records)
        except TidegateError as error:
            failure = error
            logger.error("the metadata log cannot be written: %s; %d changes stay unacknowledged", error, len(records))
        metrics.JOURNAL_SECONDS.observe(time.monotonic() - started)
        if failure is None:
            metrics.JOURNAL_BATCHES.inc()
            metrics.JOURNAL_EVENTS.inc(len(records))
        else:
            metrics.JOURNAL_FAILURES.inc()
        self._loop.call_soon_threadsafe(_tell, batch, failure)


class NoJournal:
    """For measurements: what the log costs is seen when there is none."""

    def append(self, records: list[Record], done: Done) -> None:
        done(None)

    async def close(self) -> None:
        return


def append_events(journal: Journal, events: list[Event], done: Done) -> None:
    """Without events, `done` is called at once."""
    if events:
        journal.append([Record(f"{event.bucket}/{event.key}", event.to_bytes()) for event in events], done)
    else:
        done(None)


async def journalled(gateway: Gateway, events: list[Event]) -> None:
    """Returns when the events are on stable storage; raises why they are not."""
    written: asyncio.Future[None] = gateway.loop.create_future()

    def done(failure: TidegateError | None) -> None:
        if written.done():
            return
        if failure is None:
            written.set_result(None)
        else:
            written.set_exception(failure)

    append_events(gateway.journal, events, done)
    await written


def _tell(batch: list[tuple[list[Record], Done]], failure: TidegateError | None) -> None:
    for _, done in batch:
        done(failure)
