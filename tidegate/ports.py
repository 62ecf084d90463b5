"""The ports: what the services need from storage for small records, for messages and for objects.

Adapters translate the errors of their libraries to those of `tidegate.core.errors`
(`Unavailable` when the server cannot be reached). All calls block; asynchronous callers
use a thread. Every object here may be shared by threads unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import UploadPage, VersionPage
from tidegate.core.xml import DeleteEntry, DeleteResult


class Tables(Protocol):
    """Small records by key: any non-empty text to any text, ordered by the key's UTF-8 bytes."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, value: str, *, expires_in: float | None = None) -> None:
        """Sets the value; with `expires_in` it vanishes after so many seconds, without it never."""

    def put_if_absent(self, key: str, value: str, *, expires_in: float | None = None) -> bool:
        """Sets the value only where there is none (an expired one is none). True if it was set."""

    def compare_and_set(
        self, key: str, expected: str | None, value: str | None, *, expires_in: float | None = None
    ) -> bool:
        """Replaces `expected` by `value` in one step; None stands for absence on either side."""

    def delete(self, key: str) -> bool:
        """True if there was a live entry."""

    def scan(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        """At most `limit` live (key, value) pairs in key order, keys beginning with `prefix`
        and strictly greater than the marker `after` (itself a full key)."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Record:
    """What a producer appends. Its key chooses the partition, unless one is named: records with equal keys keep their
    order, and so do those of one partition."""

    key: str
    value: bytes
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a consumer sees it. `attempt` is 1 at first delivery and grows by one with each
    `retry_later`; (`topic`, `partition`, `offset`) is where the record was first appended."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    appended_at: float
    attempt: int = 1


class Consumer(Protocol):
    """One member of a consumer group. Not for sharing between threads.

    The members of a group share out the partitions. What was polled and neither acknowledged,
    retried nor dead-lettered when a member closes or dies is delivered again, to it or to another
    member. Delivery is at least once; per partition, first deliveries come in order.
    """

    def poll(self, limit: int = 100, timeout: float = 1.0) -> list[Message]:
        """Up to `limit` messages; waits at most `timeout` seconds for the first."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Marks them as done. The committed offset moves up to the first one not done."""

    def retry_later(self, message: Message, *, not_before: float) -> None:
        """Done for now: it is delivered again to this group, not before that Unix time,
        also after a restart. It does not hold up the messages behind it."""

    def dead_letter(self, message: Message, reason: str) -> None:
        """Moves it to the topic `<topic>.dead-letters`, as JSON with key, base64 value, reason,
        attempt, group and origin."""

    def close(self) -> None: ...


class Topics(Protocol):
    """Named, partitioned, durable message logs."""

    def create(self, topic: str, partitions: int) -> None:
        """Does nothing where the topic exists. Appending to or consuming from an unknown topic
        raises `NotFound`."""

    def names(self) -> list[str]:
        """All topics, sorted; not those an adapter keeps for its own use."""

    def append(self, topic: str, records: Sequence[Record]) -> None:
        """All records are on stable storage when this returns. One call is one batch."""

    def probe(self, topic: str) -> None:
        """Raises `Unavailable` if nothing could be appended now, as far as that can be told without doing it."""

    def consumer(self, topic: str, group: str) -> Consumer:
        """Joins the group; a new group starts at the beginning of the topic."""

    def lag(self, topic: str, group: str) -> int:
        """Messages the group has not finished: uncommitted ones and those that wait for a retry."""

    def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Message]:
        """Messages from `offset` on, without any group. Fewer than `limit` means the end."""

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        """Per partition: the first offset still held and the offset the next record will get."""

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Forgets messages with smaller offsets."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Look:
    """One version as the store shows it now: its identity, and what forbids its deletion."""

    etag: str
    last_modified: str
    size: int
    retained_until_ns: int | None = None
    legal_hold: bool = False


class Store(Protocol):
    """The S3 calls of the workers, at an endpoint that compares identities before it deletes.

    Beside `Unavailable` (try later: the server cannot be reached, or has trouble), calls raise `NotFound`, `Refused`
    (forbidden; nothing was changed) and `Conflict` (what was meant is not what is there; nothing was changed). After
    `Unavailable` it is unknown whether a change was made. An empty version id means the current version.
    """

    def versioning(self, bucket: str) -> Versioning: ...

    def locks_objects(self, bucket: str) -> bool:
        """Whether versions in the bucket can be locked at all."""

    def list_versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str = "",
        limit: int = 1000,
    ) -> VersionPage:
        """One page in S3's order: by the keys' bytes, and of each key the newest version first."""

    def list_uploads(
        self, bucket: str, *, prefix: str = "", key_marker: str = "", upload_id_marker: str = "", limit: int = 1000
    ) -> UploadPage: ...

    def read(self, bucket: str, key: str, *, start: int, length: int) -> bytes:
        """Part of an object: so many bytes from there on, or as many as there are."""

    def tags(self, bucket: str, key: str, version_id: str = "") -> Pairs: ...

    def look(self, bucket: str, key: str, version_id: str = "") -> Look | None:
        """None where there is no such version; a delete marker is none."""

    def delete(self, bucket: str, entry: DeleteEntry, *, only_marker: bool = False) -> None:
        """Deletes if the identity in the entry is that of what is there; with `only_marker`, if it is no object."""

    def delete_many(self, bucket: str, entries: Sequence[DeleteEntry]) -> DeleteResult:
        """At most 1000 in one request; each stands for itself. Keys must be such as XML can hold."""

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None: ...

    def close(self) -> None: ...
