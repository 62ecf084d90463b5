"""The directory of a pool: where it may lie, and how it is made for its owner."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

from tidegate.core.errors import InvalidInput
from tidegate.core.names import check_directory
from tidegate.datadir import OPEN_MODE, POOLS
from tidegate.pools.owners import Account
from tidegate.reachability import covered_by
from tidegate.service_account import CAP_CHOWN, Identity, run_as

MARK = ".tidegate-pool"


def choose_directory(directory: str, pool: str, data: Path) -> str:
    """Returns the real path for a new pool. The path must neither contain nor lie in Tidegate's own directories."""
    home = Path(os.path.realpath(data))
    if not directory:
        return str(home / POOLS / pool)
    chosen = Path(os.path.realpath(check_directory(directory)))
    own = home / POOLS
    inside = chosen.is_relative_to(home) and chosen.parent != own
    if inside or home.is_relative_to(chosen):
        raise InvalidInput(f"the directory {directory} overlaps Tidegate's data directory: choose one outside {home}")
    return str(chosen)


def overlaps(one: str, other: str) -> bool:
    return Path(one).is_relative_to(other) or Path(other).is_relative_to(one)


def provide_directory(data: Path, directory: str, account: Account, service: Identity) -> None:
    """Makes the directory for its owner, with mode 0700, and marks it as a pool's; one that was a pool's is kept.

    `service` is the user whose the data directory is. A process that is neither the owner nor root's may not do this.
    """
    hidden = covered_by(Path(directory))
    if hidden is not None:
        raise InvalidInput(
            f"the service cannot see {directory}, because {hidden} is closed to the account {service.user}: "
            f"choose another directory, or chmod o+x {hidden} and start the service again"
        )
    path, own = Path(directory), Path(os.path.realpath(data)) / POOLS
    if path.parent == own:
        _make_own(own, service)
    if account.is_current:
        _make_as_owner(path, account)
    elif path.parent != own:
        run_as(account.identity, lambda: _make_as_owner(path, account))
    else:
        # By descriptor: what lies above may be closed to the owner, and in reach for this process alone.
        parent = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not _exists(path.name, parent):
                run_as(service, lambda: _make_for_owner(path.name, parent, account), (CAP_CHOWN,))
            run_as(account.identity, lambda: _make_as_owner(path, account, parent))
        finally:
            os.close(parent)


def _make_own(own: Path, service: Identity) -> None:
    """The directory of pools, if it is missing; owners pass through it. It is never root's."""
    with contextlib.suppress(FileExistsError):
        own.mkdir()
        own.chmod(OPEN_MODE)
    if os.geteuid() == 0 and own.lstat().st_uid == 0:
        os.chown(own, service.uid, service.gid, follow_symlinks=False)


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _make_for_owner(name: str, parent: int, account: Account) -> str:
    """Makes the directory as the service account, since the owner may not write in `pools`."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.fchown(fd, account.uid, account.gid)
        finally:
            os.close(fd)
    except OSError as error:
        raise InvalidInput(f"the directory pools/{name} cannot be made: {error.strerror}") from None
    return name


def _make_as_owner(path: Path, account: Account, parent: int | None = None) -> str:
    """Makes the directory as the owner. `parent` is a descriptor if the owner cannot reach the path."""
    place = path
    try:
        if parent is not None:
            os.fchdir(parent)
            place = Path(path.name)
        if not check_usable(place, account, shown=path):
            place.mkdir(mode=0o700)
        # By descriptor: a path in a directory of somebody else's could be replaced by a link in between.
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _mark(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise InvalidInput(
            f"the directory {path} cannot be made by {account.user}: {error.strerror}. Make it yourself: "
            f"install -d -o {account.user} -g {account.group} -m 700 {path}"
        ) from None
    return str(path)


def check_usable(path: Path, account: Account, *, shown: Path) -> bool:
    """Whether the directory is there. Raises `InvalidInput` if it is not the owner's, or holds what is not a pool's."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InvalidInput(f"{shown.parent} does not exist: make it first, or choose another directory") from None
        return False
    except PermissionError:
        raise InvalidInput(f"{account.user} may not pass through the directories above {shown}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise InvalidInput(f"{shown} is not a directory")
    if found.st_uid != account.uid:
        raise InvalidInput(
            f"{shown} belongs to {_name_of(found.st_uid)}, not to {account.user}: "
            "choose that owner, another directory, or change the directory's owner"
        )
    if not (path / MARK).exists() and any(path.iterdir()):
        raise InvalidInput(
            f"{shown} holds files that are not a pool's, and a backend would mix its own with them: "
            "choose an empty directory, or one that was a pool's before"
        )
    return True


def _mark(directory: int) -> None:
    with contextlib.suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(MARK, flags, 0o600, dir_fd=directory))


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user with number {uid}"
