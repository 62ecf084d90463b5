"""What follows the copy that a transition needs: the rules are asked once more, and then the gateway has the version
placed. A copy that nobody wants any more goes to deletion."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.copy_tasks import CopyResult, CopyStatus
from tidegate.core.errors import NotFound, Unavailable
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.assignments import Recheck, Result
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.movement.placer import Placer, Settled
from tidegate.ports import Store, Tables

_OUTCOMES = {
    Settled.PLACED: Outcome.DONE,
    Settled.CHANGED: Outcome.NOOP_RESOLVED,
    Settled.GONE: Outcome.NOOP_RESOLVED,
    Settled.REFUSED: Outcome.BLOCKED,
    Settled.FAILED: Outcome.RETRY_LATER,
}


class Transitions:
    """`recheck_of` gives the last look at a bucket's rules. May be shared by threads."""

    def __init__(
        self, tables: Tables, stores: Stores, placer: Placer, recheck_of: Callable[[Bucket, Store], Recheck]
    ) -> None:
        self._tables = tables
        self._stores = stores
        self._placer = placer
        self._recheck_of = recheck_of

    def settle(self, status: CopyStatus, *, is_last: bool) -> Result:
        """`is_last` says that there is no further try: then the copy is not kept."""
        task = status.task.object_task
        assert task is not None, "lifecycle gets the statuses of its own copies"
        try:
            void = self._void(status, task)
            if void is not None:
                self._placer.release(status, void.reason)
                return void
            found = self._placer.settle(status)
            return Result(_OUTCOMES[found.settled], found.reason)
        except Unavailable as error:
            if is_last:
                self._placer.release(status, str(error))
            return Result(Outcome.RETRY_LATER, str(error))

    def drop(self, status: CopyStatus, reason: str) -> None:
        """Of a status that is not acted on because lifecycle was stopped."""
        self._placer.release(status, reason)

    def _void(self, status: CopyStatus, task: ObjectTask) -> Result | None:
        """Why the version is not to be moved any more."""
        if status.result is not CopyResult.COPIED:
            return None
        bucket = existing(self._tables, task.bucket, task.bucket_uid)
        if bucket is None:
            return Result(Outcome.NOOP_RESOLVED, "the bucket is gone")
        try:
            store = self._stores.of_pool(bucket.pool)
        except NotFound as error:
            return Result(Outcome.NOOP_RESOLVED, str(error))
        return self._recheck_of(bucket, store).void([task]).get(0)
