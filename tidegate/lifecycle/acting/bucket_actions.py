"""Carrying out object tasks in one bucket: conditional deletes in batches, and what became of each.

A task names the identity that was judged. Whatever else is found under its key is left alone: the object was replaced,
or somebody was quicker. After an attempt whose answer was lost, an object that is gone counts as our doing.

Right before each request it is checked that its tasks still hold (`Recheck`). What is to be deleted may have to be kept
elsewhere before that (`Keeper`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tidegate.core.errors import Conflict, NotFound, Refused, Unavailable
from tidegate.core.events import NULL_VERSION
from tidegate.core.identities import Identity, holds, moment
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.due import ROLES
from tidegate.core.lifecycle.subjects import VersionRole
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.xml import MOST_DELETES, DeleteEntry, DeleteFailure
from tidegate.lifecycle.acting.assignments import Assignment, Keeper, Recheck, Result
from tidegate.ports import Look, Store

TRIES = 3
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
# A character of a key can take six bytes in XML.
_MOST_KEY_BYTES = 256 * 1024
_TROUBLE = frozenset({"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout"})
_GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
_CHANGED = "PreconditionFailed"
_OF_NONCURRENT = frozenset(kind for kind, roles in ROLES.items() if VersionRole.NONCURRENT in roles)
# What XML 1.0 cannot hold, or what its parsers change.
_NOT_FOR_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\r\ud800-\udfff\ufffe\uffff]")


def batches(assignments: Sequence[Assignment], most: int = MOST_DELETES) -> Iterator[list[Assignment]]:
    """In stretches that fit into one request; none has two tasks for the same version."""
    batch: list[Assignment] = []
    places: set[tuple[str, str]] = set()
    size = 0
    for assignment in assignments:
        place = (assignment.task.key, sent_version(assignment.task))
        if batch and (len(batch) >= min(most, MOST_DELETES) or place in places or size > _MOST_KEY_BYTES):
            yield batch
            batch, places, size = [], set(), 0
        batch.append(assignment)
        places.add(place)
        size += len(assignment.task.key.encode())
    if batch:
        yield batch


class _Attempts:
    """What became of a batch so far. Of those that are `repeated` an earlier attempt may have been made."""

    def __init__(self, batch: Sequence[Assignment]) -> None:
        self._batch = batch
        self.results: dict[int, Result] = {}
        self.repeated = {number for number, assignment in enumerate(batch) if assignment.is_repeated}

    def task(self, number: int) -> ObjectTask:
        return self._batch[number].task

    def left(self) -> list[int]:
        return [number for number in range(len(self._batch)) if number not in self.results]

    def end_left(self, result: Result) -> None:
        self.results.update(dict.fromkeys(self.left(), result))


class Actor:
    """Acts in one bucket. `pause` waits for so many seconds and tells whether to go on; `keeps_null_markers` says
    that the store cannot remove them. Without a `recheck` tasks are taken at their word; without a `keeper` nothing
    that is deleted is kept."""

    def __init__(
        self,
        store: Store,
        bucket: str,
        *,
        now_ns: int,
        pause: Callable[[float], bool],
        keeps_null_markers: bool = False,
        recheck: Recheck | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self._store = store
        self._bucket = bucket
        self._now_ns = now_ns
        self._pause = pause
        self._keeps_null_markers = keeps_null_markers
        self._recheck = recheck
        self._keeper = keeper
        self._locks: bool | None = None

    def act(self, batch: Sequence[Assignment]) -> list[Result]:
        """The results in the order of the batch."""
        attempts = _Attempts(batch)
        seconds = _FIRST_PAUSE_SECONDS
        for attempt in range(TRIES):
            trouble = self._attempt(attempts)
            if not attempts.left() or (attempt < TRIES - 1 and not self._pause(seconds)):
                break
            seconds = min(2 * seconds, _LONGEST_PAUSE_SECONDS)
        self._forget(attempts)
        postponed = Result(Outcome.RETRY_LATER, trouble or "the store has trouble")
        return [attempts.results.get(number, postponed) for number in range(len(batch))]

    def _forget(self, attempts: _Attempts) -> None:
        """What was kept for tasks that were not carried out. Of those that are tried again nothing is known yet, and an
        attempt whose answer was lost may have been carried out, whatever a later one says."""
        if self._keeper is not None:
            for number, result in attempts.results.items():
                if result.outcome not in (Outcome.DONE, Outcome.RETRY_LATER) and number not in attempts.repeated:
                    self._keeper.forget(attempts.task(number))

    def _attempt(self, attempts: _Attempts) -> str:
        """Notes the results of those that came to an end; the others must be tried again. Gives the trouble if any."""
        together: list[int] = []
        try:
            for number in attempts.left():
                task = attempts.task(number)
                if task.effect is Effect.DELETE and self._is_locked(task):
                    attempts.results[number] = Result(Outcome.SKIPPED_OBJECT_LOCK, "the version is locked")
                elif _goes_alone(task):
                    self._send(attempts, [number], self._alone)
                else:
                    together.append(number)
            most = self._recheck.most([attempts.task(number) for number in together]) if self._recheck else MOST_DELETES
            for start in range(0, len(together), most):
                self._send(attempts, together[start : start + most], self._together)
        except Refused as error:
            attempts.end_left(Result(Outcome.BLOCKED, str(error)))
        except NotFound as error:
            attempts.end_left(Result(Outcome.NOOP_RESOLVED, str(error)))
        except Unavailable as error:
            return str(error)
        return ""

    def _send(self, attempts: _Attempts, numbers: list[int], request: Callable[[_Attempts, list[int]], None]) -> None:
        """Has those of them sent that still hold. Keeping takes its time: then they are checked once more."""
        sent = self._still(attempts, numbers, self._void)
        if self._keeper is not None:
            sent = self._still(attempts, self._still(attempts, sent, self._keeper.keep), self._void)
        if not sent:
            return
        try:
            request(attempts, sent)
        except Unavailable:
            attempts.repeated.update(sent)  # nothing is known of them
            raise

    def _still(
        self,
        attempts: _Attempts,
        numbers: list[int],
        check: Callable[[Sequence[ObjectTask]], dict[int, Result]],
    ) -> list[int]:
        """Those that are still to be carried out after a check, which gives the results of the others."""
        for place, result in (check([attempts.task(number) for number in numbers]) if numbers else {}).items():
            number = numbers[place]
            was_done = number in attempts.repeated and self._is_gone(attempts.task(number))
            attempts.results[number] = _gone(True, "") if was_done else result
        return [number for number in numbers if number not in attempts.results]

    def _void(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        return self._recheck.void(tasks) if self._recheck is not None else {}

    def _together(self, attempts: _Attempts, numbers: list[int]) -> None:
        places = {(task.key, sent_version(task)): number for number in numbers for task in [attempts.task(number)]}
        answer = self._store.delete_many(self._bucket, [_entry(attempts.task(number)) for number in numbers])
        for done in answer.deleted:
            if (done.key, done.version_id) in places:
                attempts.results[places[done.key, done.version_id]] = Result(Outcome.DONE)
        for failure in answer.failures:
            found = places.get((failure.key, failure.version_id))
            if found is None:
                continue
            if failure.code in _TROUBLE:
                attempts.repeated.add(found)  # it may have been done all the same
            else:
                is_repeated = found in attempts.repeated
                attempts.results[found] = self._explained(failure, attempts.task(found), is_repeated)

    def _alone(self, attempts: _Attempts, numbers: list[int]) -> None:
        for number in numbers:
            attempts.results[number] = self._one(attempts.task(number), number in attempts.repeated)

    def _one(self, task: ObjectTask, is_repeated: bool) -> Result:
        """What a multiple delete cannot express."""
        if is_null_marker(task) and self._keeps_null_markers:
            return Result(Outcome.NOOP_RESOLVED, "the pool's store cannot remove delete markers of the null version")
        try:
            if task.effect is Effect.ABORT_UPLOAD:
                self._store.abort_upload(self._bucket, task.key, task.upload_id)
            else:
                self._store.delete(self._bucket, _entry(task), only_marker=task.effect is Effect.REMOVE_MARKER)
            return Result(Outcome.DONE)
        except NotFound as error:
            return _gone(is_repeated, str(error))
        except Conflict:
            return self._changed(task, is_repeated)

    def _explained(self, failure: DeleteFailure, task: ObjectTask, is_repeated: bool) -> Result:
        if failure.code in _GONE:
            return _gone(is_repeated, failure.code)
        if failure.code == _CHANGED:
            return self._changed(task, is_repeated)
        if task.effect is Effect.DELETE and self._is_locked(task):
            return Result(Outcome.SKIPPED_OBJECT_LOCK, "the version is locked")
        return Result(Outcome.BLOCKED, f"{failure.code}: {failure.message}")

    def _changed(self, task: ObjectTask, is_repeated: bool) -> Result:
        """Some stores list another ETag than they compare: then time and size decide, and the true ETag is sent."""
        found = self._store.look(self._bucket, task.key, sent_version(task))
        if found is None and not (task.effect is Effect.REMOVE_MARKER and _is_demoted(task)):
            return _gone(is_repeated, "it is gone")
        if found is None or task.effect is Effect.REMOVE_MARKER or not _is_same_write(task, found):
            reason = "it is the current version again" if _is_demoted(task) else "it was replaced"
            return Result(Outcome.NOOP_RESOLVED, reason)
        void = self._void([task])
        if void:
            return void[0]
        try:
            self._store.delete(self._bucket, _entry(task)._replace(etag=f'"{found.etag}"'))
            return Result(Outcome.DONE)
        except (Conflict, NotFound):
            return Result(Outcome.NOOP_RESOLVED, "it was replaced")

    def _is_gone(self, task: ObjectTask) -> bool:
        """Only of objects: the store does not show markers and uploads in the same way."""
        return (
            task.effect in (Effect.DELETE, Effect.EXPIRE)
            and self._store.look(self._bucket, task.key, sent_version(task)) is None
        )

    def _is_locked(self, task: ObjectTask) -> bool:
        if self._locks is None:
            self._locks = self._store.locks_objects(self._bucket)
        if not self._locks:
            return False
        found = self._store.look(self._bucket, task.key, sent_version(task))
        if found is None:
            return False
        until_ns = found.retained_until_ns
        return found.legal_hold or (until_ns is not None and until_ns > self._now_ns)


def is_null_marker(task: ObjectTask) -> bool:
    return task.effect is Effect.REMOVE_MARKER and task.version_id in ("", NULL_VERSION)


def _gone(is_repeated: bool, why: str) -> Result:
    if is_repeated:
        return Result(Outcome.DONE, "by an attempt whose answer was lost")
    return Result(Outcome.NOOP_RESOLVED, why)


def sent_version(task: ObjectTask) -> str:
    """Expiring the current version adds a marker: no version is named. Elsewhere the id says what is meant."""
    return "" if task.effect is Effect.EXPIRE else task.version_id


def _entry(task: ObjectTask) -> DeleteEntry:
    """Only what has an id that is never used again, a version by name, needs no other identity. But when the versions
    after it are removed it becomes the current one, which nobody judged."""
    version_id, noncurrent = sent_version(task), _is_demoted(task)
    if task.effect is Effect.REMOVE_MARKER or version_id not in ("", NULL_VERSION):
        return DeleteEntry(task.key, version_id, noncurrent=noncurrent)
    return DeleteEntry(
        task.key,
        version_id,
        etag=f'"{task.etag}"' if task.etag else None,
        last_modified=task.last_modified or None,
        size=task.size,
        unmodified_since=None if task.last_modified else task.unmodified_since,
        noncurrent=noncurrent,
    )


def _is_demoted(task: ObjectTask) -> bool:
    """Whether an object or a delete marker is to go because it is a noncurrent version."""
    return task.kind in _OF_NONCURRENT and task.effect in (Effect.DELETE, Effect.REMOVE_MARKER)


def _goes_alone(task: ObjectTask) -> bool:
    if task.effect is Effect.ABORT_UPLOAD or _NOT_FOR_XML.search(task.key):
        return True
    # The null version's id is used again: an object may have taken the marker's place.
    return is_null_marker(task)


def _is_same_write(task: ObjectTask, found: Look) -> bool:
    judged = DeleteEntry(task.key, last_modified=task.last_modified, size=task.size)
    present = Identity(found.etag, found.size, moment(found.last_modified))
    return bool(task.last_modified) and holds(judged, present) and task.etag != found.etag
