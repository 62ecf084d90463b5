from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.core.errors import Conflict, InvalidInput, Unavailable
from tidegate.datadir import DataDirectory, Endpoints, write_private
from tidegate.settings import load


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    made.prepare()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_layout_is_made_and_others_may_only_pass_to_pools_and_sockets(directory: DataDirectory) -> None:
    assert mode(directory.path) & ~0o711 == 0
    assert mode(directory.run) == mode(directory.pools) == 0o711
    assert mode(directory.log) & 0o077 == mode(directory.metrics) & 0o077 == 0


def test_what_an_earlier_version_left_open_is_closed(directory: DataDirectory) -> None:
    directory.path.chmod(0o755)
    for path in (directory.path / "tables.db", directory.path / "tables.db-wal", directory.run / "order"):
        path.write_text("")
        path.chmod(0o644)
    for path in (directory.log, directory.metrics, directory.path / "spark", directory.path / "log-table"):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    directory.prepare()
    assert mode(directory.path) & ~0o711 == 0
    closed = (*directory.path.iterdir(), *directory.run.iterdir())
    open_ones = [path for path in closed if mode(path) & 0o077]
    assert sorted(open_ones) == [directory.pools, directory.run]


def test_files_that_are_not_tidegates_are_left_as_they_are(directory: DataDirectory) -> None:
    (directory.path / "notes").write_text("")
    (directory.path / "notes").chmod(0o644)
    directory.prepare()
    assert mode(directory.path / "notes") == 0o644


def test_the_directory_of_backends_sockets_keeps_its_mode(directory: DataDirectory) -> None:
    (directory.run / "sockets").mkdir()
    (directory.run / "sockets").chmod(0o711)
    directory.prepare()
    assert mode(directory.run / "sockets") == 0o711


def test_preparing_twice_changes_nothing(directory: DataDirectory) -> None:
    directory.prepare()
    assert mode(directory.run) == 0o711


def test_a_file_in_the_way_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(InvalidInput, match="data"):
        DataDirectory(tmp_path / "data").prepare()


def test_a_second_holder_is_refused_and_told_the_first_ones_pid(directory: DataDirectory) -> None:
    lock = directory.acquire()
    with pytest.raises(Conflict, match=f"pid {os.getpid()}"):
        directory.acquire()
    os.close(lock)


def test_the_directory_is_free_again_after_its_holder_was_killed(directory: DataDirectory) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tidegate.datadir import DataDirectory\n"
        f"DataDirectory(Path({str(directory.path)!r})).acquire(); print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert directory.runs()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert not directory.runs()
    os.close(directory.acquire())


def test_looking_whether_it_runs_does_not_take_the_directory(directory: DataDirectory) -> None:
    assert not directory.runs()
    os.close(directory.acquire())


def test_a_directory_that_does_not_exist_is_not_running(tmp_path: Path) -> None:
    assert not DataDirectory(tmp_path / "nowhere").runs()


def test_settings_are_those_in_force_while_it_runs_and_loaded_otherwise(directory: DataDirectory) -> None:
    directory.write_settings(load(directory.path, overrides=("gateway.port=7777",)))
    assert directory.settings().gateway.port == 9000
    lock = directory.acquire()
    assert directory.settings(overrides=("gateway.port=1",)).gateway.port == 7777
    os.close(lock)


def test_private_files_are_readable_by_their_owner_alone(directory: DataDirectory) -> None:
    directory.write_settings(load(directory.path))
    directory.write_endpoints(Endpoints("http://s3", "http://api", "token", 1))
    directory.admin_token(load(directory.path))
    for file in (directory.settings_file, directory.endpoints_file, directory.token_file):
        assert mode(file) == 0o600


def test_endpoints_are_read_back(directory: DataDirectory) -> None:
    assert directory.endpoints() is None
    written = Endpoints("http://s3", "http://api", "token", 1)
    directory.write_endpoints(written)
    assert directory.endpoints() == written


def test_the_admin_token_is_made_once(directory: DataDirectory) -> None:
    settings = load(directory.path)
    token = directory.admin_token(settings)
    assert len(token) >= 32
    assert directory.admin_token(settings) == token


def test_a_configured_admin_token_is_not_written_anywhere(directory: DataDirectory) -> None:
    settings = load(directory.path, overrides=("api.admin_token=mine",))
    assert directory.admin_token(settings) == "mine"
    assert not directory.token_file.exists()


def test_an_empty_token_file_is_replaced(directory: DataDirectory) -> None:
    directory.token_file.write_text("\n")
    assert directory.admin_token(load(directory.path))


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()  # a directory cannot be replaced by a file
    with pytest.raises(Unavailable, match="target"):
        write_private(target, "new")
    assert list(tmp_path.iterdir()) == [target]


def test_two_spellings_of_a_directory_are_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert DataDirectory(tmp_path / "link").path == DataDirectory(tmp_path / "x/../data").path
