"""A multipart/form-data body, taken apart as it comes in: small fields first, then one file.

The fields, with everything else that comes before the data of the file, must be in the first bytes of the body. What
follows the file is ignored, as S3 does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from tidegate.core.s3errors import S3Error

MOST_BYTES_BEFORE_FILE = 20 * 1024
_FILE = "file"
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")

# What clients do wrong is their business: the parser would warn of each of their mistakes.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class FormReader:
    """Feed it every byte of the body, in pieces of any size, then call `end`. `fields` have lower-case names; they are
    complete when `has_file` says that the file has begun. `filename` is what the client calls the file."""

    __slots__ = (
        "_data",
        "_fed",
        "_field",
        "_file_ended",
        "_form_ended",
        "_header",
        "_headers",
        "_parser",
        "fields",
        "filename",
        "has_file",
    )

    def __init__(self, headers: Mapping[bytes, bytes]) -> None:
        """`headers` are those of the request. Raises `S3Error`."""
        _, options = parse_options_header(headers.get(b"content-type", b""))
        boundary = options.get(b"boundary", b"")
        if not _BOUNDARY.fullmatch(boundary):
            raise _malformed("it names no proper boundary")
        self.fields: dict[str, str] = {}
        self.filename = ""
        self.has_file = False
        self._fed = 0
        self._data: list[bytes] = []
        self._field = ""
        self._header = (b"", b"")
        self._headers: dict[bytes, bytes] = {}
        self._file_ended = False
        self._form_ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begins,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_ends,
                "on_headers_finished": self._data_begins,
                "on_part_data": self._part_data,
                "on_part_end": self._part_ends,
                "on_end": self._form_ends,
            },
        )

    def feed(self, data: bytes) -> bytes:
        """The data of the file in these bytes. Raises `S3Error`."""
        if not self.has_file:
            allowed = MOST_BYTES_BEFORE_FILE - self._fed
            self._fed += len(data)
            self._parse(data[:allowed])
            if len(data) <= allowed:
                return self._file_data()
            if not self.has_file:
                raise S3Error("MaxPostPreDataLengthExceeded")
            data = data[allowed:]
        self._parse(data)
        return self._file_data()

    def end(self) -> None:
        """The body is over. Raises `S3Error` unless it had a file that was complete."""
        if self._form_ended and not self.has_file:
            raise S3Error(
                "InvalidArgument",
                "POST requires exactly one file upload per request.",
                fields={"ArgumentName": _FILE, "ArgumentValue": "0"},
            )
        if not self._file_ended:
            raise _malformed("it ends before the boundary that should end it")

    def _parse(self, data: bytes) -> None:
        if self._file_ended:
            return
        try:
            self._parser.write(data)
        except FormParserError as error:
            if not self._file_ended:
                raise _malformed(str(error)) from None

    def _file_data(self) -> bytes:
        if not self.has_file:
            return b""
        pieces, self._data = self._data, []
        return b"".join(pieces)

    # --- what the parser calls -------------------------------------------------------------------

    def _part_begins(self) -> None:
        self._headers = {}
        self._header = (b"", b"")

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], b"")

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])

    def _header_ends(self) -> None:
        name, value = self._header
        if name.lower() in self._headers:
            raise _malformed("a part has a header twice")
        self._headers[name.lower()] = value
        self._header = (b"", b"")

    def _data_begins(self) -> None:
        if self._file_ended:
            return
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if kind != b"form-data" or not options.get(b"name"):
            raise _malformed("a part does not say which field it is")
        self._field = _text(options[b"name"]).lower()
        if self._field == _FILE:
            self.has_file = True
            self.filename = _text(options.get(b"filename", b""))
        elif self._field in self.fields:
            raise S3Error("InvalidArgument", f"The form has the field {self._field[:256]} twice.")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if not self._file_ended:
            self._data.append(data[start:end])

    def _part_ends(self) -> None:
        if self.has_file:
            self._file_ended = True
        else:
            self.fields[self._field] = _text(b"".join(self._data))
            self._data = []

    def _form_ends(self) -> None:
        self._form_ended = True


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _malformed("names and values of fields must be valid UTF-8") from None


def _malformed(why: str) -> S3Error:
    return S3Error(
        "MalformedPOSTRequest", f"The body of your POST request is not well-formed multipart/form-data: {why}."
    )
