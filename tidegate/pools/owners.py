"""Pool owners: accounts of this machine, and what a backend process gets from them."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass

from tidegate.core.errors import InvalidInput

_KEPT_VARIABLES = ("HOME", "LANG", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and the group their backends run with."""

    user: str
    uid: int
    group: str
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def is_current(self) -> bool:
        return self.uid == os.geteuid() and self.gid == os.getegid()


def choose_account(owner: str, group: str) -> Account:
    """The account of a new pool; without an owner it is the current user's."""
    if owner and os.geteuid() == 0 and _user(owner).pw_uid == 0:
        raise InvalidInput("give the pool an owner other than root, or leave the owner out")
    account = find_account(owner or pwd.getpwuid(os.geteuid()).pw_name, group)
    if os.geteuid() != 0 and account.uid != os.geteuid():
        raise InvalidInput(
            f"only root can run backends as other users: leave the owner out, or run Tidegate as root to use {owner!r}"
        )
    return account


def find_account(owner: str, group: str) -> Account:
    """Raises `InvalidInput` for a user or group that does not exist, or a group without the user."""
    user = _user(owner)
    chosen = _group(group) if group else _primary_group(user)
    groups = tuple(os.getgrouplist(user.pw_name, user.pw_gid))
    if chosen.gr_gid not in groups:
        raise InvalidInput(f"the user {owner!r} is not in the group {group!r}")
    return Account(user.pw_name, user.pw_uid, chosen.gr_name, chosen.gr_gid, groups, user.pw_dir, user.pw_shell)


def group_names(account: Account) -> tuple[str, ...]:
    """The names of all groups of the user; a group without a name is left out."""
    names = []
    for gid in account.groups:
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return tuple(sorted(names))


def environment_of(account: Account) -> dict[str, str]:
    """A clean environment: the few variables that are kept, those about the user with the owner's values."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    if not account.is_current:
        kept.update(HOME=account.home, LOGNAME=account.user, SHELL=account.shell, USER=account.user)
        kept.pop("USERNAME", None)
    return kept


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise InvalidInput(f"there is no user {name!r} on this machine") from None


def _group(name: str) -> grp.struct_group:
    try:
        return grp.getgrnam(name)
    except (KeyError, ValueError):
        raise InvalidInput(f"there is no group {name!r} on this machine") from None


def _primary_group(user: pwd.struct_passwd) -> grp.struct_group:
    try:
        return grp.getgrgid(user.pw_gid)
    except KeyError:
        raise InvalidInput(f"the primary group {user.pw_gid} of {user.pw_name!r} has no name on this machine") from None
