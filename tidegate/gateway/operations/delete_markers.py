"""Delete markers in place of objects that a backend does not find.

SeaweedFS says of them no more than that nothing is there. Where a bucket may have markers, a reply of status 404 is
looked into, and the client learns what S3 would tell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedVersion
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.bucket_states import learn_versioning
from tidegate.gateway.changes.key_versions import key_versions
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests.forwarding import ask_signed, object_path

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

logger = logging.getLogger(__name__)

_MARKER = "x-amz-delete-marker"
_VERSION_ID = "x-amz-version-id"
# A backend that says both has said it all.
_COMPLETE = frozenset((_MARKER.encode(), _VERSION_ID.encode()))
_ATTRIBUTES = ((b"x-amz-object-attributes", b"ObjectSize"),)

Look = Callable[[], Awaitable[S3Error | None]]


def of_object(exchange: Exchange, reply: ResponseHead) -> Look | None:
    """The look that tells what is to be answered in place of a reply of status 404. Buckets that never had versions
    have no markers, and cost nothing."""
    if exchange.admitted.versioning is Versioning.OFF or reply.headers.keys() >= _COMPLETE:
        return None
    return partial(_of_object, exchange)


def of_source(exchange: Exchange, reply: ResponseHead) -> Look | None:
    """The same for the source of a copy. Only one that is named with its version can be more than missing."""
    source = exchange.admitted.copy_source
    return partial(_of_source, exchange) if source is not None and source.version_id else None


async def _of_object(exchange: Exchange) -> S3Error | None:
    admission = exchange.admitted
    await learn_versioning(exchange)
    if not admission.has_versions:
        return None
    marker = await _found(exchange, admission.bucket_name, admission.object_key, admission.version_id)
    if marker is None:
        return None
    headers = {_MARKER: "true", _VERSION_ID: marker.version_id}
    if not admission.version_id:
        return S3Error("NoSuchKey", headers=headers, fields={"Key": admission.object_key})
    headers |= {"Allow": "DELETE", "Last-Modified": formatdate(marker.last_modified, usegmt=True)}
    fields = {"Method": admission.operation.method, "ResourceType": "DeleteMarker"}
    return S3Error("MethodNotAllowed", headers=headers, fields=fields)


async def _of_source(exchange: Exchange) -> S3Error | None:
    source = exchange.admitted.copy_source
    assert source is not None
    if await _found(exchange, source.bucket, source.key, source.version_id) is None:
        return None
    return S3Error(
        "InvalidRequest", "The source of a copy request may not specifically refer to a delete marker by version id."
    )


async def _found(exchange: Exchange, bucket: str, key: str, version_id: str) -> ListedVersion | None:
    """The marker that stands there. A look that fails leaves the backend's answer as it is: it is true, too."""
    gateway, view = exchange.gateway, exchange.admitted.pool
    try:
        if not version_id and not await _newest_is_marker(exchange, bucket, key):
            return None
        versions = await key_versions(gateway, view, bucket, key)
    except TidegateError as error:
        logger.warning("request %s: delete markers cannot be looked for: %s", exchange.request_id, error)
        return None
    markers = (each for each in versions if each.is_marker)
    return next((each for each in markers if (each.version_id == version_id if version_id else each.is_latest)), None)


async def _newest_is_marker(exchange: Exchange, bucket: str, key: str) -> bool:
    """The one question to which SeaweedFS answers that there is a marker. It costs less than a listing."""
    view = exchange.admitted.pool
    reply = await ask_signed(
        exchange.gateway, view, b"GET", object_path(bucket, key), b"attributes=", headers=_ATTRIBUTES
    )
    return reply.head.status == 404 and reply.head.headers.get(_MARKER.encode()) == b"true"
