"""The conditions of a single delete that a backend does not compare by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.identities import holds, moment, needs_look
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import DeleteEntry
from tidegate.gateway.changes.preconditions import identity, is_noncurrent
from tidegate.gateway.operations.stored_objects import stat

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_MOST_SIZE_DIGITS = 16
_MODIFIED, _SIZE = b"x-amz-if-match-last-modified-time", b"x-amz-if-match-size"
_UNMODIFIED = b"if-unmodified-since"
_MARKER = b"x-amz-if-match-delete-marker"
_NONCURRENT = b"x-amz-if-noncurrent"
LOOKS = frozenset((_MODIFIED, _SIZE, _UNMODIFIED, _MARKER, _NONCURRENT))
# All conditions of a single delete. The ETag alone is compared by the backend.
CONDITIONS = LOOKS | {b"if-match"}


async def check_meant(exchange: Exchange, admission: Admission) -> None:
    """Raises `S3Error` unless what is there is what the conditions name. The key is locked."""
    if not await _is_meant(exchange.gateway, admission, _named(admission)):
        raise S3Error("PreconditionFailed")


async def _is_meant(gateway: Gateway, admission: Admission, entry: DeleteEntry) -> bool:
    pool, bucket = admission.pool, admission.bucket_name
    if entry.noncurrent and not await is_noncurrent(gateway, pool, bucket, entry.key, entry.version_id):
        return False
    is_marker = _MARKER in admission.head.headers
    if not is_marker and not needs_look(entry):
        return True
    found = await stat(gateway, pool, bucket, entry.key, entry.version_id)
    if is_marker:
        return found is None  # no object is there that could be lost; markers cannot be looked at
    return found is not None and holds(entry, identity(found))


def _named(admission: Admission) -> DeleteEntry:
    """What the headers ask for, but for the ETag, which the backend compares."""
    headers = admission.head.headers
    size = headers.get(_SIZE)
    if size is not None and not (size.isdigit() and len(size) <= _MOST_SIZE_DIGITS):
        raise S3Error("InvalidArgument", f"{_SIZE.decode()} is not a number")
    times = {name: headers[name].decode("latin-1") for name in (_MODIFIED, _UNMODIFIED) if name in headers}
    for name, text in times.items():
        if moment(text) is None:
            raise S3Error("InvalidArgument", f"{name.decode()} is not a time")
    version_id = admission.version_id
    if _NONCURRENT in headers and not version_id:
        raise S3Error("InvalidArgument", f"{_NONCURRENT.decode()} belongs to a version")
    return DeleteEntry(
        admission.object_key,
        version_id,
        last_modified=times.get(_MODIFIED),
        size=None if size is None else int(size),
        unmodified_since=times.get(_UNMODIFIED),
        noncurrent=_NONCURRENT in headers,
    )
