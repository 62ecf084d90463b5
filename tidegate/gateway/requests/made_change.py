"""What follows a change that the backend has made: its events go to the log, then the client is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.core.events import Event
from tidegate.core.s3errors import S3Error
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.placements.settling import may_have_placements, settle_change

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange


def log_change(exchange: Exchange, reply: ResponseHead, body: bytes, release: Callable[[], None]) -> None:
    """Calls `release` when the log has the change, unless the operation answers it in its own way."""
    operation = exchange.admitted.operation
    build = operation.events
    assert build is not None
    logged = partial(_logged, exchange, reply, release)
    if operation.settles and may_have_placements(exchange):
        exchange.spawn(_log_settled(exchange, reply, body, logged))
        return
    try:
        events = build(exchange, exchange.admitted, reply, body)
    except S3Error as error:
        exchange.refuse(error)
    except TidegateError as error:
        exchange.backend_failed(error)
    else:
        if isinstance(events, list):
            _log(exchange, events, logged)
        else:
            exchange.spawn(_log_later(exchange, events, logged))


async def _log_settled(
    exchange: Exchange, reply: ResponseHead, body: bytes, logged: Callable[[TidegateError | None], None]
) -> None:
    """Records of moved versions are brought in step with the change before anybody is told of it."""
    build = exchange.admitted.operation.events
    assert build is not None
    if reply.status < 300:
        await settle_change(exchange)
    events = build(exchange, exchange.admitted, reply, body)
    _log(exchange, events if isinstance(events, list) else await events, logged)


async def _log_later(
    exchange: Exchange, events: Awaitable[list[Event]], logged: Callable[[TidegateError | None], None]
) -> None:
    _log(exchange, await events, logged)


def _log(exchange: Exchange, events: list[Event], logged: Callable[[TidegateError | None], None]) -> None:
    """Hands the events over and unlocks the keys: later changes have later times."""
    exchange.wait(exchange.gateway.patience_seconds)
    exchange.made = events[0] if events else None
    change = exchange.change
    change.append(events, logged)
    change.unlock()


def _logged(
    exchange: Exchange, reply: ResponseHead, release: Callable[[], None], failure: TidegateError | None
) -> None:
    if failure is not None:
        exchange.backend_failed(failure)
        return
    exchange.change.close_intent()
    if exchange.finished:
        return  # the client is gone
    answer = exchange.admitted.operation.reply
    if answer is not None:
        answer(exchange, reply)
    else:
        release()
