"""Progress on stderr: one rewritten line on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

import click

_FIRST_SECONDS = 1.0
_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 5.0
_CLEAR_LINE = "\r\x1b[2K"


class Ticker:
    """Shows nothing for work that takes less than a second."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._on_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _FIRST_SECONDS
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_shown and self._on_terminal:
            click.echo(_CLEAR_LINE, err=True, nl=False)

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if self._silent or now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._on_terminal else _LINE_SECONDS)
        self._is_shown = True
        if self._on_terminal:
            click.echo(_CLEAR_LINE + text, err=True, nl=False)
        else:
            click.echo(text, err=True)
