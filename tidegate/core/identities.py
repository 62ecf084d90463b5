"""What a conditional delete requires of the object that it finds: the identity that its sender saw."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from tidegate.core.xml import DeleteEntry

_ANY = "*"
_MD5 = re.compile("[0-9a-f]{32}")


class Identity(NamedTuple):
    """An object as a store shows it. `modified` is a Unix time, None where the store tells none."""

    etag: str
    size: int
    modified: float | None


def moment(text: str) -> float | None:
    """The Unix time that a text in ISO's or in HTTP's form means, in UTC where it names no zone; None if it is none."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError, TypeError, IndexError):  # each of them for some hostile text
            found = parse(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


def needs_look(entry: DeleteEntry) -> bool:
    """Whether the entry asks for more than a backend compares by itself, which is the ETag."""
    return not (entry.size is None and entry.last_modified is None and entry.unmodified_since is None)


def holds(entry: DeleteEntry, found: Identity) -> bool:
    """Whether everything that the entry names is true of what was found. A time that is none is true of nothing."""
    if entry.size is not None and entry.size != found.size:
        return False
    if entry.etag is not None and entry.etag != _ANY and entry.etag.strip('"') != found.etag:
        return False
    if entry.last_modified is not None and not _is_same_second(entry.last_modified, found.modified):
        return False
    return entry.unmodified_since is None or _is_not_after(found.modified, entry.unmodified_since)


def _is_same_second(text: str, modified: float | None) -> bool:
    """HTTP knows whole seconds only."""
    wanted = moment(text)
    return wanted is not None and modified is not None and int(wanted) == int(modified)


def _is_not_after(modified: float | None, text: str) -> bool:
    limit = moment(text)
    return limit is not None and modified is not None and modified <= limit


def plain_md5(headers: Mapping[str, str]) -> str:
    """The MD5 of an object's data, if the ETag is one: not of uploads in parts, nor of what a store encrypts with its
    keys. Names of headers are in lower case."""
    etag = headers.get("etag", "").strip('"').lower()
    return etag if _MD5.fullmatch(etag) and "x-amz-server-side-encryption" not in headers else ""
