"""How much of a version a site has: all of it, or the parts of an upload that is under way."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.errors import TidegateError
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.uploads import ReplicaUpload, entry_of
from tidegate.ports import Store, Tables


def arrived_bytes(tables: Tables, store_of: Callable[[str], Store], record: ReplicationRecord, state: SiteState) -> int:
    """Of a site that cannot be asked, nothing is known to have arrived."""
    if state.status is Status.COMPLETED:
        return record.size
    text = tables.get(entry_of(state.site, record.bucket_uid, record.key, record.version_id))
    if text is None:
        return 0
    upload = ReplicaUpload.from_json(text)
    try:
        parts = store_of(state.site).parts(upload.site_bucket, upload.key, upload.upload_id)
    except TidegateError:
        return 0
    return min(record.size, sum(part.size for part in parts))
