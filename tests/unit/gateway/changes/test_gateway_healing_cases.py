"""The file of changes under way when things go wrong: full disks, several processes, files that come and go."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.core.errors import Unavailable
from tidegate.gateway.changes import intents as intents_module
from tidegate.gateway.changes.intents import Intent, Intents, parse


def intent(key: str = "k", version: str = "", upload: str = "") -> Intent:
    return Intent(1.5, "pool", "bucket", ((key, version),), upload)


def keys_in(path: Path) -> list[str]:
    return [entry.changes[0][0] for entry in parse(path.read_bytes()).values()]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "intents"


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """A file that cannot grow beyond this, as on a full disk: the last write is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- the format ----------------------------------------------------------------------------------


def test_what_is_written_can_be_read_whatever_the_key() -> None:
    odd = [Intent(0.1 + 0.2, "p", "b", (('a:b\n"\\/é\U0001f600\r\x85', "v"), ("", "")), "u=1"), intent("k" * 1024)]
    text = b"".join(intents_module._line(number, one) for number, one in enumerate(odd))
    assert list(parse(text).values()) == odd
    assert text.count(b"\n") == 2


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_last_line_that_was_cut_anywhere_tells_nothing(directory: Path, cut: int) -> None:
    intents = Intents(directory)
    for number in range(11):
        intents.begin(intent(f"{number}"))
    intents.end(11)
    intents.end(1)
    intents.close()
    (file,) = directory.iterdir()
    whole = file.read_bytes()
    assert len(parse(whole)) == 9
    # The last two lines are "11" and "1": a cut must not make the one into the other.
    assert set(parse(whole[:-cut])) >= set(range(2, 11))
    assert 1 in parse(whole[:-1])


# --- the disk is full ----------------------------------------------------------------------------


def test_a_change_that_cannot_be_noted_down_is_not_made_and_spoils_no_other(directory: Path) -> None:
    intents = Intents(directory)
    intents.begin(intent("before"))
    (file,) = directory.iterdir()
    with file_limit(file.stat().st_size + 20):
        for _ in range(2):
            with pytest.raises(Unavailable, match="cannot be written"):
                intents.begin(intent("refused"))
    intents.begin(intent("after"))
    assert intents.count() == 2
    assert keys_in(file) == ["before", "after"]
    intents.close()


def test_an_end_that_was_cut_short_ends_nothing_else_and_is_told_again(directory: Path) -> None:
    intents = Intents(directory)
    numbers = [intents.begin(intent(f"{number}")) for number in range(1, 13)]
    (file,) = directory.iterdir()
    with file_limit(file.stat().st_size + 1):
        intents.end(numbers[11])
        intents.flush()  # of "12" the disk takes the "1"
    assert keys_in(file) == [*map(str, range(1, 13))]
    intents.begin(intent("after"))
    assert keys_in(file) == [*map(str, range(1, 12)), "after"]
    intents.close()


# --- it does not grow ----------------------------------------------------------------------------


def test_the_file_stays_small_though_one_change_stays_open(directory: Path) -> None:
    intents = Intents(directory)
    intents.begin(intent("stays"))
    for number in range(3000):
        intents.end(intents.begin(intent(f"{number}" + "k" * 1000)))
    intents.flush()
    (file,) = directory.iterdir()
    assert file.stat().st_size < 1_100_000
    assert keys_in(file) == ["stays"]
    later = Intents(directory)
    assert list(later.abandoned()) == [], "the new file is locked as the old one was"
    intents.close()
    assert [list(found.left.values()) for found in later.abandoned()] == [[intent("stays")]]
    later.close()


def test_a_disk_that_is_full_when_the_file_is_written_anew_loses_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents_module, "_REWRITTEN_BYTES", 100)
    intents = Intents(directory)
    for key in ("a", "b", "c", "d"):
        intents.begin(intent(key))
    (file,) = directory.iterdir()
    with file_limit(50):
        intents.end(4)
        intents.flush()
    assert [path.name for path in directory.iterdir()] == [file.name]
    assert set(keys_in(file)) >= {"a", "b", "c"}
    intents.end(3)
    intents.flush()
    assert keys_in(file) == ["a", "b"]
    intents.close()


# --- several processes ---------------------------------------------------------------------------


def test_what_was_seen_to_is_not_looked_into_again_by_others(directory: Path) -> None:
    dead = Intents(directory)
    for key in ("seen to", "not yet"):
        dead.begin(intent(key))
    dead.close()
    one, other = Intents(directory), Intents(directory)
    for found in one.abandoned():
        assert list(other.abandoned()) == [], "one at a time"
        found.end(1)
    for found in other.abandoned():
        assert list(found.left.values()) == [intent("not yet")]
        found.end(2)
    assert list(one.abandoned()) == []
    one.close()
    other.close()
    assert list(directory.iterdir()) == []


def test_a_file_without_open_changes_goes(directory: Path) -> None:
    living = Intents(directory)
    (directory / "1-of-a-killed-process").write_bytes(b'[1,1.5,"pool","bucket",[["k",""]],""]\n1\n')
    for found in living.abandoned():
        assert found.left == {}
        found.remove_if_done()
    living.close()
    assert list(directory.iterdir()) == []


def test_what_a_process_killed_while_it_wrote_its_file_anew_has_left_is_cleared_away(directory: Path) -> None:
    dead = Intents(directory)
    dead.begin(intent("open"))
    dead.close()
    (file,) = directory.iterdir()
    file.with_name(file.name + ".new").write_bytes(b"half a li")
    living = Intents(directory)
    assert [list(found.left.values()) for found in living.abandoned()] == [[intent("open")]]
    assert not file.with_name(file.name + ".new").exists()
    living.close()


def test_nobody_takes_a_file_for_abandoned_whose_owner_is_about_to_lock_it(directory: Path) -> None:
    watcher = Intents(directory)
    taken: list[Path] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            taken.extend(found.path for found in watcher.abandoned())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for _ in range(300):
            started = Intents(directory)
            started.end(started.begin(intent()))
            started.close()
    finally:
        over.set()
        thread.join()
    assert taken == []
    watcher.close()


WRITER = """
import sys
from pathlib import Path
from tidegate.gateway.changes import intents
intents._REWRITTEN_BYTES = 2000
opened = intents.Intents(Path(sys.argv[1]))
opened.begin(intents.Intent(1.0, "pool", "bucket", (("stays", ""),)))
print("written", flush=True)
while True:
    opened.end(opened.begin(intents.Intent(1.0, "pool", "bucket", (("k" * 300, ""),))))
"""


def test_a_process_killed_at_any_moment_leaves_what_was_open(directory: Path) -> None:
    for number in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"written\n"
            time.sleep(0.02 * number)
            process.send_signal(signal.SIGKILL)
    living = Intents(directory)
    left = [found.left for found in living.abandoned()]
    assert len(left) == 5
    for found in left:
        assert found[1].changes == (("stays", ""),)
        assert len(found) <= 2
    living.close()
