"""Errors of an S3 endpoint and of the way to it, in our own words."""

from __future__ import annotations

import http.client
import ssl
from contextlib import suppress

from tidegate.core import xml
from tidegate.core.errors import Conflict, NotFound, Refused, TidegateError, Unavailable

# What goes wrong on a connection; `http.client` raises ValueError for an answer that is none.
TROUBLE: tuple[type[Exception], ...] = (OSError, http.client.HTTPException, ValueError)

# Errors that can stand in a reply of status 200, which has begun before the outcome was known.
_NOT_FOUND = frozenset({"NoSuchUpload", "NoSuchKey", "NoSuchBucket"})
_LATER = frozenset({"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted"})


def check(status: int, body: bytes, subject: str) -> None:
    """Raises what an answer of that status means for the object or bucket."""
    if status >= 300:
        raise _class_of(status)(_text(subject, *error_of(status, body)))


def check_document(body: bytes, subject: str) -> xml.Reply:
    """The document of a reply of status 200, unless it is one of an error."""
    reply = xml.parse_reply(body.strip())
    if reply.root != "Error":
        return reply
    code = reply.fields.get("Code", "")
    kind = NotFound if code in _NOT_FOUND else Unavailable if code in _LATER else Refused
    raise kind(_text(subject, code or "an error without a code", reply.fields.get("Message", "")))


def error_of(status: int, body: bytes) -> tuple[str, str]:
    """Code and message of an error; answers to HEAD have neither."""
    with suppress(Unavailable):
        reply = xml.parse_reply(body)
        if reply.root == "Error":
            return reply.fields.get("Code", "") or f"status {status}", reply.fields.get("Message", "")
    return f"status {status}", ""


def trouble_with(host: str, error: Exception) -> Unavailable:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unavailable(
            f"the certificate of {host} is not trusted: {error.verify_message}; if it is the right one, "
            "name a file with the authority that signed it"
        )
    if isinstance(error, ssl.SSLError):
        return Unavailable(f"no TLS connection to {host}: {error.reason or error}")
    return Unavailable(f"the S3 endpoint {host} does not answer: {error!r}")


def _class_of(status: int) -> type[TidegateError]:
    if status >= 500 or status in (408, 429):
        return Unavailable
    if status in (404, 405):
        return NotFound
    return Conflict if status in (409, 412) else Refused


def _text(subject: str, code: str, message: str) -> str:
    return f"{subject}: {code}: {message}" if message else f"{subject}: {code}"
