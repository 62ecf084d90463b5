"""The values of a process's metrics in files that other processes can read, in the format of `prometheus_client`.

That library maps such files into memory and lets them grow without reserving space, so that a full disk kills whoever
counts. Here values are kept in memory and written to their places; what a disk does not take is lost to readers for the
time being, and written with the next change of the value.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

_USED = struct.Struct("i4x")
_LENGTH = struct.Struct("i")
_PAIR = struct.Struct("dd")
_SMALLEST_BYTES = 65536


class ValueFile:
    """Values by key. A file that an earlier process with the same pid left is continued. One thread may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._used = _USED.size
        self._places: dict[str, int] = {}
        self.found: dict[str, float] = {}
        try:
            self._open()
        except OSError:
            return  # tried again with the next value

    def write(self, key: str, value: float, timestamp: float) -> None:
        """A value that finds no place on the disk is left out."""
        try:
            if self._fd < 0:
                self._open()
            place = self._places.get(key)
            if place is not None:
                os.pwrite(self._fd, _PAIR.pack(value, timestamp), place)
            else:
                self._add(_entry(key, value, timestamp), key)
        except OSError:
            return

    def _add(self, entry: bytes, key: str) -> None:
        """Writes the entry first and the end mark second, so that a reader never sees half an entry."""
        _write_whole(self._fd, entry, self._used)
        _write_whole(self._fd, _USED.pack(self._used + len(entry)), 0)
        self._used += len(entry)
        self._places[key] = self._used - _PAIR.size

    def _open(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(fd).st_size
        try:
            # Before anything else: readers do not understand an empty file.
            os.ftruncate(fd, max(size, _SMALLEST_BYTES))
            for key, value, _, place in MmapedDict.read_all_values_from_file(str(self._path)):
                self._places[key] = place
                self._used = place + _PAIR.size
                self.found[key] = value
        except OSError:
            os.close(fd)
            if size == 0:
                self._path.unlink(missing_ok=True)
            raise
        self._fd = fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def store(path: Path, values: Iterable[tuple[str, float]]) -> None:
    """Replaces a file by one with these values, in one step; raises OSError and leaves it alone if that fails."""
    entries = b"".join(_entry(key, value, 0.0) for key, value in values)
    content = _USED.pack(_USED.size + len(entries)) + entries
    new = path.with_suffix(".new")
    try:
        new.write_bytes(content.ljust(_SMALLEST_BYTES, b"\0"))
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def value_class(directory: Path) -> type:
    """The class of the values whose files are in the directory: for `prometheus_client.values.ValueClass`."""
    files: dict[str, ValueFile] = {}
    values: list[_Value] = []
    lock = threading.Lock()
    is_forked = False

    def file_of(kind: str) -> ValueFile:
        if kind not in files:
            files[kind] = ValueFile(directory / f"{kind}_{os.getpid()}.db")
        return files[kind]

    def forked() -> None:
        """Forgets the files in a forked process, which mostly becomes another program."""
        nonlocal lock, is_forked
        lock, is_forked = threading.Lock(), True

    def begin_anew() -> None:
        """In a forked process, whose counts are its own."""
        nonlocal is_forked
        is_forked = False
        for file in files.values():
            file.close()
        files.clear()
        for value in values:
            value.begin()

    class _Value:
        _multiprocess = True

        def __init__(
            self,
            typ: str,
            metric_name: str,
            name: str,
            labelnames: Any,
            labelvalues: Any,
            help_text: str,
            multiprocess_mode: str = "",
            **_: Any,
        ) -> None:
            self._kind = f"{typ}_{multiprocess_mode}" if typ == "gauge" else typ
            self._key = mmap_key(metric_name, name, labelnames, labelvalues, help_text)
            with lock:
                if is_forked:
                    begin_anew()
                values.append(self)
                self.begin()

        def begin(self) -> None:
            self._file = file_of(self._kind)
            self._value = self._file.found.get(self._key, 0.0)
            self._file.write(self._key, self._value, 0.0)

        def inc(self, amount: float) -> None:
            with lock:
                if is_forked:
                    begin_anew()
                self._value += amount
                self._file.write(self._key, self._value, 0.0)

        def set(self, value: float, timestamp: float | None = None) -> None:
            with lock:
                if is_forked:
                    begin_anew()
                self._value = value
                self._file.write(self._key, value, timestamp or 0.0)

        def get(self) -> float:
            return self._value

        def set_exemplar(self, exemplar: Any) -> None:
            """Files have no place for it."""

        def get_exemplar(self) -> None:
            return None

    os.register_at_fork(after_in_child=forked)
    return _Value


def _entry(key: str, value: float, timestamp: float) -> bytes:
    text = key.encode()
    padded = text + b" " * (8 - (len(text) + _LENGTH.size) % 8)
    return _LENGTH.pack(len(text)) + padded + _PAIR.pack(value, timestamp)


def _write_whole(fd: int, data: bytes, offset: int) -> None:
    if os.pwrite(fd, data, offset) != len(data):
        raise OSError("the disk took a part only")
