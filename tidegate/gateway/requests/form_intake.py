"""The body of a form as it comes in: the payload is the file in it, which waits until the form is admitted."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.checksums import BodyCheck
from tidegate.core.post_policy import SizeRange
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.requests.form_reader import FormReader
from tidegate.gateway.requests.intake import Intake


class FormIntake(Intake):
    """`checks` look at the whole body. Nobody knows how long the file is before its end."""

    __slots__ = ("_early", "_file_checks", "_is_open", "_size", "form")

    def __init__(self, head: RequestHead, checks: Sequence[BodyCheck]) -> None:
        super().__init__(head, None, checks)
        self.payload_length = None
        self.form = FormReader(head.headers)
        self._early: list[bytes] = []
        self._is_open = False
        self._size = SizeRange()
        self._file_checks: Sequence[BodyCheck] = ()

    @property
    def bypassable(self) -> bool:
        return False

    def _payload(self, body: bytes) -> bytes:
        for check in self._checks:
            check.feed(body)
        data = self.form.feed(body)
        if self._is_open:
            return self._checked(data)
        self._early.append(data)
        return b""

    def _checked(self, data: bytes) -> bytes:
        self.payload_bytes += len(data)
        self._size.check_most(self.payload_bytes)
        for check in self._file_checks:
            check.feed(data)
        return data

    def open(self, size: SizeRange, checks: Sequence[BodyCheck]) -> bytes:
        """The form is admitted, if its file has such a size and passes the checks: gives what of it has come so far."""
        self._is_open = True
        self._size = size
        self._file_checks = checks
        data = self._checked(b"".join(self._early))
        self._early = []
        if self.complete:
            self._end_file()
            self.payload_length = self.payload_bytes
        return data

    def end(self) -> None:
        super().end()
        self.form.end()
        if self._is_open:
            self._end_file()

    def _end_file(self) -> None:
        self._size.check_least(self.payload_bytes)
        for check in self._file_checks:
            check.end()
