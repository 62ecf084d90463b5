"""Changes under way are written down before they are made, and found by others when their gateway is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tidegate.gateway.changes.intents import Intent, Intents, parse


def intent(key: str = "k", version: str = "", upload: str = "") -> Intent:
    return Intent(1.5, "pool", "bucket", ((key, version),), upload)


def left(directory: Path) -> list[Intent]:
    looking = Intents(directory)
    found = [entry for file in looking.abandoned() for entry in file.left.values()]
    looking.close()
    return found


def test_nothing_is_left_of_a_gateway_that_ended_in_order(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    intents.end(intents.begin(intent()))
    intents.close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_open_when_a_gateway_ends_is_found_by_another(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    done = intents.begin(intent("done"))
    odd = intent('a:b\n"\\/é\U0001f600', "version/1", "upload=")
    intents.begin(odd)
    several = Intent(2.5, "pool", "bucket", (("a", ""), ("b", "v")))
    intents.begin(several)
    intents.end(done)
    assert left(tmp_path) == [], "a gateway that lives sees to its own"
    intents.close()
    assert left(tmp_path) == [odd, several]


KILLED = """
import sys, time
from pathlib import Path
from tidegate.gateway.changes.intents import Intent, Intents
intents = Intents(Path(sys.argv[1]))
intents.begin(Intent(1.0, "pool", "bucket", (("open", ""),)))
intents.end(intents.begin(Intent(1.0, "pool", "bucket", (("done", ""),))))
intents.flush()
print("written", flush=True)
time.sleep(60)
"""


def test_a_killed_gateway_leaves_what_it_had_begun(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        assert left(tmp_path) == []
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert [entry.changes for entry in left(tmp_path)] == [(("open", ""),)]


def test_a_line_that_was_cut_short_hides_no_other(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    intents.begin(intent("whole"))
    intents.begin(intent("cut"))
    intents.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert left(tmp_path) == [intent("whole")]


def test_the_end_of_a_change_is_told_with_the_next_change(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    (file,) = tmp_path.iterdir()
    first = intents.begin(intent("first"))
    intents.end(first)
    assert list(parse(file.read_bytes())) == [first], "nothing is written for the end alone"
    second = intents.begin(intent("second"))
    assert list(parse(file.read_bytes())) == [second]
    intents.end(second)
    intents.flush()
    assert parse(file.read_bytes()) == {}
    intents.close()


def test_ending_twice_does_no_harm(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    number = intents.begin(intent())
    assert intents.get(number) == intent()
    intents.end(number)
    intents.end(number)
    assert intents.get(number) is None
    intents.close()


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    intents = Intents(tmp_path)
    for number in range(1200):
        intents.end(intents.begin(intent(f"{number}" + "k" * 1000)))
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 1_100_000
    intents.close()
