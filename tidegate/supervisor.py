"""The foreground process of `tidegate up`: starts gateways, API, movement and lifecycle, keeps them running, ends all.

Started by root, it acts as the service account, with root's rights in reserve, and so are all files its account's.

It is the reaper of all orphans below it, so that no manager or backend outlives an orderly stop. Should it be
killed itself, its gateways and API end with it; managers end when idle, or are found again by the next `up`.
"""

from __future__ import annotations

import http.client
import logging
import os
import select
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self
from urllib.parse import urlsplit

from tidegate import assembly, handover, metrics, processes
from tidegate.core.errors import Unavailable
from tidegate.core.records import GatewayEntry
from tidegate.datadir import DataDirectory, Endpoints
from tidegate.lifecycle.acting.stop_switch import StopSwitch
from tidegate.listeners import base_address, check_tls, open_listeners
from tidegate.movement.topics import create_deletion_topics
from tidegate.pools import starter_client
from tidegate.pools.isolation import check_isolation
from tidegate.ports import Tables
from tidegate.service_account import Identity, as_root, become, become_root
from tidegate.settings import Settings

_POLL_SECONDS = 0.1
_START_SECONDS = 60.0
_EARLY_DEATHS_AT_START = 3
_MOST_GATEWAYS = 100_000
_KILL_SECONDS = 0.5
_RETIRE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Signals:
    """SIGTERM, SIGINT, SIGHUP and SIGCHLD as something to wait for; the first three ask for the end."""

    def __init__(self) -> None:
        self.stops = 0
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def wait(self, seconds: float) -> None:
        """Until a signal comes or the time is over."""
        if select.select([self._read], [], [], max(seconds, 0))[0]:
            while len(os.read(self._read, 512)) == 512:
                pass


class Supervisor:
    def __init__(
        self, directory: DataDirectory, settings: Settings, signals: Signals, account: Identity | None
    ) -> None:
        """`account` is the service account where root started this process, which acts as it already."""
        self._account = account
        self._directory = directory
        self._settings = settings
        self._signals = signals
        self._children: list[processes.Child] = []
        self._listeners: list[socket.socket] = []
        self._unretired: list[tuple[int, str]] = []
        own = os.environ if account is None else processes.environment_for(account, directory.path)
        self._environment = own | {metrics.MULTIPROCESS_VARIABLE: str(directory.metrics)}
        self.endpoints: Endpoints | None = None

    def start(self) -> Endpoints | None:
        """Starts everything or raises `Unavailable`. None means that a stop was requested first."""
        processes.adopt_orphans()
        self._directory.endpoints_file.unlink(missing_ok=True)
        for file in self._directory.metrics.glob("*.db"):
            file.unlink()
        endpoints = self._open()
        self._directory.write_settings(self._settings)
        tables = assembly.open_tables(self._settings, self._directory.path)
        try:
            self._create_topics()
            if not self._settings.lifecycle.enabled:
                self._void_queued_tasks(tables)
            stale = set(tables.scan(GatewayEntry.PREFIX, limit=_MOST_GATEWAYS))
            for child in self._children:
                child.start(self._environment)
            ready = self._wait_until(lambda: self._ready(tables, stale, endpoints.api), _START_SECONDS)
        finally:
            tables.close()
        if not ready:
            return None
        self._directory.write_endpoints(endpoints)
        self.endpoints = endpoints
        log.info("ready: S3 at %s, API at %s", endpoints.s3, endpoints.api)
        return endpoints

    def _open(self) -> Endpoints:
        gateway, api = self._settings.gateway, self._settings.api
        gateway_tls = check_tls(gateway.tls_certificate, gateway.tls_key, "gateway")
        api_tls = check_tls(api.tls_certificate, api.tls_key, "api")
        count = gateway.processes or len(os.sched_getaffinity(0))
        with as_root():  # for ports below 1024
            doors = open_listeners(gateway.host, gateway.port, count, "gateway")
            self._listeners += doors
            (web,) = open_listeners(api.host, api.port, 1, "api")
            self._listeners.append(web)
        if self._account is not None:
            starters = starter_client.listen(self._directory.path)
            self._listeners.append(starters)
            self._add_child("starter", "tidegate.pools.starter", starters, ["--account", self._account.user])
        for slot, door in enumerate(doors):
            self._add_child(f"gateway {slot}", "tidegate.gateway.serve", door)
        self._add_child("api", "tidegate.web.serve", web)
        self._add_child("movement", "tidegate.movement.serve")
        if self._settings.lifecycle.enabled:
            self._add_child("lifecycle", "tidegate.lifecycle.serve")
            self._add_child("passes", "tidegate.lifecycle.serve_passes")
        return Endpoints(
            s3=base_address(doors[0].getsockname(), tls=gateway_tls),
            api=base_address(web.getsockname(), tls=api_tls),
            admin_token=self._directory.admin_token(self._settings),
            pid=os.getpid(),
        )

    def _add_child(
        self, name: str, module: str, listener: socket.socket | None = None, more: Sequence[str] = ()
    ) -> None:
        arguments, fds = ["--data", str(self._directory.path), *more], []
        if listener is not None:
            arguments += ["--fd", str(listener.fileno())]
            fds.append(listener.fileno())
        self._children.append(processes.Child(name, module, arguments, fds, self._become(name)))

    def _become(self, name: str) -> Callable[[], None]:
        """The starter alone is root, and only where root started the service."""
        account = self._account
        if account is None:
            return lambda: None
        return become_root if name == "starter" else lambda: become(account)

    def _create_topics(self) -> None:
        """Those to which gateways append."""
        topics = assembly.open_topics(self._settings, self._directory.path)
        try:
            topics.create(self._settings.metalog.topic, self._settings.metalog.partitions)
            create_deletion_topics(topics, self._settings.deletion)
        finally:
            topics.close()

    def _void_queued_tasks(self, tables: Tables) -> None:
        """Voids tasks that were queued when lifecycle was switched off, so that nobody carries them out later."""
        topics = assembly.open_topics(self._settings, self._directory.path)
        try:
            StopSwitch(tables, topics).void_queued(now_ns=time.time_ns())
        finally:
            topics.close()

    def _ready(self, tables: Tables, stale: set[tuple[str, str]], api: str) -> bool:
        """`stale` holds the entries of earlier gateways, whose process ids may come again."""
        for child in self._children:
            if child.early_deaths >= _EARLY_DEATHS_AT_START:
                raise Unavailable(
                    f"{child.name} ended {child.early_deaths} times while starting; its log lines say why"
                )
        fresh = set(tables.scan(GatewayEntry.PREFIX, limit=_MOST_GATEWAYS)) - stale
        registered = {GatewayEntry.from_json(value).pid for _, value in fresh}
        gateways = [child for child in self._children if child.name.startswith("gateway")]
        return all(child.pid in registered for child in gateways) and _answers(api)

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Returns False if a stop was requested first."""
        deadline = time.monotonic() + seconds
        while not self._signals.stops:
            self._keep_running()
            if condition():
                return True
            if time.monotonic() > deadline:
                raise Unavailable(f"the service was not ready after {seconds:.0f} s; its log lines say why")
            self._signals.wait(_POLL_SECONDS)
        return False

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._signals.stops:
            self._keep_running()
            waiting = [child.restart_at - time.monotonic() for child in self._children if child.pid is None]
            self._signals.wait(min([*waiting, _RETIRE_SECONDS if self._unretired else 60.0]))

    def _keep_running(self) -> None:
        for pid, status in _reaped():
            for child in self._children:
                if child.pid == pid:
                    child.ended(status)
                    self._unretired.append((pid, child.name.split()[0]))
        self._retire()
        for child in self._children:
            if child.pid is None and time.monotonic() >= child.restart_at:
                child.start(self._environment)

    def _retire(self) -> None:
        """Folds the metrics of dead processes; a full disk delays this."""
        try:
            while self._unretired:
                metrics.retire(self._directory.metrics, *self._unretired[0])
                del self._unretired[0]
        except Unavailable as error:
            log.warning("the counts of a process that ended cannot be kept yet: %s", error)

    def stop(self) -> None:
        """Gateways drain and the API ends, then the managers with their backends, then whatever is left."""
        self._directory.endpoints_file.unlink(missing_ok=True)
        log.info("stopping")
        self._end_children(self._settings.gateway.drain_seconds + _KILL_SECONDS)
        for listener in self._listeners:
            listener.close()
        self._directory.starter_socket.unlink(missing_ok=True)
        self._end_managers()
        self._end_orphans()
        log.info("stopped")

    def _end_children(self, seconds: float) -> None:
        def alive() -> list[int]:
            return [child.pid for child in self._children if child.pid is not None]

        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in self._children:
                child.signal(number)
            self._wait_gone(alive, seconds)
            if not alive():
                return

    def _end_managers(self) -> None:
        def alive() -> list[int]:
            return processes.pool_managers(self._directory.path)

        # A manager gets its backend's time to stop and a moment for itself.
        patience = self._settings.pools.stop_seconds + _KILL_SECONDS
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in alive():
                processes.send(pid, number)
            self._wait_gone(alive, patience)
            if not alive():
                return

    def _end_orphans(self) -> None:
        def alive() -> list[int]:
            return processes.children_of(os.getpid())

        self._wait_gone(alive, _KILL_SECONDS)  # what is just ending is no left-over
        for pid in alive():
            log.warning("killing the left-over process %d", pid)
            with as_root():  # a backend is its owner's
                processes.send(pid, signal.SIGKILL)
        self._wait_gone(alive, _KILL_SECONDS)

    def _wait_gone(self, alive: Callable[[], list[int]], seconds: float) -> None:
        """Waits for the processes; a second request to stop cuts the waiting short."""
        deadline = time.monotonic() + seconds
        while alive() and time.monotonic() < deadline:
            for pid, status in _reaped():
                for child in self._children:
                    if child.pid == pid:
                        child.forget(status)
            if not alive():
                return
            if self._signals.stops > 1:
                deadline = min(deadline, time.monotonic() + _KILL_SECONDS)
            self._signals.wait(_POLL_SECONDS)


def _reaped() -> list[tuple[int, int]]:
    """Every process that has ended and whose parent we are, adopted orphans included."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def _answers(api: str) -> bool:
    where = urlsplit(api)
    connection: http.client.HTTPConnection
    if where.scheme == "https":
        # Only liveness is asked for, on this machine: the certificate names the public host.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(where.netloc, timeout=2, context=context)
    else:
        connection = http.client.HTTPConnection(where.netloc, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tls_files(settings: Settings) -> list[Path]:
    """Those that exist; what is wrong with the others is told when they are loaded."""
    named = [settings.gateway.tls_certificate, settings.gateway.tls_key]
    named += [settings.api.tls_certificate, settings.api.tls_key]
    return [Path(file) for file in named if file and Path(file).is_file()]


def _inventories(settings: Settings) -> list[Path]:
    """Those on this machine that are there already; passes read them."""
    return [path for path in map(Path, settings.lifecycle.inventories.values()) if path.exists()]


def up(directory: DataDirectory, settings: Settings, announce: Callable[[Endpoints], None]) -> None:
    """Runs the service until a signal ends it; `announce` is called once it is ready."""
    processes.keep_files_private()
    account = handover.act_for_service(
        directory.path, settings.service.account, _tls_files(settings), shown=_inventories(settings)
    )
    directory.prepare()
    check_isolation(settings.pools, account)
    lock = directory.acquire()
    try:
        with Signals() as signals:
            supervisor = Supervisor(directory, settings, signals, account)
            try:
                endpoints = supervisor.start()
                if endpoints is not None:
                    announce(endpoints)
                    supervisor.run()
            finally:
                supervisor.stop()
    finally:
        os.close(lock)
