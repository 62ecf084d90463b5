"""Reading a Kafka partition by offset, without a consumer group."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from tidegate.adapters.kafka_client import REQUEST_SECONDS, Cluster, translated, translating
from tidegate.adapters.kafka_messages import source_of
from tidegate.core.errors import Unavailable

CURSORS_KEPT = 8


@dataclass(slots=True)
class _Cursor:
    """A client placed in one partition; reading on from where it stands costs no new request."""

    client: Consumer
    offset: int = -1
    end: int = 0  # of the partition, when it was last asked for

    def leave(self) -> None:
        """Stops asking for more; the next reader places it anew."""
        self.client.unassign()
        self.offset = -1


class PartitionReader:
    """May be shared by threads; they take turns."""

    def __init__(self, settings: Mapping[str, Any], cluster: Cluster) -> None:
        self._cluster = cluster
        self._settings = {
            **settings,
            "group.id": "unused",  # the library asks for one; nothing is ever committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16384,
            # A request for messages that do not exist yet keeps the connection from the next one.
            "fetch.wait.max.ms": 20,
        }
        self._lock = threading.Lock()
        self._cursors: OrderedDict[tuple[str, int], _Cursor] = OrderedDict()

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[KafkaMessage]:
        """Up to `limit` messages from `offset` on; fewer only at the end of the partition."""
        with self._lock, translating():
            cursor = self._cursor(topic, partition)
            if offset != cursor.offset or offset + limit > cursor.end:
                # Asked of the cluster, not of the cursor, whose connection may be waiting for messages.
                [(first, cursor.end)] = self._cluster.bounds(topic, [partition])
                offset = max(offset, first)
            if offset >= cursor.end:
                return []
            if offset != cursor.offset:
                cursor.client.assign([TopicPartition(topic, partition, offset)])
                cursor.offset = offset
            found = _read_on(cursor, limit)
            if cursor.offset >= cursor.end:
                cursor.leave()
            return found

    def close(self) -> None:
        with self._lock:
            while self._cursors:
                self._cursors.popitem()[1].client.close()

    def _cursor(self, topic: str, partition: int) -> _Cursor:
        cursor = self._cursors.pop((topic, partition), None) or _Cursor(Consumer(self._settings))
        self._cursors[topic, partition] = cursor
        if len(self._cursors) > CURSORS_KEPT:
            self._cursors.popitem(last=False)[1].client.close()
        return cursor


def _read_on(cursor: _Cursor, limit: int) -> list[KafkaMessage]:
    found: list[KafkaMessage] = []
    deadline = time.monotonic() + REQUEST_SECONDS
    while len(found) < limit and cursor.offset < cursor.end:
        wanted = min(limit - len(found), cursor.end - cursor.offset)
        for message in cursor.client.consume(wanted, 1.0):
            error = message.error()
            if error:
                cursor.leave()
                raise translated(error)
            found.append(message)
            cursor.offset = source_of(message).offset + 1
            deadline = time.monotonic() + REQUEST_SECONDS
        if time.monotonic() > deadline:
            cursor.leave()
            raise Unavailable(f"the Kafka cluster sent nothing for {REQUEST_SECONDS:.0f} s")
    return found
