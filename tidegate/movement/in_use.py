"""Whether data is still in use: the owner of the data is asked, which is whoever keeps the records of its component."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tidegate.core import copies, trash
from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.pending_deletes import Component, DataType, PendingDelete
from tidegate.core.placements import PLACEMENTS, Placement, entries_of_key
from tidegate.core.replication import records as replication_records
from tidegate.core.replication import uploads
from tidegate.core.replication.records import ReplicationRecord
from tidegate.core.replication.uploads import ReplicaUpload
from tidegate.core.trash import TrashRecord
from tidegate.ports import Tables
from tidegate.table_pages import every

# Longer than a version that is being brought back takes. After that its restore was broken off.
_RESTORE_SECONDS = 3600.0

InUse = Callable[[PendingDelete], bool]


class NotYet(Conflict):
    """Whether data is in use is not known before a Unix time."""

    def __init__(self, reason: str, not_before: float) -> None:
        super().__init__(reason)
        self.not_before = not_before


class Owners:
    """Asks by component. A component whose owner is not known in this process cannot be judged here: its data waits."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        of_placement = partial(is_placed, tables)
        self._checks: dict[Component, InUse] = {
            Component.PLACEMENT: of_placement,
            Component.VERSION: of_placement,
            Component.UPLOAD: of_placement,
            Component.UNKNOWN: of_placement,
            Component.TRASH: partial(is_kept, tables),
            Component.REPLICA: partial(is_replicated, tables),
        }

    def register(self, component: Component, in_use: InUse) -> None:
        self._checks[component] = in_use

    def in_use(self, pending: PendingDelete) -> bool:
        check = self._checks.get(pending.component)
        if check is None:
            raise Unavailable(f"nobody here can tell whether the data of a {pending.component} is in use")
        return check(pending)

    def in_use_under_any_key(self, pending: PendingDelete) -> bool:
        """Of data that does not tell its key: whether any record of the bucket refers to it. That takes long."""
        return is_placed(self._tables, pending, of_bucket=True)


def is_placed(tables: Tables, pending: PendingDelete, *, of_bucket: bool = False) -> bool:
    """Whether a placement or the trash refers to the data in a location, or a copy is being made there. Of data in a
    pool's own store the gateway knows, which is asked when it is to delete it. Records are those of the key, or of the
    bucket."""
    if pending.data_type is DataType.STORE:
        return False
    return (
        _is_copied(tables, pending)
        or _in_trash(tables, pending, of_bucket=of_bucket) is not None
        or _has_placement(tables, pending, of_bucket=of_bucket)
    )


def is_kept(tables: Tables, pending: PendingDelete, now: Callable[[], float] = time.time) -> bool:
    """Of data in the trash. When its grace is over, the record goes before the data does: from then on nobody can bring
    the version back. Whoever brings it back writes a placement first, and then looks whether the record is still there.
    """
    is_copied = _is_copied(tables, pending)
    found = _in_trash(tables, pending)
    if found is not None:
        text, record = found
        # A message that is due stays so, also if the clock was set back.
        if record.until > max(now(), pending.not_before):
            return True
        if record.is_claimed and now() < record.until + _RESTORE_SECONDS:
            reason = f"{pending.bucket}/{pending.key} is being brought back from the trash"
            raise NotYet(reason, record.until + _RESTORE_SECONDS)
        if not tables.compare_and_set(record.entry, text, None):
            raise Conflict(f"the record of {pending.bucket}/{pending.key} in the trash is being changed")
    return is_copied or _has_placement(tables, pending)


def is_replicated(tables: Tables, pending: PendingDelete) -> bool:
    """Whether the record of a version of the key says that this is its copy at the site, or the upload of one is under
    way."""
    if pending.upload_id:
        of_upload = uploads.entry_of(pending.location, pending.bucket_uid, pending.key, pending.version_id)
        text = tables.get(of_upload)
        return text is not None and ReplicaUpload.from_json(text).upload_id == pending.upload_id
    wanted = (pending.data_bucket, pending.data_version_id)
    of_key = every(tables, replication_records.entries_of_key(pending.bucket_uid, pending.key))
    states = (ReplicationRecord.from_json(text).at(pending.location) for _, text in of_key)
    return any(state is not None and (state.bucket, state.replica_version_id) == wanted for state in states)


# Data goes from a copy to the trash or a placement, and from the trash to a placement. Each record is written before
# the former one goes: asked for in this order, one of them is found.


def _is_copied(tables: Tables, pending: PendingDelete) -> bool:
    return tables.get(copies.entry_of(pending.location, pending.data_key)) is not None


def _in_trash(tables: Tables, pending: PendingDelete, *, of_bucket: bool = False) -> tuple[str, TrashRecord] | None:
    uid = pending.bucket_uid
    for _, text in every(tables, trash.entries_of_bucket(uid) if of_bucket else trash.entries_of_key(uid, pending.key)):
        record = TrashRecord.from_json(text)
        if record.placement.data_key == pending.data_key:
            return text, record
    return None


def _has_placement(tables: Tables, pending: PendingDelete, *, of_bucket: bool = False) -> bool:
    """Data keys are never used twice, and one bucket may be two locations, under two names of its host."""
    uid = pending.bucket_uid
    entries = every(tables, f"{PLACEMENTS}{uid}/" if of_bucket else entries_of_key(uid, pending.key))
    return any(Placement.from_json(text).data_key == pending.data_key for _, text in entries)
