"""`python as_service.py PATH… -- COMMAND…`, for root: runs a command as the service account, which gets the paths.

For servers that share files with a service, such as a Spark cluster's workers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from open_places import give_to_service, service_user

from tidegate.processes import end_with_parent, environment_for
from tidegate.reachability import open_ways, program_paths
from tidegate.service_account import become, identity_of


def prefix(*paths: Path) -> list[str]:
    """What to put before a command; nothing for an ordinary user, who is the service's user."""
    return [sys.executable, __file__, *map(str, paths), "--"] if os.geteuid() == 0 else []


def main() -> None:
    end = sys.argv.index("--")
    paths, command = [Path(word) for word in sys.argv[1:end]], sys.argv[end + 1 :]
    account = identity_of(service_user())
    parent = os.getppid()
    for path in paths:
        for inner in (path, *path.rglob("*")):
            give_to_service(inner)
    open_ways([*program_paths(), *paths], account)
    os.chdir(paths[0])
    environment = environment_for(account, paths[0])
    become(account)
    end_with_parent(parent)()
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()
