"""The ports: what the services need from storage for small records, for messages and for objects.

Adapters translate the errors of their libraries to those of `tidegate.core.errors`
(`Unavailable` when the server cannot be reached). All calls block; asynchronous callers
use a thread. Every object here may be shared by threads unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import UploadPage, VersionPage
from tidegate.core.placements import Placement
from tidegate.core.xml import DeleteEntry, DeleteResult

NOTHING_EXPECTED: Mapping[str, str | None] = MappingProxyType({})


class Tables(Protocol):
    """Small records by key: any non-empty text to any text, ordered by the key's UTF-8 bytes."""

    # Whether reading a few entries takes less time than handing the call to another thread: nothing is asked over a
    # network, and nobody who writes is waited for.
    reads_at_once: bool

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

    def change(
        self, entries: Mapping[str, str | None], *, expected: Mapping[str, str | None] = NOTHING_EXPECTED
    ) -> bool:
        """Sets each key to its value, without an expiry, or removes it where that is None: all of them in one step, and
        none of them unless each key of `expected` has its value then (None stands for absence). True if it was done."""

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


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has come in a topic. `reached` is per partition the offset before which the group needs no
    message of the topic any more; `retrying` are the messages that wait for a retry, which are kept elsewhere."""

    reached: tuple[int, ...]
    retrying: int


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

    def renew(self) -> None:
        """Says that this member is still at work on what it polled. Called more often than the lease is long, it lets a
        message take as long as it needs: nothing is delivered, and what is in flight goes to nobody else, unless the
        members of the group change."""

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

    def progress(self, topic: str, group: str) -> GroupProgress: ...

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


@dataclass(frozen=True, slots=True)
class StoredHead:
    """What a store shows of an object: its headers, their names in lower case."""

    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        return self.headers.get("etag", "").strip('"')

    @property
    def size(self) -> int:
        return int(self.headers.get("content-length") or 0)


@dataclass(frozen=True, slots=True)
class ObjectStream:
    """An object that is being read; `chunks` gives its data by pieces, and raises `Unavailable` if it breaks off."""

    head: StoredHead
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class StoredPart:
    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version that was written; its id is empty in a bucket without versioning."""

    version_id: str
    etag: str = ""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An entry of a plain listing; `last_modified` is a Unix time."""

    key: str
    size: int
    etag: str
    last_modified: float


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

    def open(
        self, bucket: str, key: str, version_id: str = "", *, if_match: str = "", start: int = 0
    ) -> AbstractContextManager[ObjectStream]:
        """An object to be read piece by piece, from `start` on; `Conflict` if it does not have the ETag."""

    def head(self, bucket: str, key: str, version_id: str = "") -> StoredHead | None:
        """All that the store shows of an object; None where there is none."""

    def list_objects(
        self, bucket: str, *, prefix: str = "", start_after: str = "", limit: int = 1000
    ) -> Sequence[StoredObject]:
        """Current objects, in S3's order of keys or in one of the store's own (SeaweedFS's goes by folders); after the
        last key of a page, the next one begins. Fewer than `limit` means the end."""

    def put(self, bucket: str, key: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> str:
        """Stores an object that is at hand whole, and gives its ETag. Its MD5 goes with it, which the store checks."""

    def put_version(
        self, bucket: str, key: str, data: bytes, *, headers: Mapping[str, str] | None = None
    ) -> StoredVersion:
        """As `put`. Raises `Unavailable` if the ETag is the MD5 of other data."""

    def put_marker(self, bucket: str, key: str, *, headers: Mapping[str, str] | None = None) -> StoredVersion:
        """Deletes what is current, which leaves a delete marker in a bucket with versioning."""

    def put_tags(self, bucket: str, key: str, version_id: str, tags: Pairs) -> None:
        """In place of all that the version has."""

    def start_upload(self, bucket: str, key: str, *, headers: Mapping[str, str] | None = None) -> str:
        """The id of an upload in parts."""

    def put_part(self, bucket: str, key: str, upload_id: str, number: int, data: bytes) -> StoredPart:
        """Its MD5 goes with it, which the store checks."""

    def parts(self, bucket: str, key: str, upload_id: str) -> Sequence[StoredPart]:
        """The parts that an upload has so far; `NotFound` if there is no such upload."""

    def complete_upload(self, bucket: str, key: str, upload_id: str, parts: Sequence[StoredPart]) -> str:
        """Makes the parts an object, and gives its ETag."""

    def complete_version(self, bucket: str, key: str, upload_id: str, parts: Sequence[StoredPart]) -> StoredVersion:
        """As `complete_upload`."""

    def tags(self, bucket: str, key: str, version_id: str = "") -> Pairs: ...

    def look(self, bucket: str, key: str, version_id: str = "") -> Look | None:
        """None where there is no such version; a delete marker is none."""

    def delete(self, bucket: str, entry: DeleteEntry, *, only_marker: bool = False) -> None:
        """Deletes if the identity in the entry is that of what is there; with `only_marker`, if it is no object."""

    def delete_many(self, bucket: str, entries: Sequence[DeleteEntry]) -> DeleteResult:
        """At most 1000 in one request; each stands for itself. Keys must be such as XML can hold."""

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None: ...

    def place(self, bucket: str, key: str, version_id: str, request: Mapping[str, object]) -> dict[str, Any]:
        """Asks a gateway to record where the data of a version lies now; its answer has `outcome` and `reason`.
        Asking again is safe. The key must be a pool's service key, here and in the next four calls."""

    def move_back(
        self, bucket: str, key: str, version_id: str, data_key: str, size: int, chunks: Iterable[bytes]
    ) -> None:
        """Gives a gateway the data of a version, which it stores in the pool again. `Conflict` if the version does not
        lie under that data key any more."""

    def delete_original(self, bucket: str, key: str, version_id: str) -> bool:
        """Has a gateway delete what a version left behind in the pool when it was moved; False if that is in use."""

    def describe(self, bucket: str, key: str, version_id: str = "") -> Placement | None:
        """All that a gateway would need to show a version whose data lies elsewhere; None where there is none."""

    def undelete(self, bucket: str, key: str, version_id: str, record_id: str, *, dry_run: bool = False) -> str:
        """Asks a gateway to bring a version back from the trash: `restored`, `kept` (as it is), or `gone`. Asking again
        is safe."""

    def close(self) -> None: ...
