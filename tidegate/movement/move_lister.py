"""Lists what moves are about and publishes its tasks, and closes the moves that have ended.

One process at a time does this. It keeps how far it came in the tables after each page, so that another goes on from
there; a page that was published twice is counted once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from threading import Event as Flag

from tidegate.core.copy_tasks import DATA_MOVER_TOPIC, CopyTask
from tidegate.core.errors import NotFound, Refused, Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.listings import ListedVersion
from tidegate.core.placements import HAS_PLACEMENTS, Placement, entries_of_key
from tidegate.core.records import Bucket
from tidegate.lease import Lease
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.movement.move_records import ItemId, Move, MoveRecords, Tally
from tidegate.movement.mover_topics import MOVEMENT_RESULTS_TOPIC
from tidegate.ports import Record, Tables, Topics
from tidegate.table_pages import every
from tidegate.walking import LARGEST_PAGE, UNSHOWABLE, walk

_LEASE, _LEASE_SECONDS = "movement/lister", 60.0
# How often to look for a new move, and whether one that is under way has ended.
_LOOK_SECONDS, _END_SECONDS = 0.5, 0.2

logger = logging.getLogger(__name__)


class MoveLister:
    """Tasks of which nothing was heard for `lost_seconds` after all was listed are lost. For one thread."""

    def __init__(
        self, tables: Tables, topics: Topics, stores: Stores, *, lost_seconds: float = math.inf, stop: Flag
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._stores = stores
        self._lost_seconds = lost_seconds
        self._stop = stop
        self._records = MoveRecords(tables)
        self._has_moves = False
        self._lease = Lease(tables, _LEASE, seconds=_LEASE_SECONDS)

    def run_forever(self) -> None:
        while not self._stop.is_set():
            if not self.run_once():
                self._stop.wait(_END_SECONDS if self._has_moves else _LOOK_SECONDS)

    def run_once(self) -> bool:
        """One page of each move, one after the other. True if there is more to list."""
        moves = self._records.under_way()
        self._has_moves = bool(moves)
        if not moves or not self._lease.try_acquire():
            return False
        steps = []
        for move in moves:
            if not self._lease.renew():
                return False
            steps.append(self._step(move))
        return any(steps)

    def close(self) -> None:
        self._lease.release()

    def _step(self, move: Move) -> bool:
        if move.ended_at is not None:  # its end was written, and nothing else
            self._records.end(move)
        elif move.is_listed:
            self._end_if_done(move)
        else:
            return self._list(move)
        return False

    def _end_if_done(self, move: Move) -> None:
        tally = self._records.tally(move)
        if tally.waiting and time.time() > max(move.began_at, move.listed_at) + self._lost_seconds:
            reason = f"{tally.waiting} tasks were lost: their topic was trimmed, or they became dead letters"
            tally = tally.plus(Tally(failed=tally.waiting, waiting=-tally.waiting, reasons=(reason,)))
        if not tally.waiting:
            self._records.end(move.ended(tally, now=time.time()))
            logger.info(
                "move %s has ended: %d moved, %d failed, %d unchanged",
                move.id, tally.moved, tally.failed, tally.unchanged,
            )  # fmt: skip

    def _list(self, move: Move) -> bool:
        """One page. True if another one follows."""
        bucket = existing(self._tables, move.bucket, move.bucket_uid)
        try:
            if bucket is None:
                raise NotFound(f"the bucket {move.bucket} is gone")
            listed = self._listed(move, bucket)
        except (NotFound, Refused) as error:
            failed = replace(move, problem=str(error), is_listed=True)
            self._records.end(failed.ended(self._records.tally(move).plus(Tally(failed=1)), now=time.time()))
            return False
        except Unavailable as error:
            logger.warning("move %s waits: %s", move.id, error)
            self._records.update(replace(move, problem=str(error)))
            return False
        self._records.update(listed)
        return not listed.is_listed

    def _listed(self, move: Move, bucket: Bucket) -> Move:
        """The move with one page more, whose tasks are published."""
        store = self._stores.of_pool(bucket.pool)
        found = walk(store, bucket.name, prefix=move.prefix, marker=move.marker, limit=LARGEST_PAGE)
        versions = [version for key in found.keys.values() for version in key if _is_meant(move, version)]
        locations = self._locations_of(bucket, found.keys)
        wanted = [version for version in versions if locations.get(_name(version), "") != move.location]
        if wanted and not move.dry_run:
            self._records.begin_page(move.id, move.pages, len(wanted))
            self._publish(move, bucket, wanted)
        return replace(
            move,
            marker=found.next_marker,
            pages=move.pages + 1,
            is_listed=not found.next_marker,
            listed_at=0.0 if found.next_marker else time.time(),
            total=move.total + len(wanted),
            bytes=move.bytes + sum(version.size for version in wanted),
            skipped=move.skipped + len(versions) - len(wanted),
            problem="",
        )

    def _locations_of(self, bucket: Bucket, keys: Iterable[str]) -> dict[tuple[str, str], str]:
        """Where versions of the keys lie by their records, by key and id. The class of one that was brought back from
        the trash does not tell."""
        if self._tables.get(HAS_PLACEMENTS + bucket.uid) is None:
            return {}
        texts = (text for key in keys for _, text in every(self._tables, entries_of_key(bucket.uid, key)))
        records = (record for record in map(Placement.from_json, texts) if not record.is_void)
        return {(record.key, record.version_id): record.location for record in records}

    def _publish(self, move: Move, bucket: Bucket, wanted: list[ListedVersion]) -> None:
        records = [
            Record(f"{bucket.uid}/{version.key}", _task(move, ItemId(move.id, move.pages, place), version).to_bytes())
            for place, version in enumerate(wanted)
        ]
        self._topics.append(DATA_MOVER_TOPIC, records)


def _is_meant(move: Move, version: ListedVersion) -> bool:
    """A key that no listing can show cannot be named either."""
    return not version.is_marker and (move.versions or version.is_latest) and UNSHOWABLE not in version.key


def _name(version: ListedVersion) -> tuple[str, str]:
    return version.key, version.version_id or NULL_VERSION


def _task(move: Move, item: ItemId, version: ListedVersion) -> CopyTask:
    return CopyTask(
        owner="",
        bucket=move.bucket,
        key=version.key,
        version_id=version.version_id,
        bucket_uid=move.bucket_uid,
        location=move.location,
        storage_class=move.storage_class,
        results_topic=MOVEMENT_RESULTS_TOPIC,
        request_id=str(item),
        size=version.size,
        etag=version.etag,
        last_modified=version.modified,
        back=move.back,
    )
