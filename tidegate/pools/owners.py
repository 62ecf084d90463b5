"""Pool owners: accounts of this machine, and what a backend process gets from them."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass

from tidegate.core.errors import InvalidInput
from tidegate.service_account import Identity, find_service_account

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

    @property
    def identity(self) -> Identity:
        return Identity(self.user, self.uid, self.gid, self.groups)


def choose_account(owner: str, group: str, *, service_account: str, any_owner: bool) -> Account:
    """The account of a new pool. Without an owner it is the current user's, and the service account in place of root.

    `any_owner`: root's rights are at hand, in this process or by the starter.
    """
    account = find_account(owner or default_owner(service_account), group)
    if not any_owner and account.uid != os.geteuid():
        raise InvalidInput(
            f"only root can run backends as other users: leave the owner out, or run Tidegate as root to use {owner!r}"
        )
    return account


def default_owner(service_account: str) -> str:
    if os.geteuid() == 0:
        return find_service_account(service_account).user
    return pwd.getpwuid(os.geteuid()).pw_name


def find_account(owner: str, group: str) -> Account:
    """Raises `InvalidInput` for a user or group that does not exist, a group without the user, and root: no backend
    runs as root."""
    user = _user(owner)
    if user.pw_uid == 0:
        raise InvalidInput("no backend runs as root: give the pool an owner other than root, or leave the owner out")
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
