"""The keys of the list of failures: `bb:crr:failed:BUCKET:KEY:VERSION:SITE`.

Keys of objects may have colons. Names of buckets and sites and version ids have none, so that the first colon and the
last two tell the parts.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from tidegate.core.errors import InvalidInput

FAILED = "bb:crr:failed:"


class FailedKey(NamedTuple):
    bucket: str
    key: str
    version_id: str
    site: str

    def __str__(self) -> str:
        """As messages of the failed topic have it."""
        return ":".join(self)

    @property
    def entry(self) -> str:
        """Where it stands in the tables."""
        return FAILED + str(self)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of a message's key, or of an entry without `FAILED`."""
        bucket, first, rest = text.partition(":")
        parts = rest.rsplit(":", 2)
        if not first or len(parts) != 3 or not (bucket and all(parts)):
            raise InvalidInput(f"{text!r} is not BUCKET:KEY:VERSION:SITE")
        return cls(bucket, *parts)

    @classmethod
    def of_entry(cls, entry: str) -> Self:
        return cls.parse(entry.removeprefix(FAILED))


def listed_value(since: float) -> str:
    """What stands in an entry: since when (Unix time) the version has failed, which tells one failure from the next."""
    return repr(since)


def entries_of_bucket(bucket: str) -> str:
    return f"{FAILED}{bucket}:"


def entries_of_version(bucket: str, key: str, version_id: str) -> str:
    """The beginning of the entries of a version at all sites. It may begin others as well, of keys with colons."""
    return f"{FAILED}{bucket}:{key}:{version_id}:"
