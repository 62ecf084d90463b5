"""What the topics in files leave on the disk, and what becomes of it when a process dies or the disk is full."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk

from tidegate import brief_calls
from tidegate.adapters import log_appender, log_state
from tidegate.adapters.file_topics import FileTopics
from tidegate.core.errors import Full, Unavailable
from tidegate.ports import Record


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "topics"


def segments(place: Path, topic: str = "t") -> list[Path]:
    return sorted((place / "logs" / topic).glob("*.log"))


def values(topics: FileTopics, topic: str = "t") -> list[bytes]:
    """Of all partitions, one after the other, checked to be without gaps."""
    found = []
    for partition, (first, end) in enumerate(topics.bounds(topic)):
        messages = topics.read(topic, partition, 0, 1_000_000)
        assert [message.offset for message in messages] == list(range(first, end))
        found += [message.value for message in messages]
    return found


def test_files_are_for_the_service_alone(place: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 2)
    topics.append("t", [Record("k", b"v")])
    topics.consumer("t", "g").close()
    for path in (place, *place.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    topics.close()


def test_a_batch_is_written_once_and_synced_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = FileTopics(place)
    topics.create("t", 4)
    topics.append("t", [Record("k", b"v")])
    calls: list[str] = []
    real_write, real_sync = brief_calls.write, os.fdatasync
    monkeypatch.setattr(brief_calls, "write", lambda *what: calls.append("write") or real_write(*what))
    monkeypatch.setattr(os, "fdatasync", lambda fd: calls.append("sync") or real_sync(fd))
    topics.append("t", [Record(f"k{number}", b"v") for number in range(50)])
    assert calls == ["write", "sync"]
    assert len(values(topics)) == 51
    topics.close()


def test_most_batches_leave_the_size_of_the_file_as_it_is(place: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 1)
    sizes = set()
    for number in range(200):
        topics.append("t", [Record("k", b"%d" % number + bytes(2000))])
        sizes.add(segments(place)[0].stat().st_size)
        if number % 50 == 0:
            FileTopics(place).close()  # who opens the log leaves the room as it is
    assert len(sizes) <= 3
    assert len(values(topics)) == 200
    topics.close()


def test_a_batch_is_seen_only_when_it_is_synced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics, other = FileTopics(place), FileTopics(place)
    topics.create("t", 1)
    seen: list[list[bytes]] = []
    real_sync = os.fdatasync

    def sync(fd: int) -> None:
        seen.append(values(other))
        real_sync(fd)

    topics.append("t", [Record("k", b"1")])
    assert values(other) == [b"1"]
    monkeypatch.setattr(os, "fdatasync", sync)
    topics.append("t", [Record("k", b"2")])
    assert seen == [[b"1"]]
    assert values(other) == [b"1", b"2"]
    topics.close()
    other.close()


def test_a_batch_that_another_sync_covered_needs_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics, other = FileTopics(place), FileTopics(place)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"1")])
    other.append("t", [Record("k", b"2")])
    real_sync = os.fdatasync
    syncs = 0

    def sync(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == 1:  # meanwhile another process writes and syncs
            other.append("t", [Record("k", b"4")])
        real_sync(fd)

    monkeypatch.setattr(os, "fdatasync", sync)
    topics.append("t", [Record("k", b"3")])
    assert values(topics) == values(other) == [b"1", b"2", b"3", b"4"]
    topics.close()
    other.close()


def test_a_tail_torn_at_any_byte_is_not_seen_and_cut_off_by_the_next_who_appends(place: Path, tmp_path: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 2)
    topics.append("t", [Record("a", b"1"), Record("b", b"2")])
    [segment] = segments(place)
    written = log_state.LogState(place / "logs" / "t")
    before = segment.read_bytes()[: written.written]
    topics.append("t", [Record("a", b"3"), Record("b", b"4")])
    batch = segment.read_bytes()[len(before) : written.written]
    topics.close()
    for length, room in product(range(len(batch)), (b"", bytes(100))):
        torn = tmp_path / "torn"
        shutil.copytree(place, torn)
        state = log_state.LogState(torn / "logs" / "t")
        state.written = state.committed = len(before)
        segments(torn)[0].write_bytes(before + batch[:length] + room)
        reader, writer = FileTopics(torn), FileTopics(torn)
        assert sorted(values(reader)) == [b"1", b"2"]
        writer.probe("t")
        segments(torn)[0].write_bytes(before + batch[:length] + room)  # as by a process that dies while they use it
        state.is_writing = True
        writer.append("t", [Record("a", b"5")])
        assert sorted(values(reader)) == sorted(values(FileTopics(torn))) == [b"1", b"2", b"5"]
        shutil.rmtree(torn)


@pytest.mark.parametrize("spoilt", [b"", b"\0" * 300, b"\xff" * 300])
def test_a_state_from_before_a_power_cut_loses_no_batch_that_is_whole(place: Path, spoilt: bytes) -> None:
    topics = FileTopics(place)
    topics.create("t", 2)
    state = log_state.LogState(place / "logs" / "t")
    early = state.committed
    for number in range(10):
        topics.append("t", [Record(f"k{number}", b"%d" % number)])
    topics.close()
    whole = state.committed
    with segments(place)[0].open("ab") as file:
        file.write(spoilt)
    state.committed = early
    state.written = whole + 100
    again = FileTopics(place)
    assert sorted(values(again)) == [b"%d" % number for number in range(10)]
    again.append("t", [Record("k", b"next")])
    assert len(values(again)) == 11
    assert state.committed == state.written
    assert not segments(place)[0].read_bytes()[state.written :].strip(b"\0")
    again.close()


def test_a_log_that_is_damaged_in_its_midst_says_so(place: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 1)
    for number in range(3):
        topics.append("t", [Record("k", b"value %d" % number)])
    topics.close()
    content = segments(place)[0].read_bytes()
    segments(place)[0].write_bytes(content.replace(b"value 1", b"value 7"))
    again = FileTopics(place)
    with pytest.raises(Unavailable, match="damaged"):
        again.read("t", 0, 0, 10)
    again.close()


KILLED = """
import sys
from pathlib import Path
from tidegate.adapters.file_topics import FileTopics
from tidegate.ports import Record

topics = FileTopics(Path(sys.argv[1]))
number = int(sys.argv[2])
while True:
    topics.append("t", [Record(f"k{number + step}", b"%d" % (number + step) + bytes(3000)) for step in range(5)])
    number += 5
    print(number, flush=True)
"""


def test_a_killed_process_loses_nothing_it_was_told_is_kept_and_leaves_no_part_of_a_batch(place: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 3)
    told = 0
    for round_number in range(8):
        start = 1_000_000 * round_number
        command = [sys.executable, "-c", KILLED, str(place), str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            for _ in range(3 + 7 * round_number):
                told += 5
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            told += 5 * len(process.stdout.read().split())
        topics.append("t", [Record("k", b"-%d." % round_number)])
        found = [value.rstrip(b"\0") for value in values(topics)]
        mine = sorted(int(value) for value in found if not value.startswith(b"-"))
        assert len(mine) - told in (0, 5 * (round_number + 1)) or len(mine) % 5 == 0
        assert len(mine) >= told
        told = len(mine)
        for begin in range(round_number + 1):
            of_round = [number for number in mine if number // 1_000_000 == begin]
            assert of_round == list(range(begin * 1_000_000, begin * 1_000_000 + len(of_round)))
            assert len(of_round) % 5 == 0
    assert sum(value.startswith(b"-") for value in values(topics)) == 8
    topics.close()


def test_a_disk_that_refuses_a_part_of_a_batch_leaves_nothing_of_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = FileTopics(place)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"before")])
    real_write = brief_calls.write

    def write(fd: int, data: bytes, at: int) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real_write(fd, data[:100], at)

    monkeypatch.setattr(brief_calls, "write", write)
    with pytest.raises(Full, match="disk is full"):
        topics.append("t", [Record("k", bytes(250))])
    monkeypatch.undo()
    topics.append("t", [Record("k", b"after")])
    assert values(topics) == [b"before", b"after"]
    topics.close()


def test_what_could_not_be_synced_is_taken_away_also_what_others_wrote_behind_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, other = FileTopics(place), FileTopics(place)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"before")])
    other.append("t", [Record("k", b"before too")])
    real_sync, failures = os.fdatasync, iter([True])

    def sync(fd: int) -> None:
        if next(failures, False):
            raise OSError(5, "Input/output error")
        real_sync(fd)

    def sync_after_a_failure_of_the_other(fd: int) -> None:
        monkeypatch.setattr(os, "fdatasync", sync)
        with pytest.raises(Unavailable, match="Input/output error"):
            other.append("t", [Record("k", b"lost too")])

    monkeypatch.setattr(os, "fdatasync", sync_after_a_failure_of_the_other)
    with pytest.raises(Unavailable, match="refused"):
        topics.append("t", [Record("k", b"lost")])
    assert values(topics) == values(other) == [b"before", b"before too"]
    for writer in (topics, other):
        writer.append("t", [Record("k", b"after")])
    assert values(topics) == values(other) == [b"before", b"before too", b"after", b"after"]
    topics.close()
    other.close()


@pytest.mark.parametrize("what", ["probe", "a new segment"])
def test_a_sync_that_fails_beside_a_batch_takes_the_batch_away(
    place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The kernel tells of a failure once: the sync of the batch itself would succeed."""
    topics = FileTopics(place)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"before")])
    real_sync = os.fdatasync

    def fail(fd: int) -> None:
        monkeypatch.setattr(os, "fdatasync", real_sync)
        raise OSError(5, "Input/output error")

    def sync_after_the_other(fd: int) -> None:
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(Unavailable, match="Input/output error"):
            if what == "probe":
                topics.probe("t")
            else:
                monkeypatch.setattr(log_appender, "SEGMENT_BYTES", 1)
                topics.append("t", [Record("k", b"lost too")])
        real_sync(fd)

    monkeypatch.setattr(os, "fdatasync", sync_after_the_other)
    with pytest.raises(Unavailable, match="refused"):
        topics.append("t", [Record("k", b"lost")])
    assert values(topics) == [b"before"]
    topics.append("t", [Record("k", b"after")])
    topics.probe("t")
    assert values(topics) == values(FileTopics(place)) == [b"before", b"after"]
    topics.close()


def test_segments_follow_each_other_and_trimming_removes_those_that_hold_nothing_else(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_appender, "SEGMENT_BYTES", 2000)
    topics, other = FileTopics(place), FileTopics(place)
    topics.create("t", 2)
    records = [Record(f"k{number % 7}", b"%03d" % number + bytes(100)) for number in range(300)]
    for start in range(0, 300, 3):
        (topics if start % 2 else other).append("t", records[start : start + 3])
    count = len(segments(place))
    assert count > 10
    for reader in (topics, other, FileTopics(place)):
        assert sorted(values(reader)) == [record.value for record in records]
        for partition, (_, end) in enumerate(reader.bounds("t")):
            for offset in range(0, end, 11):
                assert [message.offset for message in reader.read("t", partition, offset, 1)] == [offset]
    ends = [end for _, end in topics.bounds("t")]
    topics.trim("t", 0, ends[0])
    assert len(segments(place)) == count, "the other partition is still in them"
    topics.trim("t", 1, ends[1] - 1)
    assert len(segments(place)) < 3
    for reader in (topics, other, FileTopics(place)):
        assert reader.bounds("t") == [(ends[0], ends[0]), (ends[1] - 1, ends[1])]
        assert len(values(reader)) == 1
        assert [message.offset for message in reader.read("t", 1, 0, 10)] == [ends[1] - 1]
    other.append("t", [Record("k", b"next")])
    assert len(values(FileTopics(place))) == 2


def test_readers_go_on_while_what_they_read_is_trimmed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_appender, "SEGMENT_BYTES", 3000)
    writer, reader = FileTopics(place), FileTopics(place)
    writer.create("t", 1)
    done = threading.Event()
    failures: list[BaseException] = []

    def write_and_trim() -> None:
        try:
            for number in range(400):
                writer.append("t", [Record("k", b"%d" % (3 * number + step) + bytes(150)) for step in range(3)])
                if number % 5 == 4:
                    writer.trim("t", 0, 3 * number - 20)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=write_and_trim)
    thread.start()
    while not done.is_set():
        (first, _) = reader.bounds("t")[0]
        for page_size in (1, 7, 1000):
            page = reader.read("t", 0, first, page_size)
            offsets = [message.offset for message in page]
            assert offsets == list(range(offsets[0], offsets[0] + len(page))) if page else True
            assert all(message.value.rstrip(b"\0") == b"%d" % message.offset for message in page)
    thread.join()
    assert not failures
    assert reader.bounds("t") == [(1177, 1200)]
    assert len(reader.read("t", 0, 0, 100)) == 23


def test_a_lock_held_elsewhere_makes_appending_unavailable_and_reading_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_state, "BUSY_SECONDS", 0.2)
    topics = FileTopics(place)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"1")])
    held = log_state.LogState(place / "logs" / "t")
    with held.lock:
        with pytest.raises(Unavailable, match="locked"):
            topics.append("t", [Record("k", b"2")])
        for reader in (topics, FileTopics(place)):
            assert values(reader) == [b"1"]
    topics.append("t", [Record("k", b"2")])
    assert values(topics) == [b"1", b"2"]
    topics.close()


def test_closed_topics_say_so(place: Path) -> None:
    topics = FileTopics(place)
    topics.create("t", 1)
    topics.close()
    with pytest.raises(Unavailable, match="closed"):
        topics.bounds("t")
    with pytest.raises(Unavailable, match="closed"):
        topics.append("t", [Record("k", b"v")])


def test_a_place_that_cannot_be_used_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        FileTopics(tmp_path / "missing" / "topics")


ON_A_FULL_DISK = """
from tidegate.adapters.file_topics import FileTopics
from tidegate.core.errors import Full
from tidegate.ports import Record

topics = FileTopics(disk / "topics")
topics.create("t", 2)
topics.append("t", [Record("k", b"before")])
fill()

def refused(call):
    for _ in range(3000):  # what the file has got beforehand is used up first
        try:
            call()
        except Full:
            return True
    return False

print(refused(lambda: topics.append("t", [Record("k", bytes(5000)), Record("l", bytes(5000))])))
print(refused(lambda: topics.probe("t")), refused(lambda: topics.create("u", 1)))
kept = [len(message.value) for partition in (0, 1) for message in topics.read("t", partition, 0, 10000)]
print(kept.count(6), kept.count(5000) % 2, topics.names())
free()
topics.probe("t")
topics.append("t", [Record("k", b"after")])
topics.create("u", 1)
print(sum(end for _, end in FileTopics(disk / "topics").bounds("t")) == len(kept) + 1)
"""


@needs_small_disk
def test_a_full_disk_refuses_to_write_goes_on_reading_and_takes_up_again(tmp_path: Path) -> None:
    done = run_on_small_disk(ON_A_FULL_DISK, tmp_path / "disk", size="8m")
    assert done.stdout.splitlines() == ["True", "True True", "1 0 ['t']", "True"], done.stderr


def test_who_slept_while_everything_was_trimmed_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_appender, "SEGMENT_BYTES", 500)
    busy, sleepers = FileTopics(place), [FileTopics(place) for _ in range(3)]
    busy.create("t", 2)
    for sleeper in sleepers:
        sleeper.append("t", [Record("a", b"early"), Record("b", b"early")])
        assert len(values(sleeper)) > 0
    for number in range(60):
        busy.append("t", [Record(f"k{number}", bytes(100))])
    for partition, (_, end) in enumerate(busy.bounds("t")):
        busy.trim("t", partition, end)
    assert len(segments(place)) == 1
    assert sleepers[0].bounds("t") == busy.bounds("t")
    assert sleepers[1].read("t", 0, 0, 10) == []
    sleepers[2].append("t", [Record("a", b"late")])
    for topics in (busy, *sleepers):
        assert values(topics) == [b"late"]
