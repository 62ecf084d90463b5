"""Rotation of the log files in the data directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tidegate.settings import LogSettings

_MEGABYTE = 1024 * 1024
# The logs of backends are many.
_KEPT_OF_OTHERS = 1


class LogFiles:
    """`FILE.1` is the newest of those put aside. Only one process of a data directory may do this."""

    def __init__(self, settings: LogSettings, data: Path) -> None:
        self._access_file = data / settings.access_file if settings.access == "file" else None
        self._folder = data / "log"
        self._most_bytes = int(settings.file_megabytes * _MEGABYTE)
        self._kept = settings.kept_files

    def run_once(self) -> None:
        if self._access_file is not None and self._is_large(self._access_file):
            _make_room(self._access_file, self._kept)
            self._access_file.rename(_aside(self._access_file, 1))  # gateways see that, and begin a new one
        for file in sorted(self._folder.glob("*.log")):
            if file != self._access_file and self._is_large(file):
                # Whoever writes it does not look whether it is still there, but always appends.
                _make_room(file, _KEPT_OF_OTHERS)
                shutil.copy(file, _aside(file, 1))
                os.truncate(file, 0)

    def _is_large(self, file: Path) -> bool:
        try:
            return file.stat().st_size >= self._most_bytes
        except FileNotFoundError:
            return False


def _make_room(file: Path, kept: int) -> None:
    _aside(file, kept).unlink(missing_ok=True)
    for number in range(kept - 1, 0, -1):
        if _aside(file, number).exists():
            _aside(file, number).rename(_aside(file, number + 1))


def _aside(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")
