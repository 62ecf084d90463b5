"""A change to keys of one bucket, from the lock of its keys to its events in the metadata log.

The order of steps is the same for all changes: lock the keys, open the intent, let the backend make the change, give
its events their times, hand them to the log writer, close the intent when the log has them. A key's lock is free
again as soon as its events have their times: later changes have later ones. Whoever began a change ends it, however
it went; an intent that is still open then is looked into by the healer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.events import Event
from tidegate.gateway.changes.intents import Intent
from tidegate.gateway.changes.key_locks import lock_number
from tidegate.gateway.changes.log_writer import Done
from tidegate.ports import Record

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission


class Change:
    __slots__ = ("_bucket", "_gateway", "_has_ended", "_intent", "_locks")

    def __init__(self, gateway: Gateway, bucket: str) -> None:
        self._gateway = gateway
        self._bucket = bucket
        self._locks: list[int] = []
        self._intent = 0
        self._has_ended = False

    # --- the keys' locks -------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        return bool(self._locks)

    def try_lock(self, key: str) -> bool:
        """Whether this change has its keys' locks, or could take that of the key without waiting."""
        if self._locks:
            return True
        number = lock_number(self._bucket, key)
        if not self._gateway.key_locks.try_acquire(number):
            return False
        self._locks = [number]
        return True

    async def lock(self, keys: Iterable[str]) -> None:
        """Takes the locks of all the keys; once per change. Raises `Unavailable` if the change has ended meanwhile."""
        key_locks = self._gateway.key_locks
        self._locks = await key_locks.acquire_all(lock_number(self._bucket, key) for key in keys)
        if self._has_ended:
            self.unlock()
            raise Unavailable("the request has ended before its keys were free")

    def unlock(self) -> None:
        locks, self._locks = self._locks, []
        self._gateway.key_locks.release_all(locks)

    # --- the intent ------------------------------------------------------------------------------

    def open_intent(self, admission: Admission, entries: Iterable[tuple[str, str]] = ()) -> None:
        """Notes the change down before anything goes out that may make it. `entries` are keys with version ids, if not
        the request's own. Raises `Unavailable` if no change can be made now."""
        gateway, view = self._gateway, admission.pool
        gateway.check_writable(admission)
        keys = tuple(entries) or ((admission.object_key, admission.version_id),)
        intent = Intent(time.time(), view.pool.name, self._bucket, keys, admission.upload_id, view.manager_token)
        try:
            self._intent = gateway.intents.begin(intent)
        except Unavailable as error:
            gateway.gate.close(str(error))
            raise

    @property
    def has_intent(self) -> bool:
        """Whether the change may have been made, and the log does not have it yet."""
        return bool(self._intent)

    def close_intent(self) -> None:
        """The change is in the log, or was certainly not made. It may be called again, and after the end."""
        if self._intent:
            self._gateway.intents.end(self._intent)
            self._intent = 0

    def refused(self) -> None:
        """The backend has not made the change."""
        self.close_intent()
        self.unlock()

    # --- the log ---------------------------------------------------------------------------------

    def event_time(self, key: str) -> int:
        """The time of a change to a key whose lock this change has."""
        return self._gateway.key_locks.next_time(lock_number(self._bucket, key), time.time_ns())

    def append(self, events: list[Event], done: Done) -> None:
        """Calls `done` when the events are on stable storage, or with why they are not; without events, at once."""
        if events:
            records = [Record(f"{event.bucket}/{event.key}", event.to_bytes()) for event in events]
            self._gateway.log_writer.append(records, done)
        else:
            done(None)

    async def log(self, events: list[Event]) -> None:
        """Returns when the events are on stable storage; raises why they are not."""
        written: asyncio.Future[None] = self._gateway.loop.create_future()

        def done(failure: TidegateError | None) -> None:
            if written.done():
                return
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

        self.append(events, done)
        await written

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Gives the locks back. What became of a change whose intent is open, the healer finds out."""
        if self._has_ended:
            return
        self._has_ended = True
        self.unlock()
        if self._intent:
            self._gateway.healer.doubt(self._intent)
