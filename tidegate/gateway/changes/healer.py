"""The healer: looks at the backend for what became of changes that were left open, and logs what it finds.

A gateway that was killed between a backend's success and the log, a backend that failed in the middle of a
change, a log that could not be written: the client was never told of success, but the change may stand. And it may
come about late: a backend whose connection broke can still be at work. So it is looked into again and again, until the
backend has certainly given up or was replaced by another one. Each look logs only what the log does not have.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidegate.assembly import open_topics
from tidegate.core.errors import TidegateError, Unavailable
from tidegate.core.known_events import KnownEvents
from tidegate.core.records import Bucket
from tidegate.gateway.changes.change import Change
from tidegate.gateway.changes.comparing import Comparison
from tidegate.gateway.changes.intents import Intent
from tidegate.gateway.changes.log_tail import LogTail
from tidegate.gateway.placements.settling import settle_left
from tidegate.gateway.requests.directory import Missing, PoolView

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

_ROUND_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


class _Pause(NamedTuple):
    until: float
    seconds: float


@dataclass(slots=True)
class _Doubt:
    """A change whose outcome is unknown since a time of the loop, and when it is looked into next."""

    intent: Intent
    since: float
    pause: _Pause

    def put_off(self, now: float, deadline: float) -> None:
        """The last look is at the deadline."""
        until = min(now + 2 * self.pause.seconds, max(deadline, now + _ROUND_SECONDS))
        self.pause = _Pause(until, min(2 * self.pause.seconds, _LONGEST_PAUSE_SECONDS / 2))


class Healer:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._doubts: dict[int, _Doubt] = {}
        self._pauses: dict[tuple[str, str], _Pause] = {}
        self._tail: LogTail | None = None

    def doubt(self, number: int) -> None:
        """A change of this process whose outcome is unknown."""
        intent = self._gateway.intents.get(number)
        if intent is None:
            return
        now = self._gateway.loop.time()
        self._doubts[number] = _Doubt(intent, now, _Pause(now + _ROUND_SECONDS, _ROUND_SECONDS))
        if self._tail is not None:
            for key, _ in intent.changes:
                self._tail.watch(intent.bucket, key)

    async def open_log(self) -> None:
        """Called before the first request: of a change that came into doubt earlier, the log would not be watched."""
        gateway = self._gateway
        if gateway.settings.metalog.enabled:
            topics = await gateway.loop.run_in_executor(None, open_topics, gateway.settings, gateway.data)
            self._tail = LogTail(topics, gateway.settings.metalog.topic)
            await self._follow_log()

    async def run_forever(self) -> None:
        while True:
            await self._follow_log()
            await asyncio.sleep(_ROUND_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        self._adopt()
        intents, loop = self._gateway.intents, self._gateway.loop
        for number, doubt in list(self._doubts.items()):
            if intents.get(number) is None or (loop.time() >= doubt.pause.until and await self._is_answered(doubt)):
                intents.end(number)
                del self._doubts[number]

    async def _follow_log(self) -> None:
        """What the log gets before a change is in doubt need not be read."""
        if self._tail is None:
            return
        self._tail.keep_only(
            (doubt.intent.bucket, key) for doubt in self._doubts.values() for key, _ in doubt.intent.changes
        )
        try:
            await self._gateway.loop.run_in_executor(None, self._tail.catch_up)
        except TidegateError as error:
            logger.warning("the metadata log cannot be read now: %s", error)

    def _adopt(self) -> None:
        """What gateways that are gone have left open is from here on ours, noted down before it is struck out there."""
        intents = self._gateway.intents
        for file in intents.abandoned():
            count = len(file.left)
            try:
                for number, intent in list(file.left.items()):
                    self.doubt(intents.begin(intent))
                    file.end(number)
            except Unavailable as error:
                logger.warning("changes that another gateway left open cannot be looked into yet: %s", error)
            file.remove_if_done()
            if count:
                gateway = file.path.name.partition("-")[0]
                logger.info("looking into %d changes that gateway %s had left open", count, gateway)

    async def _is_answered(self, doubt: _Doubt) -> bool:
        """Looks into the change, and says whether it need not be looked into again. A bucket that cannot be looked into
        holds up its own changes only, and is asked ever less often."""
        loop, intent = self._gateway.loop, doubt.intent
        place = (intent.pool, intent.bucket)
        pause = self._pauses.get(place)
        if pause is not None and loop.time() < pause.until:
            return False
        deadline = doubt.since + self._gateway.settings.gateway.healing_seconds
        is_last = loop.time() >= deadline
        try:
            places = await self._places(intent)
            if places is not None:
                # Two backends of a pool never run at the same time: the one that had the change is gone.
                is_last = is_last or intent.backend not in ("", places[1].manager_token)
                for key, version_id in intent.changes:
                    await self._look(intent, *places, key, version_id)
        except TidegateError as error:
            logger.warning("a change to %s left open cannot be looked into yet: %s", intent.bucket, error)
            seconds = min(2 * pause.seconds, _LONGEST_PAUSE_SECONDS) if pause is not None else _ROUND_SECONDS
            self._pauses[place] = _Pause(loop.time() + seconds, seconds)
            return False
        self._pauses.pop(place, None)
        doubt.put_off(loop.time(), deadline)
        return is_last or places is None

    async def _look(self, intent: Intent, bucket: Bucket, view: PoolView, key: str, version_id: str) -> None:
        gateway = self._gateway
        change = Change(gateway, intent.bucket)
        try:
            await change.lock([key])
            known = KnownEvents()
            if self._tail is not None:
                known = await gateway.loop.run_in_executor(None, self._tail.known, intent.bucket, key)
            if key:
                await settle_left(gateway, view, intent.bucket, key, version_id)
            comparison = Comparison(gateway, change, intent, bucket, view, key, version_id, known)
            await change.log(await (comparison.events() if key else comparison.bucket_events()))
        finally:
            change.end()

    async def _places(self, intent: Intent) -> tuple[Bucket, PoolView] | None:
        """The bucket and its running pool; None when they are gone, and with them the question."""
        directory = self._gateway.directory
        while True:
            try:
                found = directory.bucket(intent.bucket)
                view = directory.pool(intent.pool)
            except Missing as missing:
                await directory.load(missing)
                continue
            if found is None or view is None or found.bucket.pool != intent.pool:
                return None
            reason = view.disabled(time.time())
            if reason:
                raise Unavailable(f"the pool is not in service: {reason}")
            return found.bucket, await self._gateway.backends.awake(view)
