"""Three ways to append a batch: a bare write and sync of as many bytes, the topics in files, and the form in which
topics were kept before (one SQLite file, one row per record).
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tidegate.adapters.file_topics import FileTopics
from tidegate.ports import Record

_PARTITIONS = 4
_VALUE = b"v" * 400
_SCHEMA = """
PRAGMA journal_mode=WAL;
CREATE TABLE partitions (id INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages (position INTEGER PRIMARY KEY, key TEXT, value BLOB, appended_at REAL);
"""

Append = Callable[[Sequence[Record]], None]


def bare(directory: Path) -> Append:
    """The floor: no log that promises stable storage can do with less."""
    fd = os.open(directory / "bare", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def append(records: Sequence[Record]) -> None:
        os.write(fd, b"".join(record.key.encode() + record.value for record in records))
        os.fdatasync(fd)

    return append


def files(directory: Path) -> Append:
    topics = FileTopics(directory / "topics")
    topics.create("log", _PARTITIONS)
    return lambda records: topics.append("log", records)


def sqlite_rows(directory: Path) -> Append:
    connection = sqlite3.connect(directory / "rows.db", isolation_level=None)
    connection.executescript(_SCHEMA)
    connection.execute("PRAGMA synchronous=FULL")
    connection.executemany("INSERT INTO partitions (id) VALUES (?)", [(number,) for number in range(_PARTITIONS)])

    def append(records: Sequence[Record]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        ends: dict[int, int] = dict(connection.execute("SELECT id, next_offset FROM partitions"))
        now, rows = time.time(), []
        for record in records:
            partition = zlib.crc32(record.key.encode()) % _PARTITIONS
            rows.append(((partition << 40) + ends[partition], record.key, record.value, now))
            ends[partition] += 1
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
        connection.executemany("UPDATE partitions SET next_offset = ? WHERE id = ?", [(e, p) for p, e in ends.items()])
        connection.execute("COMMIT")

    return append


def batch(size: int, number: int) -> list[Record]:
    return [Record(f"bucket/key-{number}-{index}", _VALUE) for index in range(size)]


def measure(kinds: dict[str, Append], size: int, rounds: int) -> dict[str, tuple[float, float]]:
    """By kind: the median of the seconds per batch, and the CPU seconds per batch."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    cpu = dict.fromkeys(kinds, 0.0)
    for number in range(rounds):
        records = batch(size, number)
        for name, append in kinds.items():
            used, began = time.process_time(), time.perf_counter()
            append(records)
            seconds[name].append(time.perf_counter() - began)
            cpu[name] += time.process_time() - used
    return {name: (statistics.median(seconds[name]), cpu[name] / rounds) for name in kinds}


def _append_for(directory: Path, seconds: float, done: multiprocessing.Queue[list[float]]) -> None:
    append, took = files(directory), []
    end = time.perf_counter() + seconds
    number = 0
    while (began := time.perf_counter()) < end:
        append(batch(5, number))
        took.append(time.perf_counter() - began)
        number += 1
    done.put(took)


def together(directory: Path, processes: int, seconds: float) -> tuple[float, float]:
    """Batches of 5 by processes at once: the median in seconds, and batches per second."""
    context = multiprocessing.get_context("spawn")
    done: multiprocessing.Queue[list[float]] = context.Queue()
    workers = [context.Process(target=_append_for, args=(directory, seconds, done)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    took = [one for _ in workers for one in done.get()]
    for worker in workers:
        worker.join()
    return statistics.median(took), len(took) / seconds
