"""Large log files are put aside, and nothing that is written is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.log_files import LogFiles
from tidegate.logs import AccessLog
from tidegate.settings import LogSettings

MEGABYTE = 1024 * 1024


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path


def test_the_access_log_is_put_aside_and_begun_anew_by_whoever_writes_it(data: Path) -> None:
    settings = LogSettings(file_megabytes=0.001, kept_files=2)
    access = AccessLog.open(settings, data)
    files = LogFiles(settings, data)
    for number in range(5):
        access.write(f"{number} " + "x" * 2000)
        access.flush()
        files.run_once()
    access.write("short")
    access.flush()
    files.run_once()
    found = {file.name: file.read_text()[:5] for file in (data / "log").iterdir()}
    assert found == {"access.log": "short", "access.log.1": "4 xxx", "access.log.2": "3 xxx"}
    access.close()


def test_other_logs_are_emptied_and_their_last_contents_kept(data: Path) -> None:
    file = data / "log" / "pool-p.log"
    writer = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    files = LogFiles(LogSettings(file_megabytes=1, kept_files=5), data)
    for letter in (b"a", b"b", b"c"):
        os.write(writer, letter * MEGABYTE)
        files.run_once()
        os.write(writer, letter)
    os.close(writer)
    assert file.read_bytes() == b"c"
    aside = file.with_name("pool-p.log.1")
    assert aside.read_bytes() == b"b" + b"c" * MEGABYTE
    assert aside.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in file.parent.iterdir()) == ["pool-p.log", "pool-p.log.1"]


def test_small_files_and_an_access_log_elsewhere_are_left_alone(data: Path) -> None:
    for name in ("access.log", "pool-p.log"):
        (data / "log" / name).write_text("small")
    LogFiles(LogSettings(), data).run_once()
    LogFiles(LogSettings(access="off"), data).run_once()
    assert sorted(path.name for path in (data / "log").iterdir()) == ["access.log", "pool-p.log"]
