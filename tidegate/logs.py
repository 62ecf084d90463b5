"""Logging: structured lines on stderr for every process, and the gateways' access log.

No line is worth the service: what cannot be written at once, because the disk is full or nobody reads, is dropped and
counted. The access log is written from the gateway's event loop: `write` only appends to a list, `flush` never waits.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from tidegate import metrics
from tidegate.core.errors import InvalidInput
from tidegate.settings import LogSettings, Settings

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "component", "color_message"}
_BUFFER_BYTES = 64 * 1024
_BUFFER_LIMIT_BYTES = 4 * 1024 * 1024
# POSIX: a pipe that polls as writable takes this much at once, and takes it whole.
_PIPE_BYTES = 4096
# A reader that is behind gets this long, once; then lines are dropped until it has caught up.
_READER_MILLISECONDS = 50
_SYSLOG_PRIORITY = "<142>"  # facility local1, severity informational

log = logging.getLogger(__name__)


def setup(settings: Settings, data: Path, component: str) -> None:
    """Configures the root logger of this process; `component` names it in every line."""
    handler = LineHandler(sys.stderr.fileno())
    handler.setFormatter(_JsonFormatter(component) if settings.log.format == "json" else _TextFormatter(component))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log.level.upper())
    logging.captureWarnings(True)


class LineHandler(logging.Handler):
    """Writes lines to a descriptor. It raises nothing, and waits for nobody."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        # Lines in a file are whole whoever else writes to it; a pipe takes only so much without waiting.
        self._piece = sys.maxsize if stat.S_ISREG(os.fstat(fd).st_mode) else _PIPE_BYTES
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._dropped = 0
        self._cut_off = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._encoded(record)
        except Exception:
            self.handleError(record)  # a mistake in the caller's text, which it tells without raising
            return
        if self._dropped:
            told = logging.makeLogRecord({"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"})
            told.msg = f"{self._dropped} lines of this log could not be written and were dropped"
            line = self._encoded(told) + line
        if self._write(b"\n" + line if self._cut_off else line):
            self._dropped = 0
        else:
            self._dropped += 1
            metrics.DROPPED_LINES.labels("process").inc()

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode("utf-8", "backslashreplace") + b"\n"

    def _write(self, line: bytes) -> bool:
        left = memoryview(line)
        try:
            while left and self._poll.poll(0 if self._dropped else _READER_MILLISECONDS):
                left = left[os.write(self._fd, left[: self._piece]) :]
        except OSError:
            pass  # nobody is left who could be told
        self._cut_off = len(left) not in (0, len(line)) or (self._cut_off and len(left) == len(line))
        return not left


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as `extra={…}`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class _JsonFormatter(logging.Formatter):
    def __init__(self, component: str) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "component": self._component,
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(_extras(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _TextFormatter(logging.Formatter):
    def __init__(self, component: str) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(component)s[%(process)d] %(message)s")
        self._component = component
        self.default_time_format = "%Y-%m-%dT%H:%M:%S"
        self.default_msec_format = ""
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        record.component = self._component
        text = super().format(record)
        extras = _extras(record)
        if not extras:
            return text
        head, newline, rest = text.partition("\n")
        return head + "".join(f" {name}={value!r}" for name, value in extras.items()) + newline + rest


class _Sink(Protocol):
    def send(self, lines: list[bytes]) -> list[bytes]:
        """Writes what it can without waiting and returns the lines that are left."""

    def close(self) -> None: ...


class AccessLog:
    """Lines in combined format, buffered. For one thread; call `flush` about once per second."""

    def __init__(self, sink: _Sink | None) -> None:
        self._sink = sink
        self._lines: list[bytes] = []
        self._bytes = 0
        self._dropped = 0
        self._behind = False

    @classmethod
    def open(cls, settings: LogSettings, data: Path) -> AccessLog:
        if settings.access == "file":
            return cls(_FileSink(data / settings.access_file))
        if settings.access == "stdout":
            return cls(_StreamSink(sys.stdout.fileno()))
        if settings.access == "syslog":
            return cls(_SyslogSink(settings.syslog_address))
        return cls(None)

    def write(self, line: str) -> None:
        if self._sink is None:
            return
        # A line break would let a client forge lines.
        if "\n" in line or "\r" in line:
            line = line.replace("\n", "\\n").replace("\r", "\\r")
        encoded = line.encode("utf-8", "backslashreplace") + b"\n"
        if self._bytes + len(encoded) > _BUFFER_LIMIT_BYTES:
            self._dropped += 1
            metrics.DROPPED_LINES.labels("access").inc()
            return
        self._lines.append(encoded)
        self._bytes += len(encoded)
        # While the reader is behind, only the regular flush tries again: not every line may cost an attempt.
        if self._bytes >= _BUFFER_BYTES and not self._behind:
            self.flush()

    def flush(self) -> None:
        if self._sink is None or not self._lines:
            return
        try:
            self._lines = self._sink.send(self._lines)
        except OSError as error:
            log.error("the access log cannot be written: %s; %d lines are lost", error.strerror, len(self._lines))
            metrics.DROPPED_LINES.labels("access").inc(len(self._lines))
            self._lines = []
        self._bytes = sum(map(len, self._lines))
        self._behind = bool(self._lines)
        if self._dropped and not self._lines:
            log.warning("the access log's reader was too slow: %d lines were dropped", self._dropped)
            self._dropped = 0

    def close(self) -> None:
        self.flush()
        if self._sink is not None:
            self._sink.close()
            self._sink = None


class _FileSink:
    """Appends whole batches, so that several processes share the file; reopens it when it was rotated away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._fd = self._open()
        except OSError as error:
            raise InvalidInput(f"the access log {path} cannot be opened: {error.strerror}") from None

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def send(self, lines: list[bytes]) -> list[bytes]:
        if self._rotated():
            fresh = self._open()
            os.close(self._fd)
            self._fd = fresh
        batch = memoryview(b"".join(lines))
        while batch:
            batch = batch[os.write(self._fd, batch) :]
        return []

    def _rotated(self) -> bool:
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        held = os.fstat(self._fd)
        return (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino)

    def close(self) -> None:
        os.close(self._fd)


class _StreamSink:
    """Standard output. A pipe that nobody reads keeps its lines in our buffer instead of stopping the gateway."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def send(self, lines: list[bytes]) -> list[bytes]:
        start = 0
        while start < len(lines) and self._poll.poll(0):
            end, size = start + 1, len(lines[start])
            while end < len(lines) and size + len(lines[end]) <= _PIPE_BYTES:
                size += len(lines[end])
                end += 1
            # A line longer than a pipe takes at once is cut: waiting for its reader is not possible here.
            os.write(self._fd, b"".join(lines[start:end])[: _PIPE_BYTES - 1].rstrip(b"\n") + b"\n")
            start = end
        return lines[start:]

    def close(self) -> None:
        """Standard output stays open: it is not ours."""


class _SyslogSink:
    """Datagrams to the system log, which may lose some when it is busy."""

    def __init__(self, address: str) -> None:
        host, colon, port = address.rpartition(":")
        try:
            if colon and port.isdigit():
                family, kind, protocol, _, target = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
                self._socket = socket.socket(family, kind, protocol)
                self._socket.connect(target)
            else:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.connect(address)
        except OSError as error:
            raise InvalidInput(f"log.syslog_address {address} cannot be reached: {error.strerror}") from None
        self._socket.setblocking(False)

    def send(self, lines: list[bytes]) -> list[bytes]:
        head = f"{_SYSLOG_PRIORITY}tidegate[{os.getpid()}]: ".encode()
        for index, line in enumerate(lines):
            try:
                self._socket.send(head + line.rstrip(b"\n"))
            except BlockingIOError:
                return lines[index:]
        return []

    def close(self) -> None:
        self._socket.close()
