"""The starter: the one process of a service that keeps root's rights, for the two things that need them.

It starts managers, which must be able to become their pools' owners, and makes the directories of pools whose owner is
not the service account. Only the service account and root may ask, on the socket `run/starter.sock`; a request is one
line of JSON, and what is asked is judged here again. Each request is served by a process of its own.

`python -m tidegate.pools.starter --data DIR --account NAME` with `--fd N`, a listening socket, serves until it is told
to stop; with `--request JSON` it serves that one request. For `{"start": POOL}` the answer is the manager's own line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

from tidegate import handover, processes
from tidegate.core.errors import InvalidInput, TidegateError
from tidegate.core.names import check_pool_name
from tidegate.pools.directories import choose_directory, provide_directory
from tidegate.pools.owners import find_account
from tidegate.service_account import MANAGER, Identity, become, become_root, find_service_account

_REQUEST_SECONDS = 5.0
_LONGEST_REQUEST = 16384
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Starts managers of pools and makes directories for their owners.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--account", required=True)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--fd", type=int)
    way.add_argument("--request")
    options = parser.parse_args(arguments)
    processes.keep_files_private()
    if options.fd is None:
        answer_once(options.data, options.account, options.request)
    serve(socket.socket(fileno=options.fd), options.data, find_service_account(options.account))


def serve(listener: socket.socket, data: Path, account: Identity) -> NoReturn:
    # Processes that ended need nobody to ask for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                _answer(connection, data, account)


def answer_once(data: Path, account_name: str, request: str) -> NoReturn:
    """The same for a caller who has no service to ask and is root."""
    try:
        account = handover.act_for_service(data, account_name)
        if account is None:
            raise InvalidInput("only root can start managers for other users")
        become_root()
        _perform(json.loads(request), data, account)
    except (TidegateError, OSError, ValueError, KeyError) as error:
        _say({"error": str(error), "retry_after": 5})
    os._exit(0)


def _answer(connection: socket.socket, data: Path, account: Identity) -> NoReturn:
    """In a process of its own: the connection becomes its standard output."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(connection.fileno(), 1)
        _check_sender(connection, account)
        _perform(_request(connection), data, account)
    except (TidegateError, OSError, ValueError, KeyError) as error:
        _say({"error": str(error), "retry_after": 5})
    finally:
        os._exit(0)


def _check_sender(connection: socket.socket, account: Identity) -> None:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(raw)[1] not in (0, account.uid):
        raise InvalidInput(f"only {account.user} and root may ask for managers")


def _request(connection: socket.socket) -> Any:
    connection.settimeout(_REQUEST_SECONDS)
    text = b""
    while not text.endswith(b"\n") and len(text) < _LONGEST_REQUEST:
        piece = connection.recv(_LONGEST_REQUEST)
        if not piece:
            break
        text += piece
    connection.settimeout(None)
    return json.loads(text)


def _perform(request: dict[str, str], data: Path, account: Identity) -> None:
    if "start" in request:
        _become_manager(data, check_pool_name(request["start"]), account)
    owner = find_account(request["owner"], request["group"])
    directory = choose_directory(request["directory"], check_pool_name(request["pool"]), data)
    provide_directory(data, directory, owner, account)
    _say({"directory": directory})


def _become_manager(data: Path, pool: str, account: Identity) -> NoReturn:
    command = [sys.executable, "-m", "tidegate.pools.manager", "--data", str(data), "--pool", pool]
    environment = processes.environment_for(account, data)
    become(account, MANAGER)
    os.execve(command[0], command, environment)


def _say(answer: dict[str, object]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
