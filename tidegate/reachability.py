"""Paths that the service account must reach although a directory above them is closed to it.

Root's home is closed to everybody else, and people keep Python, their clones and their data there. The service then
gets a view of its own of the file system (a mount namespace). In it each closed directory is covered by an empty one
that shows nothing but what is needed, in its place. These are the same files: commands outside see the same data. The
cover cannot be written to, so nothing can be lost in it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import tidegate
from tidegate.core.errors import InvalidInput
from tidegate.service_account import Identity

_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_SLAVE = 16384, 1 << 19
# The name under which covers are found among the mounts.
_COVER = "tidegate-cover"
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a space in the name of a mount's place, and the like

_libc = ctypes.CDLL(None, use_errno=True)


def program_paths() -> list[Path]:
    """What every process of the service reads: Python, the packages, Tidegate itself, and Java if there is one."""
    paths = [Path(sys.prefix), Path(sys.base_prefix), Path(tidegate.__file__).parent]
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java and Path(java).exists():
        paths += [Path(home)] if home else []
        paths.append(Path(os.path.realpath(java)).parent.parent)
    return paths


def plan_covers(needed: Iterable[Path], may_pass: Callable[[Path], bool]) -> dict[Path, list[Path]]:
    """The directories to cover, each with the paths to show below it: on each way the topmost that is closed."""
    covers: dict[Path, list[Path]] = {}
    for path in sorted(set(needed)):
        closed = next((above for above in reversed(path.parents) if not may_pass(above)), None)
        if closed is None:
            continue
        shown = covers.setdefault(closed, [])
        if not any(path.is_relative_to(other) for other in shown):
            shown.append(path)
    return covers


def may_pass(found: os.stat_result, account: Identity) -> bool:
    """Whether the directory's mode lets the account through."""
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in account.groups or found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def open_ways(paths: Collection[Path], account: Identity) -> None:
    """As root: makes the paths, which exist, reachable for the account in this process and those that it starts."""
    # A link's own place, for those who follow it, and the place that it leads to.
    needed = {Path(os.path.realpath(path)) for path in paths}
    needed |= {Path(os.path.realpath(path.parent), path.name) for path in map(Path.absolute, paths)}
    covers = plan_covers(needed, lambda directory: may_pass(directory.stat(), account))
    if not covers:
        return
    here = Path.cwd()
    try:
        _call("unshare", _libc.unshare(_CLONE_NEWNS))
        _mount("none", Path("/"), "", _MS_REC | _MS_SLAVE)
        for closed, shown in covers.items():
            _cover(closed, shown)
    except OSError as error:
        closed = next(iter(covers))
        raise InvalidInput(
            f"{closed} is closed to the account {account.user}, which needs {covers[closed][0]}, and a view of the "
            f"file system in which it is open cannot be made ({error.strerror}): chmod o+x {closed}, or move it"
        ) from None
    try:
        os.chdir(here)  # its own place in the new view, if it has one
    except OSError:
        os.chdir("/")


def covered_by(path: Path) -> Path | None:
    """The closed directory that hides the path from this process, if one does."""
    nearest, source = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        place = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), words[4]))
        # Of two mounts in one place the later one counts.
        if path.is_relative_to(place) and place.is_relative_to(nearest):
            nearest, source = place, words[words.index("-") + 2]
    return nearest if source == _COVER else None


def check_readable(paths: Iterable[Path], account: Identity) -> None:
    """As the account: raises `InvalidInput` for a path that it cannot read."""
    for path in paths:
        wanted = os.R_OK | os.X_OK if path.is_dir() else os.R_OK
        if not os.access(path, wanted, effective_ids=True):
            raise InvalidInput(
                f"the account {account.user} may not read {path}: give it the right, for instance by "
                f"setfacl -R -m u:{account.user}:rX {path}, or chgrp -R {account.user} and chmod -R g+rX"
            )


def _cover(closed: Path, shown: list[Path]) -> None:
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in shown]  # before they are hidden
    try:
        _mount(_COVER, closed, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")
        for path, fd in kept:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            for directory in path.parents:
                if directory == closed:
                    break
                directory.chmod(0o755)
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                path.mkdir(mode=0o755)
            else:
                path.touch(mode=0o644)
            _mount(f"/proc/self/fd/{fd}", path, "", _MS_BIND | _MS_REC)
        _mount(_COVER, closed, "tmpfs", _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")
    finally:
        for _, fd in kept:
            os.close(fd)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _call(f"mount {target}", result)


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
