"""The lines of the access log, in combined format."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from tidegate.logs import AccessLog

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange


class AccessLine:
    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self._second = 0
        self._time = ""

    def write(self, exchange: Exchange) -> None:
        admission = exchange.admission
        user = admission.key.access_key if admission is not None and admission.key is not None else "-"
        head = exchange.head
        request = f"{head.method.decode()} {_quoted(head.target)} HTTP/1.1"
        referer = _quoted_again(head.headers.get(b"referer", b"-"))
        agent = _quoted_again(head.headers.get(b"user-agent", b"-"))
        self._log.write(
            f'{exchange.peer} - {user} [{self._now()}] "{request}" {exchange.status} {exchange.sent_bytes}'
            f' "{referer}" "{agent}"'
        )

    def write_malformed(self, peer: str, status: int) -> None:
        self._log.write(f'{peer} - - [{self._now()}] "-" {status} 0 "-" "-"')

    def _now(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._time = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
        return self._time


@lru_cache(maxsize=256)
def _quoted_again(text: bytes) -> str:
    """For what comes in again and again."""
    return _quoted(text)


def _quoted(text: bytes) -> str:
    if text.isascii() and b'"' not in text and b"\\" not in text:
        return text.decode()
    escaped = text.decode("latin-1").replace("\\", "\\\\").replace('"', '\\"')
    return escaped.encode("ascii", "backslashreplace").decode()
