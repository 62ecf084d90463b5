"""The service account: Tidegate's processes run as it when root starts them, and put root's rights aside.

| process                                      | user                      | rights beyond that user's              |
| -------------------------------------------- | ------------------------- | -------------------------------------- |
| supervisor                                   | account, root in reserve  | to listen on low ports, to start these |
| starter                                      | root                      | all; it starts managers                |
| manager                                      | account                   | the capabilities of `MANAGER`          |
| gateways, API, `lifecycle`, `passes`, Spark  | account                   | none                                   |
| backend                                      | the pool's owner          | none                                   |
| a command typed by root                      | account, root in reserve  | to make directories for owners         |

*In reserve* means that the effective user is the account and the real one is root: every file is opened and made as
the account, and the few steps that need root say so (`as_root`). When an ordinary user starts Tidegate, all is that
user's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from tidegate.core.errors import InvalidInput

CAP_CHOWN: Final = 0
CAP_KILL: Final = 5
CAP_SETGID: Final = 6
CAP_SETUID: Final = 7
# A manager becomes the pool's owner to start the backend (SETUID, SETGID), gives it a file in memory with the keys and
# a directory for its socket (CHOWN), and signals it. A backend also dies with its manager: the kernel sends that signal
# in the manager's name, and only if the manager might send it (KILL).
MANAGER: Final = (CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID)

_PR_SET_KEEPCAPS = 8
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64

# Loaded here: between fork and exec it would be too late.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with the groups that a process gets."""

    user: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def started_by_root() -> bool:
    """Whether this process has root's rights, in use or in reserve."""
    return os.getuid() == 0


def find_service_account(name: str) -> Identity:
    """The account by the setting `service.account`."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise InvalidInput(
            f"there is no account {name!r} for the service to run as. Make it:\n"
            f"  useradd --system --user-group --no-create-home --shell /usr/sbin/nologin {name}\n"
            "or name another one in the setting service.account"
        ) from None
    if found.pw_uid == 0:
        raise InvalidInput(f"the service does not run as root: name another account than {name!r} in service.account")
    return identity_of(found)


def identity_of(user: pwd.struct_passwd) -> Identity:
    return Identity(user.pw_name, user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))


def step_down(account: Identity) -> None:
    """From now on this process of root's acts as the account. What needs root says so with `as_root`."""
    try:
        os.seteuid(0)
        os.setgroups(account.groups)
        os.setegid(account.gid)
        os.seteuid(account.uid)
    except OSError as error:
        raise InvalidInput(f"this root may not act as {account.user}: {error.strerror}") from None


@contextlib.contextmanager
def as_root() -> Iterator[None]:
    """Root's rights for a moment, where they are in reserve; for one thread. Otherwise it changes nothing."""
    lowered = os.geteuid()
    if not started_by_root() or lowered == 0:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(lowered)


def become_root() -> None:
    """For a new process that is to have all of root's rights; the reverse of `step_down`."""
    os.seteuid(0)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def become(identity: Identity, capabilities: Collection[int] = ()) -> None:
    """For a new process: it is that user for good, with these capabilities, which programs that it runs get as well."""
    os.seteuid(0)
    os.setgroups(identity.groups)
    for number in range(_MOST_CAPABILITIES):
        if number not in capabilities:
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for numbers that the kernel does not know
    _prctl(_PR_SET_KEEPCAPS, 1 if capabilities else 0)
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)
    _set_capabilities(capabilities)
    for number in capabilities:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, first: int, second: int = 0) -> None:
    if _libc.prctl(option, first, second, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {first}, {second})")


def _set_capabilities(numbers: Collection[int]) -> None:
    """Effective, permitted and inheritable, as two times three words of 32 bits."""
    mask = sum(1 << number for number in numbers)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)(low, low, low, high, high, high)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def run_as(identity: Identity, work: Callable[[], str], capabilities: Collection[int] = ()) -> str:
    """Does the work in a process of its own that is that user; its errors come back as `InvalidInput`."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(identity, capabilities)
            os.write(writing, b"+" + work().encode())
            code = 0
        except InvalidInput as error:
            os.write(writing, b"-" + str(error).encode())
        except OSError as error:
            os.write(writing, b"-" + f"{identity.user}: {error.strerror}".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    if not answer.startswith(b"+"):
        raise InvalidInput(answer[1:].decode() or f"nothing can be done as {identity.user}")
    return answer[1:].decode()
