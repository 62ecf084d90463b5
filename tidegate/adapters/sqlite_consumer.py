"""A member of a consumer group whose topic and group live in a SQLite file."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.adapters import dead_letters, limits, sqlite_groups, sqlite_log
from tidegate.adapters.sqlite import Database
from tidegate.adapters.sqlite_groups import Group
from tidegate.core.errors import Unavailable
from tidegate.ports import Message

SHORTEST_WAIT = 0.01
LONGEST_WAIT = 0.1

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """A partition this member owns: where to read on, and what was delivered and is not finished."""

    position: int
    in_flight: set[tuple[int, int]] = field(default_factory=set)  # (offset, attempt)
    leaving_since: float | None = None


class SqliteConsumer:
    def __init__(self, database: Database, group: Group, lease_seconds: float) -> None:
        self._database = database
        self._group = group
        self._lease = lease_seconds
        self._numbers = {identity: number for number, identity in enumerate(group.topic.partition_ids)}
        self._held: dict[int, _Held] = {}  # by partition number
        self._generation = -1
        self._renewed_at = time.monotonic()
        self._turn = 0
        self._closed = False
        with database.write() as connection:
            self._member = sqlite_groups.join(connection, group, self._renewed_at, lease_seconds)

    def poll(self, limit: int = 100, timeout: float = 1.0) -> list[Message]:
        limits.scan_limit(limit)
        self._refuse_if_closed()
        deadline = time.monotonic() + timeout
        wait = SHORTEST_WAIT
        while True:
            self._keep_membership()
            batch = self._fetch(limit)
            remaining = deadline - time.monotonic()
            if batch or remaining <= 0:
                return batch
            time.sleep(min(wait, remaining))
            wait = min(2 * wait, LONGEST_WAIT)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._finish(messages, lambda connection: None)

    def retry_later(self, message: Message, *, not_before: float) -> None:
        self._finish(
            [message], lambda connection: sqlite_groups.put_retry(connection, self._group, message, not_before)
        )

    def dead_letter(self, message: Message, reason: str) -> None:
        letter = dead_letters.letter(message, self._group.name, reason)

        def append_letter(connection: sqlite3.Connection) -> None:
            name = dead_letters.topic_for(self._group.topic.name)
            topic = sqlite_log.create(connection, name, dead_letters.PARTITIONS)
            sqlite_log.append(connection, topic, [letter.key.encode()], [letter])

        self._finish([message], append_letter)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with self._database.write() as connection:
            sqlite_groups.leave(connection, self._group, self._member)

    # Membership

    def _keep_membership(self) -> None:
        """Renews the lease in good time, and takes and gives partitions when members came or went."""
        with self._database.read() as connection:
            generation = sqlite_groups.generation(connection, self._group)
        renewal_due = time.monotonic() > self._renewed_at + self._lease / 3
        waits_to_leave = any(held.leaving_since is not None for held in self._held.values())
        if not (renewal_due or generation != self._generation or (waits_to_leave and self._movable())):
            return
        with self._database.write() as connection:
            now = time.monotonic()
            self._renew(connection, now)
            sqlite_groups.put_out_silent(connection, self._group, now)
            self._share(connection, now)
            self._generation = sqlite_groups.generation(connection, self._group)

    def _renew(self, connection: sqlite3.Connection, now: float) -> None:
        if not sqlite_groups.renew(connection, self._member, now):
            _log.warning(
                "a consumer of group %r of topic %r was silent for more than %g s and lost its partitions",
                self._group.name,
                self._group.topic.name,
                self._lease,
            )
            self._held.clear()
            self._member = sqlite_groups.join(connection, self._group, now, self._lease)
        self._renewed_at = now

    def _share(self, connection: sqlite3.Connection, now: float) -> None:
        share = {
            self._numbers[identity] for identity in sqlite_groups.fair_share(connection, self._group, self._member)
        }
        for number in list(self._held):
            if number in share:
                self._held[number].leaving_since = None
            elif self._may_leave(self._held[number], now):
                sqlite_groups.release(connection, self._group, self._member, self._identity(number))
                del self._held[number]
        for number in share - self._held.keys():
            if sqlite_groups.claim(connection, self._group, self._member, self._identity(number)):
                self._held[number] = _Held(sqlite_groups.committed(connection, self._group, self._identity(number)))

    def _may_leave(self, held: _Held, now: float) -> bool:
        """A partition goes to another member when its messages are finished, or after one lease."""
        if held.leaving_since is None:
            held.leaving_since = now
        return not held.in_flight or now > held.leaving_since + self._lease

    def _movable(self) -> bool:
        now = time.monotonic()
        return any(held.leaving_since is not None and self._may_leave(held, now) for held in self._held.values())

    def _identity(self, number: int) -> int:
        return self._group.topic.partition_ids[number]

    # Delivery

    def _fetch(self, limit: int) -> list[Message]:
        """Retries and first deliveries, in turns first, so that neither kind can starve the other."""
        self._turn += 1
        kinds: list[Callable[[sqlite3.Connection, int, int], list[Message]]] = [self._fetch_new, self._fetch_retries]
        if self._turn % 2:
            kinds.reverse()
        numbers = sorted(number for number, held in self._held.items() if held.leaving_since is None)
        start = self._turn % len(numbers) if numbers else 0
        batch: list[Message] = []
        with self._database.snapshot() as connection:
            for fetch in kinds:
                for number in numbers[start:] + numbers[:start]:
                    if len(batch) < limit:
                        batch += fetch(connection, number, limit - len(batch))
        for message in batch:
            held = self._held[message.partition]
            held.in_flight.add((message.offset, message.attempt))
            if message.attempt == 1:
                held.position = message.offset + 1
        return batch

    def _fetch_new(self, connection: sqlite3.Connection, number: int, limit: int) -> list[Message]:
        return sqlite_groups.unfinished(connection, self._group, number, self._held[number].position, limit)

    def _fetch_retries(self, connection: sqlite3.Connection, number: int, limit: int) -> list[Message]:
        in_flight = self._held[number].in_flight
        due = sqlite_groups.due_retries(connection, self._group, number, time.time(), limit + len(in_flight))
        return [message for message in due if (message.offset, message.attempt) not in in_flight][:limit]

    # Completion

    def _finish(self, messages: Iterable[Message], also: Callable[[sqlite3.Connection], None]) -> None:
        """Marks messages as done, with whatever `also` writes, in one transaction.

        What this member no longer owns is left alone: it is being delivered to another one.
        """
        self._refuse_if_closed()
        with self._database.write() as connection:
            self._renew(connection, time.monotonic())
            owned = sqlite_groups.owned(connection, self._group, self._member)
            for lost in [number for number in self._held if self._identity(number) not in owned]:
                del self._held[lost]
            mine = [message for message in messages if self._is_in_flight(message)]
            for number in {message.partition for message in mine}:
                self._finish_in(connection, number, [message for message in mine if message.partition == number])
            if mine:
                also(connection)
        for message in mine:
            self._held[message.partition].in_flight.discard((message.offset, message.attempt))

    def _finish_in(self, connection: sqlite3.Connection, number: int, messages: list[Message]) -> None:
        for message in messages:
            if message.attempt > 1:
                sqlite_groups.drop_retry(connection, self._group, message)
        first = [message.offset for message in messages if message.attempt == 1]
        sqlite_groups.finish(connection, self._group, self._identity(number), first)

    def _is_in_flight(self, message: Message) -> bool:
        held = self._held.get(message.partition)
        return (
            message.topic == self._group.topic.name
            and held is not None
            and (message.offset, message.attempt) in held.in_flight
        )

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("this consumer has been closed; join the group again")
