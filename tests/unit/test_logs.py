from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from full_disk import needs_small_disk, run_on_small_disk
from prometheus_client import REGISTRY

from tidegate import logs
from tidegate.core.errors import InvalidInput
from tidegate.logs import AccessLog, LineHandler
from tidegate.settings import LogSettings, load


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_json_lines_hold_time_level_component_and_extras(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.setup(load(tmp_path, overrides=("log.format=json",)), tmp_path, "gateway")
    logging.getLogger("a").info("two\nlines %d", 5, extra={"pool": "physics"})
    line = json.loads(capfd.readouterr().err)
    assert (line["message"], line["level"], line["component"], line["pool"]) == (
        "two\nlines 5",
        "info",
        "gateway",
        "physics",
    )
    assert line["time"].endswith("Z")


def test_json_lines_hold_the_traceback_of_an_exception(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.setup(load(tmp_path, overrides=("log.format=json",)), tmp_path, "api")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("a").exception("failed")
    assert "ValueError: broken" in json.loads(capfd.readouterr().err)["exception"]


def test_text_lines_name_component_and_process(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.setup(load(tmp_path), tmp_path, "manager")
    logging.getLogger("a").warning("hot", extra={"pool": "physics"})
    line = capfd.readouterr().err
    assert f"manager[{os.getpid()}] hot pool='physics'" in line


def test_lines_below_the_level_are_left_out(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.setup(load(tmp_path, overrides=("log.level=warning",)), tmp_path, "api")
    logging.getLogger("a").info("quiet")
    assert capfd.readouterr().err == ""


DROPPED = "tidegate_dropped_log_lines_total"


def test_a_log_that_nobody_reads_or_that_is_full_stops_nobody_and_says_what_was_dropped() -> None:
    read, write = os.pipe()
    handler = LineHandler(write)
    before = REGISTRY.get_sample_value(DROPPED, {"log": "process"}) or 0
    for number in range(3000):
        handler.handle(logging.makeLogRecord({"msg": f"{number} " + "x" * 100}))
    dropped = int((REGISTRY.get_sample_value(DROPPED, {"log": "process"}) or 0) - before)
    assert 0 < dropped < 3000
    written = os.read(read, 1 << 20).decode().splitlines()
    assert len(written) == 3000 - dropped
    handler.handle(logging.makeLogRecord({"msg": "at last"}))
    assert os.read(read, 1 << 20).decode().splitlines() == [
        f"{dropped} lines of this log could not be written and were dropped",
        "at last",
    ]
    os.close(read)
    handler.handle(logging.makeLogRecord({"msg": "to nobody"}))
    os.close(write)


@needs_small_disk
def test_a_full_disk_drops_lines_and_the_next_ones_are_whole(tmp_path: Path) -> None:
    done = run_on_small_disk(ON_A_FULL_DISK, tmp_path / "disk", size="1m")
    assert done.returncode == 0, done.stderr
    assert "not written" not in done.stdout
    assert "dropped\nafter\n" in done.stdout


ON_A_FULL_DISK = """
import logging, os
from tidegate.logs import LineHandler

file = os.open(disk / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
handler = LineHandler(file)
fill()
for _ in range(100):
    handler.handle(logging.makeLogRecord({"msg": "not written".ljust(5000)}))
free()
handler.handle(logging.makeLogRecord({"msg": "after"}))
print((disk / "log").read_text())
"""


def access_log(data: Path, **values: str) -> AccessLog:
    return AccessLog.open(LogSettings(**values), data)


def test_access_lines_reach_the_file_at_flush(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    log.write("first")
    log.write("second")
    log.flush()
    assert (tmp_path / "log/access.log").read_text() == "first\nsecond\n"


def test_a_full_buffer_is_written_without_a_flush(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    for _ in range(1000):
        log.write("x" * 100)
    assert (tmp_path / "log/access.log").stat().st_size > 0


def test_closing_writes_what_is_left(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    log.write("last")
    log.close()
    assert (tmp_path / "log/access.log").read_text() == "last\n"


def test_a_client_cannot_forge_a_line(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    log.write("GET /a\r\n127.0.0.1 forged")
    log.close()
    assert (tmp_path / "log/access.log").read_bytes() == b"GET /a\\r\\n127.0.0.1 forged\n"


def test_text_that_is_not_unicode_is_escaped(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    log.write("bad \udcff end")
    log.close()
    assert (tmp_path / "log/access.log").read_text() == "bad \\udcff end\n"


def test_a_file_that_was_rotated_away_is_begun_anew(tmp_path: Path) -> None:
    log = access_log(tmp_path)
    log.write("old")
    log.flush()
    (tmp_path / "log/access.log").rename(tmp_path / "log/access.log.1")
    log.write("new")
    log.flush()
    assert (tmp_path / "log/access.log.1").read_text() == "old\n"
    assert (tmp_path / "log/access.log").read_text() == "new\n"


def test_a_full_disk_loses_lines_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = access_log(tmp_path, access_file="/dev/full")
    log.write("lost")
    log.flush()
    assert "No space left" in caplog.text


def test_a_directory_in_the_way_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "log/access.log").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"access\.log"):
        access_log(tmp_path)


def test_nothing_is_written_when_the_access_log_is_off(tmp_path: Path) -> None:
    log = access_log(tmp_path, access="off")
    log.write("nothing")
    log.close()
    assert not (tmp_path / "log").exists()


def test_lines_go_to_standard_output(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from tidegate.logs import AccessLog; from tidegate.settings import LogSettings\n"
        f"log = AccessLog.open(LogSettings(access='stdout'), Path({str(tmp_path)!r}))\n"
        "[log.write(f'line {i}') for i in range(2000)]; log.close()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"line {i}" for i in range(2000)]


def test_a_pipe_that_nobody_reads_never_stops_the_writer() -> None:
    read, write = os.pipe()
    log = AccessLog(logs._StreamSink(write))
    for number in range(100_000):
        log.write(f"{number:099d}")
    log.flush()
    os.set_blocking(read, False)
    first = os.read(read, 100)
    assert first == f"{0:099d}\n".encode()
    os.close(read)
    os.close(write)


def test_datagrams_go_to_syslog(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        log = access_log(tmp_path, access="syslog", syslog_address=f"127.0.0.1:{receiver.getsockname()[1]}")
        log.write("GET /")
        log.flush()
        assert receiver.recv(1000) == f"<142>tidegate[{os.getpid()}]: GET /".encode()
        log.close()


def test_a_syslog_socket_that_does_not_exist_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="syslog_address"):
        access_log(tmp_path, access="syslog", syslog_address=str(tmp_path / "none"))
