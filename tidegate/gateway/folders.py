"""Keys that end in a slash. A store that keeps objects in directories shows every directory as such an object, also one
that nobody has put there."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tidegate.core.ordered_listing import SLASH
from tidegate.core.s3errors import S3Error
from tidegate.gateway import expiration
from tidegate.gateway.list_pages import object_pages

if TYPE_CHECKING:
    from tidegate.gateway.admission import Admission
    from tidegate.gateway.exchange import Exchange

Work = Coroutine[Any, Any, None]


def before_read(exchange: Exchange, admission: Admission) -> Work | None:
    """What is to be known before an object is shown; None if that is nothing."""
    then = expiration.look_up_tags(exchange, admission)
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
