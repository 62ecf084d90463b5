"""What follows a copy: the gateway is asked to record that the version's data lies there now.

Until the answer is known the copy's own record refers to the data. Then the placement does; or, if the version was
changed meanwhile, nobody, and the data goes to deletion.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.copies import Copy
from tidegate.core.copy_tasks import CopyResult, CopyStatus
from tidegate.core.errors import Conflict, InvalidInput, NotFound, Refused
from tidegate.core.placements import Placement, entry_of
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.movement.copy_progress import CopyProgress
from tidegate.ports import Tables


class Settled(StrEnum):
    """How a copy ended. `PLACED`: the version lies there. `CHANGED` and `GONE`: it is not there any more, or another
    one is. `REFUSED`: it cannot be moved. `FAILED`: it could not be copied."""

    PLACED = "placed"
    CHANGED = "changed"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Settlement:
    settled: Settled
    reason: str = ""


_OF_RESULT = {
    CopyResult.CHANGED: Settled.CHANGED,
    CopyResult.GONE: Settled.GONE,
    CopyResult.REFUSED: Settled.REFUSED,
    CopyResult.FAILED: Settled.FAILED,
}
_OF_OUTCOME = {
    "placed": Settled.PLACED,
    "already": Settled.PLACED,
    "changed": Settled.CHANGED,
    "gone": Settled.GONE,
    "refused": Settled.REFUSED,
}


class Placer:
    """May be shared by threads."""

    def __init__(self, tables: Tables, progress: CopyProgress, stores: Stores) -> None:
        self._tables = tables
        self._progress = progress
        self._stores = stores

    def settle(self, status: CopyStatus) -> Settlement:
        """Raises `Unavailable` while it is unknown how it ends: asking again is safe."""
        if status.result is not CopyResult.COPIED:
            return Settlement(_OF_RESULT[status.result], status.reason)
        if status.task.back:
            return Settlement(Settled.PLACED)
        copy = self._copy_of(status)
        if copy is None:
            return self._settled_before(status)
        found = self._place(status, copy)
        if found.settled is Settled.PLACED:
            self._progress.end(copy)
        else:
            self._progress.release(copy, found.reason or found.settled.value)
        return found

    def release(self, status: CopyStatus, reason: str) -> None:
        """Has the copy deleted: nobody wants the version to move any more."""
        copy = self._copy_of(status)
        if copy is not None:
            self._progress.release(copy, reason)

    def _copy_of(self, status: CopyStatus) -> Copy | None:
        """None if the copy was settled before, or there is none. The data of such a copy may be gone: it must never be
        placed a second time."""
        if not status.data_key:
            return None
        found = self._progress.of_task(status.task.id)
        return found if found is not None and found.data_key == status.data_key else None

    def _settled_before(self, status: CopyStatus) -> Settlement:
        task = status.task
        text = self._tables.get(entry_of(task.bucket_uid, task.key, task.version_id))
        if text is not None and Placement.from_json(text).data_key == status.data_key:
            return Settlement(Settled.PLACED)
        return Settlement(Settled.CHANGED, "the copy was settled before")

    def _place(self, status: CopyStatus, copy: Copy) -> Settlement:
        task = status.task
        bucket = existing(self._tables, task.bucket, task.bucket_uid)
        if bucket is None:
            return Settlement(Settled.GONE, "the bucket is gone")
        request: dict[str, object] = {
            "location": copy.location,
            "data_key": status.data_key,
            "data_etag": status.data_etag,
            "storage_class": task.storage_class,
            "etag": status.etag,
            "size": status.size,
            "last_modified": status.last_modified,
            "request_id": task.request_id,
        }
        try:
            answer = self._stores.of_pool(bucket.pool).place(task.bucket, task.key, task.version_id, request)
        except NotFound as error:
            return Settlement(Settled.GONE, str(error))
        except Conflict as error:
            return Settlement(Settled.CHANGED, str(error))
        except (Refused, InvalidInput) as error:
            return Settlement(Settled.REFUSED, str(error))
        outcome = str(answer.get("outcome", ""))
        if outcome not in _OF_OUTCOME:
            return Settlement(Settled.REFUSED, f"the gateway answered with the unknown outcome {outcome!r}")
        return Settlement(_OF_OUTCOME[outcome], str(answer.get("reason", "")))
