"""Requests to an S3 endpoint, its answers, and how fast data may go there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol
from urllib.parse import quote

from tidegate.core import sigv4

# What stands in a query without a value.
_FLAGS = frozenset(
    {"versions", "uploads", "versioning", "object-lock", "tagging", "delete"}
    | {"tidegate-placement", "tidegate-data", "tidegate-original", "tidegate-trash"}
)

Body = bytes | Iterable[bytes]


class Throttle(Protocol):
    """How fast data may go to and from an endpoint. Shared by threads."""

    def transfer(self) -> AbstractContextManager[None]:
        """Held while the data of one object or part is on its way; waits for its turn."""

    def portion(self, most: int) -> int:
        """How many bytes to send or read at once."""

    def moved(self, count: int) -> None:
        """So many bytes go now; waits as long as it takes to keep to the limit."""


class Unlimited:
    def transfer(self) -> AbstractContextManager[None]:
        return nullcontext()

    def portion(self, most: int) -> int:
        return most

    def moved(self, count: int) -> None:
        pass


class Answer(NamedTuple):
    """Names of headers are in lower case. Values are UTF-8, as S3's clients send them; other bytes are escaped, so that
    they can be sent on as they came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """`query` has what a value or its name alone gives a meaning; a body that is no `bytes` needs a content-length."""

    method: str
    bucket: str
    key: str = ""
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    body: Body = b""
    # What the signature says of the body; empty: its digest.
    payload: str = ""

    @property
    def path(self) -> str:
        return f"/{self.bucket}/{quote(self.key, safe='/-_.~')}" if self.key else f"/{self.bucket}"

    @property
    def query_text(self) -> str:
        pairs = (self.query or {}).items()
        return "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs if value or name in _FLAGS)

    @property
    def subject(self) -> str:
        return f"{self.bucket}/{self.key}" if self.key else f"bucket {self.bucket}"

    @property
    def digest(self) -> str:
        if self.payload:
            return self.payload
        return sha256(self.body).hexdigest() if isinstance(self.body, bytes) else sigv4.UNSIGNED_PAYLOAD
