"""`run/sockets/POOL`: the directory in which a backend makes the Unix socket of its S3 door.

Only the service can reach it, because `run/sockets` is closed to all others. The directory itself belongs to the
pool's owner, whose backend makes the socket there, and the service's group may look names up in it.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.pools.owners import Account, environment_of

_SOCKET = "s3.sock"
_MODE = 0o777  # the directory keeps everybody out
_CHMOD_SECONDS = 10.0


class SocketDirectory:
    def __init__(self, data: Path, pool: str) -> None:
        self._directory = data / "run" / "sockets" / pool
        self._fd: int | None = None

    @property
    def path(self) -> str:
        """The socket's path, for whoever connects to it."""
        return str(self._directory / _SOCKET)

    @property
    def fd(self) -> int:
        assert self._fd is not None, "it has not been made"
        return self._fd

    @property
    def path_by_descriptor(self) -> str:
        """The same for a process that has the descriptor `fd`: it may be too long, or out of reach, otherwise."""
        return f"/proc/self/fd/{self.fd}/{_SOCKET}"

    def make(self, account: Account) -> None:
        """Anew and empty. Raises `Unavailable`."""
        self.remove()
        try:
            self._directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.mkdir(mode=0o700)
            self._fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            if not account.is_current:
                os.fchmod(self._fd, 0o710)
                os.fchown(self._fd, account.uid, os.getegid())
        except OSError as error:
            raise Unavailable(f"{self._directory} cannot be made: {error.strerror}") from None

    def admit_service(self, account: Account) -> None:
        """Lets the service connect, once the socket is there. Only its owner may change its mode."""
        if account.is_current:
            return
        try:
            found = os.stat(_SOCKET, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_IMODE(found.st_mode) == _MODE:
            return
        subprocess.run(
            ["chmod", f"{_MODE:o}", _SOCKET],
            cwd=self._directory,
            env=environment_of(account),
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            timeout=_CHMOD_SECONDS,
            check=False,  # seen at the next connection
        )

    def remove(self) -> None:
        """With the socket that a killed backend left. Raises `Unavailable`."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        try:
            if self._directory.lstat().st_uid != os.geteuid():
                os.chown(self._directory, os.geteuid(), -1, follow_symlinks=False)
            for entry in self._directory.iterdir():
                entry.unlink()
            self._directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(f"{self._directory} cannot be removed: {error.strerror}") from None
