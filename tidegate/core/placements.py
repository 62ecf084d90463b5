"""Placements: the record that the data of a version lies elsewhere, with everything that a reply needs.

The record is the truth about its version for as long as it stands. Clients see the version as it was when it was moved:
its id, size, ETag, time and headers; of the store they see nothing.

A version that was moved has a *stub* in the pool's store while it is the current one, or was when it was moved: an
empty object that takes its place in listings. Metadata of the stub, which clients can neither send nor see, names the
record. The stub may have another version id in the store (`stub_id`) than clients know (`version_id`). A noncurrent
version cannot be replaced in its place: it has a record alone, and gets a stub when it becomes the current one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.codec import JsonRecord
from tidegate.core.events import NULL_VERSION, Pairs
from tidegate.core.listings import ListedVersion

# Entries of the tables: `pl:UID/KEY<NUL>VERSION`, in S3's order of keys; `bp:UID` where a bucket has, or had, any.
PLACEMENTS = "pl:"
HAS_PLACEMENTS = "bp:"
_END_OF_KEY = "\0"
# Tidegate's own metadata: those of stubs, and those with which a copy says whose it is.
RESERVED_METADATA = "x-amz-meta-tidegate-"
STUB_HEADER = RESERVED_METADATA + "placement"


@dataclass(frozen=True, slots=True)
class Placement(JsonRecord):
    """`id` is what the stub names. `version_id` is the client's, "null" for the null version and in buckets without
    versioning. `stub_id` is the store's version id of the stub ("" where the bucket has no versioning).

    The data lies in `location` under `data_key`, where it shows the ETag `data_etag`; without a location it lies in the
    pool's own store, in the place of the stub: it was moved back, and the record keeps its time. `modified` is the text
    that listings show for the time, `listed_etag` the ETag in them, where some stores show another one. `headers` are
    those of a reply beside length, ETag and time. `parts` are the sizes of the parts it was uploaded in. `above` and
    `below` are its neighbours among the key's versions when it was moved. `has_original` says that the store may still
    have the version itself, which is on its way to deletion. A record that `is_void` is of no version any more: it
    hides a stub that must stay for a while.
    """

    id: str
    pool: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    location: str
    data_key: str
    size: int
    etag: str
    modified: str
    last_modified: float
    storage_class: str
    moved_ns: int
    data_etag: str = ""
    listed_etag: str = ""
    is_current: bool = True
    has_stub: bool = False
    stub_id: str = ""
    has_original: bool = False
    is_void: bool = False
    headers: Pairs = ()
    tags: Pairs = ()
    parts: tuple[int, ...] = ()
    above: str = ""
    below: str = ""

    @property
    def entry(self) -> str:
        """Where it stands in the tables."""
        return entry_of(self.bucket_uid, self.key, self.version_id)

    @property
    def stub_name(self) -> str:
        """What the stub's metadata says."""
        return f"{self.bucket_uid}/{self.version_id}/{self.id}"

    def listed(self, *, is_latest: bool) -> ListedVersion:
        """As listings of versions show it."""
        return ListedVersion(
            self.key,
            self.version_id,
            is_latest,
            False,
            self.last_modified,
            self.listed_etag or self.etag,
            self.size,
            self.storage_class,
            self.modified,
        )

    def as_object(self) -> ListedVersion:
        """As listings of objects show it."""
        return self.listed(is_latest=True)._replace(etag=self.etag)


def entries_of_key(bucket_uid: str, key: str) -> str:
    """The beginning of all entries of a key, and of no other."""
    return f"{PLACEMENTS}{bucket_uid}/{key}{_END_OF_KEY}"


def entry_of(bucket_uid: str, key: str, version_id: str) -> str:
    return entries_of_key(bucket_uid, key) + (version_id or NULL_VERSION)


def of_version(records: Iterable[Placement], version_id: str) -> Placement | None:
    """The record that a client's version id means; without an id, that of the current version."""
    valid = (record for record in records if not record.is_void)
    if version_id:
        return next((record for record in valid if record.version_id == version_id), None)
    return next((record for record in valid if record.is_current), None)


def merged(stored: Sequence[ListedVersion], records: Sequence[Placement]) -> list[ListedVersion]:
    """The versions of one key as clients see them, the newest first: `stored` are those of the store, in that order.

    Stubs show the versions that they stand for. Originals that are still there are not shown a second time, and
    versions without a stub stand where they stood.
    """
    if not records:
        return list(stored)
    hidden = {record.stub_id for record in records if record.is_void}
    stored = [version for version in stored if version.version_id not in hidden]
    records = [record for record in records if not record.is_void]
    of_stub = {record.stub_id or NULL_VERSION: record for record in records if record.has_stub}
    known = {record.version_id for record in records}
    found: list[ListedVersion] = []
    for version in stored:
        record = None if version.is_marker else of_stub.get(version.version_id)
        if record is not None:
            found.append(record.listed(is_latest=version.is_latest))
        elif version.is_marker or version.version_id not in known:
            found.append(version)
    shown = {version.version_id for version in found if not version.is_marker}
    left = [record for record in records if record.version_id not in shown]
    for record in sorted(left, key=lambda each: each.last_modified, reverse=True):
        found.insert(_place(found, record), record.listed(is_latest=False))
    return [version._replace(is_latest=number == 0) for number, version in enumerate(found)]


@dataclass(frozen=True, slots=True)
class Settled:
    """What is to be done with the records of a key after its versions in the store have changed. `kept` are those that
    are to be written anew, `released` those whose versions are gone, and `promoted` is one that needs a stub. `stale`
    are the store's ids of former stubs, which nothing refers to."""

    kept: tuple[Placement, ...] = ()
    released: tuple[Placement, ...] = ()
    promoted: Placement | None = None
    stale: tuple[str, ...] = ()


def settled(
    records: Sequence[Placement],
    stored: Sequence[ListedVersion],
    *,
    stub_names: Mapping[str, str],
    deleted: str = "",
) -> Settled:
    """`stored` are the key's versions in the store, the newest first. `stub_names` tells of the null version, and of
    those that `doubtful` gives, what record their metadata names ("" if they are no stubs). `deleted` is a version that
    a client has deleted by its id.

    A gateway may have been killed after it put a stub and before it noted that down: what names a record is its stub.
    A stub that is gone was replaced where it stood for the null version, whose id is used again. One that stood for a
    version with an id of its own was only in the way of a null version: the version itself is a noncurrent one now.
    """
    adopted = [_adopted(record, stored, stub_names) for record in records]
    stale = _stale(records, adopted, stub_names)
    stored = [version for version in stored if version.version_id not in stale]
    by_id = {_raw(version.version_id): version for version in stored}
    kept: list[Placement] = []
    released: list[Placement] = []
    for record in adopted:
        stub = by_id.get(_raw(record.stub_id)) if record.has_stub else None
        if stub is not None and (stub.is_marker or not _names(stub_names, record)):
            stub = None
        is_deleted = bool(deleted) and record.version_id == deleted
        if record.is_void:
            (kept if stub is not None and must_stay(record, stored) else released).append(record)
        elif is_deleted or (stub is not None and _is_written_anew(record, by_id, stub_names)):
            released.append(record)
        elif stub is not None:
            kept.append(replace(record, is_current=stub.is_latest))
        elif record.has_stub and record.version_id != NULL_VERSION:
            kept.append(replace(record, has_stub=False, stub_id="", is_current=False))
        elif record.has_stub or _is_replaced(record, by_id.get(record.version_id), stub_names):
            released.append(record)
        else:
            kept.append(record)
    shown = merged(stored, kept)
    first = of_version(kept, shown[0].version_id) if shown and not shown[0].is_marker else None
    promoted = first if first is not None and _needs_stub(first, by_id) else None
    kept = [replace(record, is_current=record is first) if not record.has_stub else record for record in kept]
    before = {record.version_id: record for record in records}
    changed = tuple(record for record in kept if record != before[record.version_id])
    return Settled(changed, tuple(released), promoted, stale)


def doubtful(records: Sequence[Placement], stored: Sequence[ListedVersion]) -> list[str]:
    """The store's ids of versions that may be stubs of which the records do not tell. A stub is put on top of the key,
    with the current version's record written before; the one that it replaces goes last."""
    known = {record.version_id for record in records} | {_raw(record.stub_id) for record in records if record.has_stub}
    found: dict[str, None] = {}
    ids = [_raw(version.version_id) for version in stored]
    for record in records:
        if not record.is_current or record.is_void:
            continue
        place = _raw(record.stub_id) if record.has_stub else record.version_id
        end = ids.index(place) + (2 if record.has_stub else 0) if place in ids else len(ids)
        for version in stored[:end]:
            if not version.is_marker and version.version_id not in known and version.size in (0, record.size):
                found[version.version_id] = None
    return [version_id for version_id in found if _raw(version_id) != NULL_VERSION]


def _adopted(record: Placement, stored: Sequence[ListedVersion], stub_names: Mapping[str, str]) -> Placement:
    """The record with the newest stub that is known to be its own, or names it."""
    known = _raw(record.stub_id) if record.has_stub else None
    ids = (_raw(version.version_id) for version in stored if not version.is_marker)
    stub_id = next((each for each in ids if each == known or stub_names.get(each) == record.stub_name), known)
    if record.is_void or stub_id in (None, known):
        return record
    is_latest = _raw(stored[0].version_id) == stub_id
    has_original = stub_id != record.version_id and any(each.version_id == record.version_id for each in stored)
    stub_id = "" if stub_id == NULL_VERSION else stub_id
    return replace(record, has_stub=True, stub_id=stub_id, is_current=is_latest, has_original=has_original)


def _stale(before: Sequence[Placement], adopted: Sequence[Placement], stub_names: Mapping[str, str]) -> tuple[str, ...]:
    names = {record.stub_name for record in adopted}
    found = [version_id for version_id, name in stub_names.items() if name in names]
    found += [record.stub_id for record, after in zip(before, adopted, strict=True) if record.stub_id != after.stub_id]
    known = {_raw(record.stub_id) for record in adopted if record.has_stub} | {NULL_VERSION}
    return tuple(version_id for version_id in found if _raw(version_id) not in known)


def _needs_stub(record: Placement, by_id: Mapping[str, ListedVersion]) -> bool:
    """Whether the current version has no stub, or one that still holds data: it had been moved back, and was moved
    again."""
    return not record.has_stub or bool(record.location and by_id[_raw(record.stub_id)].size)


def is_original(record: Placement, stored: ListedVersion, stub_names: Mapping[str, str]) -> bool:
    """Whether a version in the store that has the record's id is the one that was moved, and no stub and nothing that
    was written since."""
    if record.has_stub and _raw(record.stub_id) == _raw(stored.version_id):
        return False
    return not _is_replaced(record, stored, stub_names)


def must_stay(record: Placement, stored: Sequence[ListedVersion]) -> bool:
    """Whether the stub must not be deleted yet, since a store may take another version for the current one then."""
    is_there = any(version.version_id == record.stub_id for version in stored)
    return is_there and any(version.is_latest and version.version_id == NULL_VERSION for version in stored)


def _is_written_anew(record: Placement, by_id: Mapping[str, ListedVersion], stub_names: Mapping[str, str]) -> bool:
    """Whether the store has a later null version than the one that the record, whose stub has an id, is about."""
    if _raw(record.stub_id) == NULL_VERSION:
        return False
    return NULL_VERSION in by_id and _is_replaced(record, by_id[NULL_VERSION], stub_names)


def _names(stub_names: Mapping[str, str], record: Placement) -> bool:
    """Whether the stub is that of the record. Ids other than that of the null version are never used again."""
    name = stub_names.get(_raw(record.stub_id))
    return name is None or name == record.stub_name


def _is_replaced(record: Placement, stored: ListedVersion | None, stub_names: Mapping[str, str]) -> bool:
    """Whether the null version, which has no stub, was written anew. What is there may still be the original."""
    if record.version_id != NULL_VERSION:
        return False
    if stored is None:
        return not record.has_original and record.is_current
    if stored.is_marker:
        return True
    is_original = (
        not stub_names.get(NULL_VERSION)
        and stored.size == record.size
        and stored.modified == record.modified
        and stored.etag == record.listed_etag
    )
    return not is_original


def _raw(version_id: str) -> str:
    return version_id or NULL_VERSION


def _place(found: Sequence[ListedVersion], record: Placement) -> int:
    ids = [version.version_id for version in found]
    if record.is_current:
        return 0
    if record.above in ids:
        return ids.index(record.above) + 1
    if record.below in ids:
        return ids.index(record.below)
    older = (number for number, version in enumerate(found) if version.last_modified < record.last_modified)
    return next(older, len(found))
