"""A member of a consumer group whose topic is a log in files and whose group lives in a SQLite file.

A member that waits sleeps in the kernel until records are committed, or members of a group of the topic come or go;
or until a retry is due or its lease must be renewed, which is a number in memory. So it opens no file while there is
nothing for it.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate.adapters import dead_letters, limits, sqlite_groups
from tidegate.adapters.log_reader import LogReader
from tidegate.adapters.log_state import LogState, translated
from tidegate.adapters.member_leases import Member, MemberLeases
from tidegate.adapters.sqlite import Database
from tidegate.core.errors import Unavailable
from tidegate.ports import Message, Record

# A member that was given less than it asked for lets more come together before it looks again.
GATHER_SECONDS = 0.05
# The time of day, by which retries are due, may jump.
LONGEST_WAIT = 1.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """A partition this member owns: where to read on, and what was delivered and is not finished."""

    position: int
    done: frozenset[int]  # finished by an earlier owner, beyond where this one began
    next_retry: float
    in_flight: set[tuple[int, int]] = field(default_factory=set)  # (offset, attempt)
    leaving_since: float | None = None


class FileConsumer:
    def __init__(
        self,
        put_letter: Callable[[str, Record], None],
        reader: LogReader,
        state: LogState,
        groups: Database,
        names: tuple[str, str],
        leases: MemberLeases,
        lease_seconds: float,
    ) -> None:
        """`put_letter` appends a dead letter to a topic; `names` are those of the topic and the group."""
        self._put_letter = put_letter
        self._reader = reader
        self._state = state
        self._database = groups
        self._leases = leases
        self._lease = lease_seconds
        self._held: dict[int, _Held] = {}  # by partition
        self._generation = self._seen_changes = -1
        self._read_until = -1
        self._members: list[Member] = []
        self._look_again_at = 0.0
        self._turn = 0
        self._closed = False
        with self._changing_members() as connection:
            self._group = sqlite_groups.create(connection, *names, state.partitions)
            self._member = self._join(connection)

    def poll(self, limit: int = 100, timeout: float = 1.0) -> list[Message]:
        limits.scan_limit(limit)
        self._refuse_if_closed()
        deadline = time.monotonic() + timeout
        time.sleep(max(0.0, min(self._look_again_at, deadline) - time.monotonic()))
        while True:
            changes = self._state.changes
            with translated(self._state.directory):
                self._keep_membership()
                batch = self._fetch(limit)
            now = time.monotonic()
            if batch or now >= deadline:
                self._look_again_at = now + GATHER_SECONDS if 0 < len(batch) < limit else 0.0
                return batch
            self._state.wait(changes, min(deadline - now, self._seconds_until_due()))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._finish(messages, lambda connection: None)

    def retry_later(self, message: Message, *, not_before: float) -> None:
        self._finish(
            [message], lambda connection: sqlite_groups.put_retry(connection, self._group, message, not_before)
        )
        held = self._held.get(message.partition)
        if held:
            held.next_retry = min(held.next_retry, not_before)

    def dead_letter(self, message: Message, reason: str) -> None:
        """The letter is written first: if this process dies before the message is finished, there may be two."""
        letter = dead_letters.letter(message, self._group.name, reason)

        topic = dead_letters.topic_for(self._group.topic)
        self._finish([message], lambda connection: self._put_letter(topic, letter))

    def renew(self) -> None:
        """Partitions are given away only by `poll`. A lease that has lapsed stays so: the slot may be another's now."""
        self._refuse_if_closed()
        if self._leases.is_alive(self._member, time.monotonic()):
            self._leases.renew(self._member.slot)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with self._changing_members() as connection:
            sqlite_groups.remove(connection, self._group, [self._member])

    def _seconds_until_due(self) -> float:
        next_retry = min((held.next_retry for held in self._held.values()), default=math.inf)
        return max(0.0, min(next_retry - time.time(), self._lease / 3, LONGEST_WAIT))

    # Membership

    @contextmanager
    def _changing_members(self) -> Iterator[sqlite3.Connection]:
        """A transaction after which the other members look whether their share has changed."""
        with self._database.write() as connection:
            yield connection
        self._tell_members()

    def _tell_members(self) -> None:
        with self._state.lock:
            self._state.announce()

    def _keep_membership(self) -> None:
        """Renews the lease, and takes and gives partitions when members came or went."""
        self._leases.renew(self._member.slot)
        if not (self._members_changed() or self._movable() or self._silent(self._members)):
            return
        with self._database.write() as connection:
            before = sqlite_groups.generation(connection, self._group)
            self._stay_member(connection)
            self._put_out_silent(connection)
            self._members = sqlite_groups.members(connection, self._group)
            self._share(connection, time.monotonic())
            self._generation = sqlite_groups.generation(connection, self._group)
        if self._generation != before:
            self._tell_members()

    def _join(self, connection: sqlite3.Connection) -> Member:
        self._put_out_silent(connection)
        slot = self._leases.free_slot(sqlite_groups.slots(connection))
        self._leases.renew(slot)
        return sqlite_groups.join(connection, self._group, slot, self._lease)

    def _silent(self, members: Sequence[Member]) -> list[Member]:
        now = time.monotonic()
        return [member for member in members if not self._leases.is_alive(member, now)]

    def _put_out_silent(self, connection: sqlite3.Connection) -> None:
        silent = self._silent(sqlite_groups.members(connection, self._group))
        if silent:
            sqlite_groups.remove(connection, self._group, silent)

    def _members_changed(self) -> bool:
        """Appending counts as a change, too; the generation tells."""
        changes = self._state.changes
        if changes == self._seen_changes:
            return False
        with self._database.read() as connection:
            generation = sqlite_groups.generation(connection, self._group)
        self._seen_changes = changes
        return generation != self._generation

    def _stay_member(self, connection: sqlite3.Connection) -> None:
        """Renews the lease, or joins again if the others have put this member out."""
        if self._member in sqlite_groups.members(connection, self._group):
            self._leases.renew(self._member.slot)
            return
        _log.warning(
            "a consumer of group %r of topic %r was silent for more than %g s and lost its partitions",
            self._group.name,
            self._group.topic,
            self._lease,
        )
        self._held.clear()
        self._member = self._join(connection)

    def _share(self, connection: sqlite3.Connection, now: float) -> None:
        share = sqlite_groups.fair_share(self._group.partitions, self._members, self._member)
        for number in list(self._held):
            if number in share:
                self._held[number].leaving_since = None
            elif self._may_leave(self._held[number], now):
                sqlite_groups.release(connection, self._group, self._member, number)
                del self._held[number]
        for number in share - self._held.keys():
            if sqlite_groups.claim(connection, self._group, self._member, number):
                self._held[number] = self._take_over(connection, number)
        self._read_until = -1

    def _take_over(self, connection: sqlite3.Connection, number: int) -> _Held:
        """From now on nobody else finishes messages of the partition or puts them off."""
        progress = sqlite_groups.progress(connection, self._group)[number]
        retries = sqlite_groups.retry_times(connection, self._group, number, 1)
        return _Held(progress.committed, progress.done, retries[0][0] if retries else math.inf)

    def _may_leave(self, held: _Held, now: float) -> bool:
        """A partition goes to another member when its messages are finished, or after one lease."""
        if held.leaving_since is None:
            held.leaving_since = now
        return not held.in_flight or now > held.leaving_since + self._lease

    def _movable(self) -> bool:
        now = time.monotonic()
        return any(held.leaving_since is not None and self._may_leave(held, now) for held in self._held.values())

    # Delivery

    def _fetch(self, limit: int) -> list[Message]:
        """Retries and first deliveries, in turns first, so that neither kind can starve the other."""
        self._turn += 1
        kinds: list[Callable[[int, int], list[Message]]] = [self._fetch_new, self._fetch_retries]
        if self._turn % 2:
            kinds.reverse()
        numbers = sorted(number for number, held in self._held.items() if held.leaving_since is None)
        start = self._turn % len(numbers) if numbers else 0
        committed = self._state.committed
        batch: list[Message] = []
        for fetch in kinds:
            for number in numbers[start:] + numbers[:start]:
                if len(batch) < limit:
                    batch += fetch(number, limit - len(batch))
        for message in batch:
            self._held[message.partition].in_flight.add((message.offset, message.attempt))
        if len(batch) < limit:
            self._read_until = committed
        return batch

    def _fetch_new(self, number: int, limit: int) -> list[Message]:
        found: list[Message] = []
        held = self._held[number]
        while self._read_until != self._state.committed and len(found) < limit:
            page = self._reader.read(number, held.position, limit - len(found))
            if not page:
                break
            held.position = page[-1].offset + 1
            found += [message for message in page if message.offset not in held.done]
        return found

    def _fetch_retries(self, number: int, limit: int) -> list[Message]:
        held, now = self._held[number], time.time()
        if now < held.next_retry:
            return []
        most = limit + len(held.in_flight)
        with self._database.snapshot() as connection:
            due = sqlite_groups.due_retries(connection, self._group, number, now, most)
            times = sqlite_groups.retry_times(connection, self._group, number, most + 1)
        found = [message for message in due if (message.offset, message.attempt) not in held.in_flight][:limit]
        taken = held.in_flight | {(message.offset, message.attempt) for message in found}
        held.next_retry = min((at for at, *which in times if tuple(which) not in taken), default=math.inf)
        return found

    # Completion

    def _finish(self, messages: Iterable[Message], also: Callable[[sqlite3.Connection], None]) -> None:
        """Marks messages as done, with whatever `also` writes, in one transaction.

        What this member no longer owns is left alone: it is being delivered to another one.
        """
        self._refuse_if_closed()
        member = self._member
        with self._database.write() as connection:
            self._stay_member(connection)
            owned = sqlite_groups.owned(connection, self._group, self._member)
            for lost in self._held.keys() - owned:
                del self._held[lost]
            mine = [message for message in messages if self._is_in_flight(message)]
            for number in {message.partition for message in mine}:
                self._finish_in(connection, number, [message for message in mine if message.partition == number])
            if mine:
                also(connection)
        if self._member != member:
            self._tell_members()
        for message in mine:
            self._held[message.partition].in_flight.discard((message.offset, message.attempt))

    def _finish_in(self, connection: sqlite3.Connection, number: int, messages: list[Message]) -> None:
        for message in messages:
            if message.attempt > 1:
                sqlite_groups.drop_retry(connection, self._group, message)
        offsets = [message.offset for message in messages if message.attempt == 1]
        sqlite_groups.finish(connection, self._group, number, self._state.starts[number], offsets)

    def _is_in_flight(self, message: Message) -> bool:
        held = self._held.get(message.partition)
        return (
            message.topic == self._group.topic
            and held is not None
            and (message.offset, message.attempt) in held.in_flight
        )

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("this consumer has been closed; join the group again")
