"""Appending to Kafka so that it is known to be stored: idempotent, acknowledged by all in-sync replicas."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Producer

from tidegate.adapters.kafka_client import translated, translating
from tidegate.core.errors import Unavailable

STORE_SECONDS = 30.0
_POLL_SECONDS = 0.2
_FULL_QUEUE_PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class Outgoing:
    key: bytes
    value: bytes
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class _Outcome:
    """Gathers the delivery reports of one batch."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self._complete = threading.Event()
        self.error: KafkaError | None = None

    def report(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.error = error
        self._missing -= 1
        if self._missing == 0:
            self._complete.set()

    def wait(self, seconds: float) -> bool:
        return self._complete.wait(seconds)


class StoringProducer:
    """May be shared by threads. The connection is made at the first `send`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {
            **settings,
            "enable.idempotence": True,
            "acks": "all",
            # Every key, the empty one too, has its partition; Java's producers choose the same.
            "partitioner": "murmur2",
            "delivery.timeout.ms": int(STORE_SECONDS * 1000),
            "linger.ms": 1,
        }
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._closed = False

    def send(self, topic: str, batch: Sequence[Outgoing]) -> None:
        """Returns when every message of the batch is stored. If it raises, some may be."""
        producer = self._current()
        outcome = _Outcome(len(batch))
        for outgoing in batch:
            self._enqueue(producer, topic, outgoing, outcome)
        # The library gives up by itself; the margin only covers its reports' way to us.
        if not outcome.wait(STORE_SECONDS + 10):
            raise Unavailable("the Kafka cluster did not say whether the messages were stored")
        if outcome.error is not None:
            if outcome.error.fatal():
                self._discard(producer)
            raise translated(outcome.error)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(STORE_SECONDS)

    def _enqueue(self, producer: Producer, topic: str, outgoing: Outgoing, outcome: _Outcome) -> None:
        place: dict[str, Any] = {} if outgoing.partition is None else {"partition": outgoing.partition}
        while True:
            try:
                with translating():
                    producer.produce(
                        topic,
                        key=outgoing.key,
                        value=outgoing.value,
                        headers=list(outgoing.headers),
                        on_delivery=outcome.report,
                        **place,
                    )
                return
            except BufferError:
                time.sleep(_FULL_QUEUE_PAUSE)

    def _current(self) -> Producer:
        with self._lock:
            if self._closed:
                raise Unavailable("these topics have been closed")
            if self._producer is None:
                with translating():
                    self._producer = Producer(self._settings)
                threading.Thread(target=self._serve_reports, args=[self._producer], daemon=True).start()
            return self._producer

    def _serve_reports(self, producer: Producer) -> None:
        """Calls back as reports come in, whichever thread waits for them."""
        while self._producer is producer:
            producer.poll(_POLL_SECONDS)

    def _discard(self, broken: Producer) -> None:
        with self._lock:
            if self._producer is broken:
                self._producer = None
