"""Keys that end in a slash, over a store that keeps objects in directories.

Such a store shows every directory as an object, also one that nobody has put there. It has one place for `a` and `a/`,
so that putting the one replaces the other, and it drops the data of what is put at `a/`.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tidegate.core.ordered_listing import SLASH
from tidegate.core.s3errors import S3Error
from tidegate.gateway.operations.list_pages import object_pages
from tidegate.gateway.operations.stored_objects import stat
from tidegate.gateway.requests import read_headers

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

Work = Coroutine[Any, Any, None]


def before_read(exchange: Exchange, admission: Admission) -> Work | None:
    """What is to be known before an object is shown; None if that is nothing."""
    then = read_headers.look_up(exchange, admission)
    if admission.object_key.endswith(SLASH) and not admission.version_id:
        return _check_existence(exchange, admission, then)
    return then


async def _check_existence(exchange: Exchange, admission: Admission, then: Work | None) -> None:
    """Only objects that were put there are listed."""
    key = admission.object_key
    try:
        if not await object_pages(exchange).has(key):
            raise S3Error("NoSuchKey", fields={"Key": key})
    except BaseException:
        if then is not None:
            then.close()
        raise
    if then is not None:
        await then
    else:
        exchange.forward()


def before_put(exchange: Exchange, admission: Admission) -> Work | None:
    """What is to be known before an object is put, or copied there."""
    is_folder = admission.object_key.endswith(SLASH) and admission.pool.traits.keys_are_paths
    return _put_folder(exchange, admission) if is_folder else None


async def _put_folder(exchange: Exchange, admission: Admission) -> None:
    """With the locks of both keys, so that neither comes about in between."""
    gateway, key, bucket = exchange.gateway, admission.object_key, admission.bucket_name
    stem = key.removesuffix(SLASH)
    admission.pool = await gateway.backends.awake(admission.pool)
    await exchange.change.lock([key, stem])
    if await stat(gateway, admission.pool, bucket, stem) is not None:
        raise S3Error(
            "InvalidArgument", f"the bucket has an object {stem}, which this pool's store would replace by the folder"
        )
    source = admission.copy_source
    if source is not None:
        found = await stat(gateway, admission.pool, source.bucket, source.key, source.version_id)
        problem = admission.pool.traits.body_problem(key, int(found[b"content-length"]) if found else 0)
        if problem:
            raise S3Error("InvalidArgument", problem)
    exchange.forward()
