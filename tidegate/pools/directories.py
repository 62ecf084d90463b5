"""The directory of a pool: where it may lie, and how it is made for its owner."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from tidegate.core.errors import InvalidInput
from tidegate.core.names import check_directory
from tidegate.pools.owners import Account

MARK = ".tidegate-pool"


def choose_directory(directory: str, pool: str, data: Path) -> str:
    """The real path for a new pool. It must not hold, nor lie in, what Tidegate keeps for itself."""
    home = Path(os.path.realpath(data))
    if not directory:
        return str(home / "pools" / pool)
    chosen = Path(os.path.realpath(check_directory(directory)))
    own = home / "pools"
    inside = chosen.is_relative_to(home) and chosen.parent != own
    if inside or home.is_relative_to(chosen):
        raise InvalidInput(f"the directory {directory} overlaps Tidegate's data directory: choose one outside {home}")
    return str(chosen)


def overlaps(one: str, other: str) -> bool:
    return Path(one).is_relative_to(other) or Path(other).is_relative_to(one)


def check_usable(directory: str, account: Account) -> None:
    """Raises `InvalidInput` if the directory is there and not the owner's, or cannot be made."""
    path = Path(directory)
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir() and path.parent.name != "pools":
            raise InvalidInput(f"{path.parent} does not exist: make it first, or choose another directory") from None
        return
    except OSError as error:
        raise InvalidInput(f"the directory {directory} cannot be used: {error.strerror}") from None
    if not path.is_dir() or path.is_symlink():
        raise InvalidInput(f"{directory} is not a directory")
    if found.st_uid != account.uid:
        raise InvalidInput(
            f"{directory} belongs to {_name_of(found.st_uid)}, not to {account.user}: "
            "choose that owner, another directory, or change the directory's owner"
        )
    if not (path / MARK).exists() and _holds_anything(path):
        raise InvalidInput(
            f"{directory} holds files that are not a pool's, and a backend would mix its own with them: "
            "choose an empty directory, or one that was a pool's before"
        )


def _holds_anything(path: Path) -> bool:
    try:
        return any(path.iterdir())
    except OSError as error:
        raise InvalidInput(f"the directory {path} cannot be read: {error.strerror}") from None


def make_directory(directory: str, account: Account) -> None:
    """Makes it with mode 0700 for the owner, and marks it as a pool's; one that is there is left as it is."""
    path = Path(directory)
    try:
        if path.parent.name == "pools" and not path.parent.exists():
            path.parent.mkdir(mode=0o711)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            check_usable(directory, account)
        # By descriptor: a path in a directory of somebody else's could be replaced by a link in between.
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_uid == os.geteuid() and not account.is_current:
                os.fchown(fd, account.uid, account.gid)
            _mark(fd, account)
        finally:
            os.close(fd)
    except OSError as error:
        raise InvalidInput(f"the directory {directory} cannot be made: {error.strerror}") from None


def _mark(directory: int, account: Account) -> None:
    try:
        fd = os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except FileExistsError:
        return
    try:
        if not account.is_current:
            os.fchown(fd, account.uid, account.gid)
    finally:
        os.close(fd)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user with number {uid}"
