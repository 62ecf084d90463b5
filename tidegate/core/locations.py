"""Locations: named S3 endpoints beside the pools, to which the data of objects moves. A storage class names one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import InvalidInput

# Short enough for the name of a consumer group.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?")
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_HOST = re.compile(r"[a-z0-9._:-]+", re.IGNORECASE)
_LONGEST_PREFIX = 256
STANDARD = "STANDARD"
# What operators call all sites of replication together.
EVERY_SITE = "all"


@dataclass(frozen=True, slots=True)
class Location(JsonRecord):
    """`secret` is sealed: the vault opens it. `prefix` begins every key there; it is empty or ends with a slash.
    `ca_file` has the authorities that its certificate is checked against, where those of the system do not know it.
    The limits hold for each process: requests at a time, and bytes per second (0: any)."""

    PREFIX = "lo:"

    name: str
    endpoint: str
    bucket: str
    access_key: str
    secret: str
    created_at: float
    region: str = "us-east-1"
    prefix: str = ""
    storage_classes: tuple[str, ...] = ()
    ca_file: str = ""
    concurrency: int = 8
    bytes_per_second: int = 0

    @property
    def host(self) -> str:
        """HOST:PORT of its endpoint."""
        where = urlsplit(self.endpoint)
        return f"{where.hostname}:{where.port or (443 if self.is_secure else 80)}"

    @property
    def is_secure(self) -> bool:
        return self.endpoint.startswith("https:")


def complete_prefix(prefix: str) -> str:
    """With the slash that people leave out."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def check_location(location: Location, others: Iterable[Location] = ()) -> Location:
    """Gives the location back if it can be one. Raises `InvalidInput`. `others` are the locations that exist."""
    if location.name == EVERY_SITE:
        raise InvalidInput(f"a location cannot be called {EVERY_SITE!r}, which stands for all sites of replication")
    if not _NAME.fullmatch(location.name):
        raise InvalidInput(
            f"{location.name!r} is not the name of a location: use 1 to 24 lowercase letters, digits and hyphens, "
            "beginning and ending with a letter or digit"
        )
    if not _is_endpoint(location.endpoint):
        raise InvalidInput(f"{location.endpoint!r} is not an S3 endpoint: use http://HOST:PORT or https://HOST:PORT")
    if not _BUCKET.fullmatch(location.bucket):
        raise InvalidInput(f"{location.bucket!r} is not the name of a bucket")
    if len(location.prefix.encode()) > _LONGEST_PREFIX or (location.prefix and not location.prefix.endswith("/")):
        raise InvalidInput(f"a prefix ends with a slash and has at most {_LONGEST_PREFIX} bytes: {location.prefix!r}")
    if not location.access_key or not location.secret:
        raise InvalidInput(f"location {location.name} needs an access key and its secret")
    if location.concurrency < 1 or location.bytes_per_second < 0:
        raise InvalidInput("a location's concurrency is at least 1, and its bandwidth is not negative")
    others = [other for other in others if other.name != location.name]
    for other in others:
        if _overlap(location, other):
            raise InvalidInput(
                f"location {other.name} lies in the same bucket, and its prefix {other.prefix!r} overlaps with "
                f"{location.prefix!r}: give each its own, neither of them a part of the other"
            )
    for name in location.storage_classes:
        if not _CLASS.fullmatch(name) or name == STANDARD:
            raise InvalidInput(f"{name!r} is not a storage class that objects can move to")
        for other in others:
            if name in other.storage_classes:
                raise InvalidInput(f"the storage class {name} is served by location {other.name} already")
    return location


def _overlap(one: Location, other: Location) -> bool:
    """Whether data of one would be found among that of the other, which audits would take for orphans."""
    if (one.host.lower(), one.bucket) != (other.host.lower(), other.bucket):
        return False
    return one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)


def _is_endpoint(url: str) -> bool:
    """The host alone: a path, a query or credentials would be left out without a word."""
    try:
        where = urlsplit(url)
        port = where.port
    except ValueError:
        return False
    return (
        where.scheme in ("http", "https")
        and bool(_HOST.fullmatch(where.hostname or ""))
        and port != 0
        and where.path in ("", "/")
        and "@" not in where.netloc
        and not (where.query or where.fragment)
    )


def serving(locations: Iterable[Location], storage_class: str) -> Location | None:
    """The location to which objects of the class move."""
    return next((location for location in locations if storage_class in location.storage_classes), None)


def served_classes(locations: Iterable[Location], order: Sequence[str]) -> tuple[str, ...]:
    """The storage classes that locations serve, from the warmest to the coldest: as in `order`, which need not know
    all of them; the others come after those, the older location's first."""
    by_age = sorted(locations, key=lambda location: (location.created_at, location.name))
    found = [name for location in by_age for name in location.storage_classes]
    return tuple([name for name in order if name in found] + [name for name in found if name not in order])
