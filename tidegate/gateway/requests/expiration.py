"""The header `x-amz-expiration` on replies that show an object."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from tidegate.core.events import EventKind
from tidegate.core.lifecycle.expiration_header import expiration_header
from tidegate.core.lifecycle.rules import RuleSet
from tidegate.core.lifecycle.subjects import Version
from tidegate.core.placements import Placement
from tidegate.gateway.http.http1 import ResponseHead

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_NANOSECOND = 1_000_000_000


def needs_tags(admission: Admission) -> bool:
    """Whether the tags of a stored object must be known to tell its expiry."""
    rules = admission.rules
    return rules is not None and rules.needs_tags and not admission.version_id


def of_read(exchange: Exchange, reply: ResponseHead) -> bytes:
    """The line for the head of a reply that shows an object; the reply tells all but the tags."""
    admission = exchange.admitted
    created = last_modified(reply) if admission.rules is not None else None
    if admission.rules is None or created is None:
        return b""
    version = Version("", int(created * _NANOSECOND), size=_whole_size(reply.headers), tags=exchange.tags)
    return _line(_value(admission, admission.rules, reply.status, version))


def of_moved(admission: Admission, record: Placement, status: int) -> str:
    """The header's value for an object that was moved, "" if there is none: its record tells all."""
    if admission.rules is None:
        return ""
    created_ns = int(record.last_modified) * _NANOSECOND
    return _value(admission, admission.rules, status, Version("", created_ns, size=record.size, tags=record.tags))


def of_change(exchange: Exchange, reply: ResponseHead) -> bytes:
    """The same for the reply to a change that has made an object: its event tells of it."""
    admission, made = exchange.admitted, exchange.made
    if admission.rules is None or made is None or made.operation is not EventKind.PUT:
        return b""
    version = Version("", made.ts_ns, size=made.size or 0, tags=made.tags)
    return _line(_value(admission, admission.rules, reply.status, version))


def _value(admission: Admission, rules: RuleSet, status: int, version: Version) -> str:
    """Nothing where a version is asked for: only current versions expire by these rules."""
    if status not in (200, 206) or admission.version_id:
        return ""
    return expiration_header(rules, admission.object_key, version) or ""


def _line(value: str) -> bytes:
    return b"x-amz-expiration: " + value.encode() if value else b""


def _whole_size(headers: dict[bytes, bytes]) -> int:
    total = headers.get(b"content-range", b"").rpartition(b"/")[2] or headers.get(b"content-length", b"0")
    return int(total) if total.isdigit() else 0


def last_modified(reply: ResponseHead) -> float | None:
    try:
        return parsedate_to_datetime(reply.headers.get(b"last-modified", b"").decode("latin-1")).timestamp()
    except ValueError:
        return None
