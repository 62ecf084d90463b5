"""`Topics` as files: the embedded default, for one machine.

Each topic is a directory of segments (`logs/NAME`). How far consumer groups have come is in a SQLite file beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidegate.adapters import dead_letters, limits, log_state, sqlite_groups
from tidegate.adapters.file_consumer import FileConsumer
from tidegate.adapters.log_appender import LogAppender
from tidegate.adapters.log_reader import LogReader
from tidegate.adapters.log_segments import Segments
from tidegate.adapters.log_state import LogState, translated
from tidegate.adapters.member_leases import MemberLeases
from tidegate.adapters.sqlite import Database
from tidegate.core.errors import NotFound, Unavailable
from tidegate.ports import Consumer, GroupProgress, Message, Record

_LOGS = "logs"
_GROUPS_FILE = "groups.db"
_LEASES_FILE = "leases"


class FileLog:
    """The log of one topic."""

    def __init__(self, directory: Path) -> None:
        self.topic = directory.name
        self.state = LogState(directory)
        self.appender = LogAppender(directory, self.state)
        self.reader = LogReader(self.topic, self.state, Segments(directory))

    def check(self, partition: int) -> int:
        if not 0 <= partition < self.state.partitions:
            raise NotFound(f"the topic {self.topic!r} has no partition {partition}")
        return partition


class FileTopics:
    def __init__(self, directory: Path, *, lease_seconds: float = 10.0) -> None:
        directory = directory.resolve()  # it may be a link to a place on another disk, which is made there
        self._logs = directory / _LOGS
        with translated(directory):
            for path in (directory, self._logs):
                path.mkdir(mode=0o700, exist_ok=True)
            self._leases = MemberLeases(directory / _LEASES_FILE)
        self._database = Database(directory / _GROUPS_FILE, sqlite_groups.SCHEMA)
        self._lease_seconds = lease_seconds
        self._known: dict[str, FileLog] = {}
        self._closed = False

    def create(self, topic: str, partitions: int) -> None:
        limits.topic_name(topic)
        limits.partition_count(partitions)
        with self._usable():
            log_state.create(self._logs / topic, partitions)

    def names(self) -> list[str]:
        with self._usable():
            return sorted(path.name for path in self._logs.iterdir() if not path.name.startswith("."))

    def append(self, topic: str, records: Sequence[Record]) -> None:
        keys = limits.message_keys(records)
        with self._log(topic) as log:
            if records:
                log.appender.append(keys, records)

    def probe(self, topic: str) -> None:
        with self._log(topic) as log:
            log.appender.probe()

    def consumer(self, topic: str, group: str) -> Consumer:
        limits.group_name(group)
        with self._log(topic) as log:
            return FileConsumer(
                self._put_letter,
                log.reader,
                log.state,
                self._database,
                (topic, group),
                self._leases,
                self._lease_seconds,
            )

    def _put_letter(self, topic: str, letter: Record) -> None:
        """A dead letter is larger than its message, and so may be larger than a message."""
        self.create(topic, dead_letters.PARTITIONS)
        with self._log(topic) as log:
            log.appender.append([letter.key.encode()], [letter])

    def lag(self, topic: str, group: str) -> int:
        limits.group_name(group)
        with self._log(topic) as log:
            with self._database.snapshot() as connection:
                known = sqlite_groups.find(connection, topic, group)
                progress = sqlite_groups.progress(connection, known) if known else {}
            # Looked at second: what a group has come to is in the log.
            bounds = log.reader.bounds()
            return sum(
                progress[partition].lag(first, end) if partition in progress else end - first
                for partition, (first, end) in enumerate(bounds)
            )

    def progress(self, topic: str, group: str) -> GroupProgress:
        limits.group_name(group)
        with self._log(topic) as log:
            with self._database.snapshot() as connection:
                known = sqlite_groups.find(connection, topic, group)
                found = sqlite_groups.progress(connection, known) if known else {}
            reached = [
                max(found[partition].committed, first) if partition in found else first
                for partition, (first, _) in enumerate(log.reader.bounds())
            ]
            return GroupProgress(tuple(reached), sum(one.retries for one in found.values()))

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Message]:
        limits.scan_limit(limit)
        with self._log(topic) as log:
            return log.reader.read(log.check(partition), offset, limit)

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        with self._log(topic) as log:
            return log.reader.bounds()

    def trim(self, topic: str, partition: int, before: int) -> None:
        with self._log(topic) as log:
            _, end = log.reader.bounds()[log.check(partition)]
            log.appender.trim(partition, min(before, end))

    def close(self) -> None:
        self._closed = True
        self._known.clear()
        self._database.close()

    @contextmanager
    def _log(self, topic: str) -> Iterator[FileLog]:
        with self._usable():
            log = self._known.get(topic)
            if log is None:
                limits.topic_name(topic)
                if not (self._logs / topic).exists():
                    raise NotFound(f"there is no topic {topic!r}")
                # Two threads may open it at once; both are right, and one is kept.
                log = self._known.setdefault(topic, FileLog(self._logs / topic))
            yield log

    @contextmanager
    def _usable(self) -> Iterator[None]:
        if self._closed:
            raise Unavailable(f"{self._logs} has been closed")
        with translated(self._logs):
            yield
