"""Places that owners of pools can reach and write to, also when root runs the tests: pytest's own are root's alone."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICE_ACCOUNT = "tidegate"


@contextmanager
def open_place(prefix: str = "tidegate-") -> Iterator[Path]:
    """A temporary directory of the user as whom pools without an owner run."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        place = Path(os.path.realpath(name))
        place.chmod(0o755)
        give_to_service(place)
        yield place


def service_user() -> pwd.struct_passwd:
    """As whom a service runs that the user who runs the tests starts."""
    return pwd.getpwnam(SERVICE_ACCOUNT) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def give_to_service(path: Path) -> None:
    os.chown(path, service_user().pw_uid, service_user().pw_gid)
