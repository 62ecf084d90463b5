from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from open_places import open_place

from tidegate.reachability import covered_by, may_pass, plan_covers
from tidegate.service_account import Identity

ACCOUNT = Identity("tidegate", uid=900, gid=901, groups=(901, 902))


def covers(closed: set[str], *needed: str) -> dict[str, list[str]]:
    planned = plan_covers([Path(path) for path in needed], lambda directory: str(directory) not in closed)
    return {str(cover): [str(path) for path in shown] for cover, shown in planned.items()}


def test_nothing_is_covered_where_every_way_is_open() -> None:
    assert covers(set(), "/opt/tidegate", "/var/lib/tidegate") == {}


def test_the_topmost_closed_directory_of_a_way_is_covered() -> None:
    closed = {"/closed", "/closed/deep", "/other/a"}
    found = covers(closed, "/closed/deep/data", "/closed/python", "/other/a/b/data", "/usr/lib/jvm")
    assert found == {"/closed": ["/closed/deep/data", "/closed/python"], "/other/a": ["/other/a/b/data"]}


def test_a_closed_directory_that_is_needed_itself_is_not_covered() -> None:
    """The data directory is made the account's before."""
    assert covers({"/srv/data"}, "/srv/data") == {}


def test_what_lies_in_something_that_is_shown_is_shown_with_it() -> None:
    assert covers({"/closed"}, "/closed/clone/.venv", "/closed/clone/.venv/lib", "/closed/clone") == {
        "/closed": ["/closed/clone"]
    }


def test_a_name_that_only_begins_alike_is_another_path() -> None:
    assert covers({"/closed"}, "/closed/py", "/closed/python") == {"/closed": ["/closed/py", "/closed/python"]}


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "passes"),
    [
        (0o700, 0, 0, False),
        (0o701, 0, 0, True),
        (0o710, 0, 902, True),
        (0o701, 0, 902, False),  # the group's right counts for its members, though everybody else may pass
        (0o700, 900, 0, True),
        (0o077, 900, 901, False),
    ],
)
def test_the_first_of_user_group_and_others_that_applies_decides(mode: int, uid: int, gid: int, passes: bool) -> None:
    found = os.stat_result((0o040000 | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))
    assert may_pass(found, ACCOUNT) is passes


def test_without_covers_nothing_is_hidden(tmp_path: Path) -> None:
    assert covered_by(tmp_path) is None


IN_A_VIEW = """
import errno, os, sys
from pathlib import Path
from tidegate.reachability import covered_by, open_ways
from tidegate.service_account import Identity

place = Path(sys.argv[1])
os.chdir(place / "closed")
# A stranger, to whom the directory is closed, whoever runs this test.
needed = [place / "closed" / "data", place / "closed" / "b c" / "file", place / "open"]
open_ways(needed, Identity("x", 12345, 12345, ()))
assert sorted(os.listdir(place / "closed")) == ["b c", "data"], os.listdir(place / "closed")
assert sorted(os.listdir(".")) == ["b c", "data"]  # the working directory is that of the new view
assert (place / "closed").stat().st_mode & 0o777 == 0o755
assert os.listdir(place / "closed" / "b c") == ["file"]
assert (place / "closed" / "b c" / "file").read_text() == "shown"
(place / "closed" / "data" / "new").write_text("the same files")
try:
    (place / "closed" / "lost").mkdir()
except OSError as error:
    assert error.errno == errno.EROFS, error
else:
    raise AssertionError("the cover can be written to")
assert covered_by(place / "closed" / "lost") == place / "closed"
assert covered_by(place / "closed" / "b c" / "other") == place / "closed"
assert covered_by(place / "closed" / "data" / "pools" / "p") is None
assert covered_by(place / "open") is None
print("seen")
"""


def test_a_view_shows_what_is_needed_takes_no_files_and_is_no_one_else_s() -> None:
    """Root of a user namespace is enough for it."""
    with open_place() as place:
        for name in ("closed/data", "closed/hidden", "closed/b c", "open"):
            (place / name).mkdir(parents=True)
        (place / "closed" / "b c" / "file").write_text("shown")
        (place / "closed").chmod(0o700)
        command = ["unshare", "-Urm", sys.executable, "-c", IN_A_VIEW, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert (done.stdout, done.stderr) == ("seen\n", "")
        assert (place / "closed" / "data" / "new").read_text() == "the same files"
        assert sorted(path.name for path in (place / "closed").iterdir()) == ["b c", "data", "hidden"]
