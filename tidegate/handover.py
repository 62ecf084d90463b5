"""Handover of the data directory: a process of root's becomes the user who owns the directory.

The service account owns the data directory of a service that root starts. One that root made, or that an earlier
version left to root, is handed over: the files that Tidegate made, never the contents of pools, never settings.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

from tidegate import reachability, settings
from tidegate.core.errors import InvalidInput
from tidegate.datadir import OPEN_MODE, POOLS, is_own_name
from tidegate.service_account import Identity, find_service_account, identity_of, started_by_root, step_down


def act_for_service(
    data: Path, account_name: str, files: Iterable[Path] = (), *, shown: Iterable[Path] = ()
) -> Identity | None:
    """Makes this process, if it is root's, act as the service account; None for an ordinary user's.

    Afterwards the data directory exists, is the account's, and can be reached. So can `files`, which the account must
    be able to read, and `shown`, which it may find closed.
    """
    if not started_by_root():
        return None
    account = find_service_account(account_name)
    made = _make(data)
    owner = data.stat().st_uid
    if owner not in (0, account.uid):
        raise InvalidInput(
            f"the data directory {data} belongs to {_name_of(owner)}: run Tidegate as that user, "
            f"name {_name_of(owner)} in service.account, or give it away: chown -R {account.user}: {data}"
        )
    if not made and not _looks_own(data):
        raise InvalidInput(f"{data} holds files that are not Tidegate's: give a directory of its own with --data")
    try:
        hand_over(data, account)
    except OSError as error:
        raise InvalidInput(f"{data} cannot be given to the account {account.user}: {error.strerror}") from None
    _act_as(account, data, files, shown)
    return account


def act_as_owner(data: Path, shown: Iterable[Path] = ()) -> bool:
    """Makes this process, if it is root's, act as the user whose data directory this is, so that it leaves no files
    behind that this user cannot open. False if the directory is root's, or is not there."""
    if not started_by_root() or not data.is_dir():
        return False
    owner = data.stat().st_uid
    if owner == 0:
        return False
    try:
        identity = identity_of(pwd.getpwuid(owner))
    except KeyError:
        raise InvalidInput(f"the data directory {data} belongs to nobody: the user {owner} does not exist") from None
    _act_as(identity, data, (), shown)
    return True


def hand_over(data: Path, account: Identity) -> None:
    """As root: gives the account what is root's of Tidegate's own files."""
    fd = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == 0:
            os.fchmod(fd, OPEN_MODE)  # the directory is closed first, so that nobody can follow the handover
        for name in _names(fd):
            if is_own_name(name):
                _give(name, fd, account, deep=name != POOLS)
            elif name == settings.FILE_NAME:
                _close(name, fd)
        if os.fstat(fd).st_uid == 0:
            os.fchown(fd, account.uid, account.gid)
    finally:
        os.close(fd)


def check_settings_file(file: Path) -> None:
    """Root does not obey a file that another user, such as a service account that was broken into, may have written."""
    if not started_by_root() or not file.exists():
        return
    if file.lstat().st_uid != 0 or file.stat().st_uid != 0:  # neither the link, if it is one, nor where it leads
        raise InvalidInput(f"the settings file {file} is another user's: if it is what you want, chown root {file}")


def _give(name: str, directory: int, account: Identity, *, deep: bool) -> None:
    """Changes the owner by descriptor, and only of a file with one name, so that no link or race swaps it."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return  # a link, a socket, or gone
    try:
        found = os.fstat(fd)
        is_directory = stat.S_ISDIR(found.st_mode)
        if found.st_uid == 0 and (is_directory or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)):
            os.fchown(fd, account.uid, account.gid)
        if is_directory and deep:
            for inner in _names(fd):
                _give(inner, fd, account, deep=True)
    finally:
        os.close(fd)


def _close(name: str, directory: int) -> None:
    """A settings file of root's, which may hold secrets, stays root's, and only root may read it."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return  # a link: what it leads to is not ours to change
    try:
        found = os.fstat(fd)
        if found.st_uid == 0 and found.st_nlink == 1:
            os.fchmod(fd, stat.S_IMODE(found.st_mode) & 0o700)
    finally:
        os.close(fd)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _act_as(identity: Identity, data: Path, files: Iterable[Path], shown: Iterable[Path]) -> None:
    needed = [*reachability.program_paths(), *files]
    reachability.open_ways([*needed, *shown, data], identity)
    step_down(identity)
    reachability.check_readable(needed, identity)


def _make(data: Path) -> bool:
    """Makes the directory and returns True if it was missing. Pool owners may pass through the directories above it."""
    if data.is_dir():
        return False
    try:
        for directory in reversed([path for path in (data, *data.parents) if not path.exists()]):
            directory.mkdir()
            directory.chmod(OPEN_MODE)
    except OSError as error:
        raise InvalidInput(f"the data directory {data} cannot be made: {error.strerror}") from None
    return True


def _looks_own(data: Path) -> bool:
    """Whether the directory is empty or Tidegate's own."""
    names = {entry.name for entry in data.iterdir()} - {settings.FILE_NAME, "lost+found"}
    return (data / "secret.key").exists() or all(map(is_own_name, names))


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user with number {uid}"
