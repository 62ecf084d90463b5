"""Has failed versions listed: an entry of the tables for each, which expires.

It reads a topic of its own, so that what has failed waits there while the tables are away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from threading import Event as Flag

from tidegate.core.errors import InvalidInput
from tidegate.core.records import Bucket
from tidegate.core.replication.failed_keys import FailedKey, listed_value
from tidegate.core.replication.messages import FAILED_GROUP, FAILED_TOPIC, FailedVersion
from tidegate.core.replication.records import ReplicationRecord, Status, entry_of
from tidegate.ports import Tables, Topics
from tidegate.workers.delivery import DONE, Answer, Delivery
from tidegate.workers.worker import Worker

_HOUR_SECONDS = 3600.0

logger = logging.getLogger(__name__)


class FailedConsumer:
    """`hours` is how long an entry stays. For one thread."""

    def __init__(self, tables: Tables, topics: Topics, *, hours: float, lease_seconds: float, stop: Flag) -> None:
        self._tables = tables
        self._seconds = hours * _HOUR_SECONDS
        self._worker: Worker[FailedVersion] = Worker(
            topics,
            tables,
            topic=FAILED_TOPIC,
            group=FAILED_GROUP,
            decode=FailedVersion.from_bytes,
            handle_batch=self._process,
            lease_seconds=lease_seconds,
            stop=stop,
        )
        self.run_once, self.run_forever = self._worker.run_once, self._worker.run_forever

    def close(self) -> None:
        self._worker.close()

    def _process(self, deliveries: Sequence[Delivery[FailedVersion]]) -> Iterator[Answer]:
        """When the tables are away, all of it comes again, for as long as it takes."""
        for delivery in deliveries:
            try:
                failed = FailedKey.parse(delivery.task.key)
            except InvalidInput as error:
                logger.error("a failure cannot be listed: %s", error)
            else:
                self._list(failed)
            yield DONE

    def _list(self, failed: FailedKey) -> None:
        since = self._failed_since(failed)
        if since is not None:
            self._tables.put(failed.entry, listed_value(since), expires_in=self._seconds)

    def _failed_since(self, failed: FailedKey) -> float | None:
        """It may have been tried again, or be gone, since it was told."""
        text = self._tables.get(Bucket.PREFIX + failed.bucket)
        if text is None:
            return None
        found = self._tables.get(entry_of(Bucket.from_json(text).uid, failed.key, failed.version_id))
        state = ReplicationRecord.from_json(found).at(failed.site) if found is not None else None
        return state.since if state is not None and state.status is Status.FAILED else None
