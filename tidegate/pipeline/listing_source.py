"""The walker: versions and open uploads of buckets as a Spark data source, each bucket listed once.

A bucket is read in parallel by its folders, since a prefix is the one division of a bucket that every store keeps
apart; a bucket without folders is read by one reader. How pages of one store fit together is not known here: `walk` is
given, and takes one step through a prefix. Tags are fetched with the listing, where a rule asks for them and nowhere
else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from tidegate.assembly import open_store
from tidegate.core.errors import NotFound
from tidegate.core.listings import ListedUpload, ListedVersion, latest_moment_ns
from tidegate.pipeline.places import UPLOAD_SCHEMA, VERSION_SCHEMA
from tidegate.pipeline.tag_needs import TagNeed
from tidegate.ports import Store

_NAME = "tidegate-listing"
_PAGE = 1000
_SLASH = "/"
# Folders are dealt out to so many readers: more than there are cores, since folders differ in size.
_READERS_PER_BUCKET = 16
# What XML shows in place of a character that it cannot hold: such a key cannot be named.
_UNSHOWABLE = "\ufffd"

LISTED_SCHEMA = StructType(
    [
        *VERSION_SCHEMA.fields,
        StructField("is_latest", BooleanType()),
        StructField("sequence", LongType()),
        StructField("resolved", BooleanType()),
    ]
)


@dataclass(frozen=True, slots=True)
class WalkedBucket:
    """A bucket, and how it is reached. Only keys that begin with `prefix` are listed."""

    uid: str
    name: str
    owner: str
    url: str
    access_key: str
    secret: str
    prefix: str = ""
    tag_needs: tuple[TagNeed, ...] = ()


class Step(Protocol):
    """What one step through a prefix found. It ends with an empty marker; keys that it could not resolve are named."""

    @property
    def keys(self) -> Mapping[str, Sequence[ListedVersion]]: ...
    @property
    def folders(self) -> Sequence[str]: ...
    @property
    def next_marker(self) -> str: ...
    @property
    def unresolved(self) -> Sequence[str]: ...


class Walk(Protocol):
    def __call__(self, store: Store, bucket: str, *, prefix: str, marker: str, limit: int) -> Step: ...


def register(session: SparkSession, walk: Walk) -> None:
    """Once per session, before anything is listed."""
    session.dataSource.register(_source(walk))


def listed_versions(session: SparkSession, buckets: Sequence[WalkedBucket]) -> DataFrame:
    """Every version (`LISTED_SCHEMA`). Rows that are not `resolved` name keys whose versions the store cannot tell."""
    return _load(session, buckets, "versions")


def listed_uploads(session: SparkSession, buckets: Sequence[WalkedBucket]) -> DataFrame:
    """Every open upload (`UPLOAD_SCHEMA`)."""
    return _load(session, buckets, "uploads")


def newest_first() -> list[Column]:
    """The order of a key's listed versions. Some stores put the null version last, wherever it belongs."""
    return [F.col("is_latest").desc(), F.col("created_ns").desc(), F.col("sequence")]


def _load(session: SparkSession, buckets: Sequence[WalkedBucket], what: str) -> DataFrame:
    # Spark hides the values of options that have `secret` in their name.
    secret = json.dumps([asdict(bucket) for bucket in buckets])
    return session.read.format(_NAME).options(what=what, secret=secret).load()


@dataclass
class _Part(InputPartition):
    """Folders to walk, or one level of a bucket without its folders."""

    bucket: WalkedBucket
    prefixes: tuple[str, ...] = ()
    level: str | None = None


def _source(walk: Walk) -> type[DataSource]:
    class ListingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return _NAME

        def schema(self) -> StructType:
            return LISTED_SCHEMA if self.options["what"] == "versions" else UPLOAD_SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:
            buckets = [_bucket(values) for values in json.loads(self.options["secret"])]
            return _VersionReader(buckets, walk) if self.options["what"] == "versions" else _UploadReader(buckets)

    return ListingSource


class _VersionReader(DataSourceReader):
    def __init__(self, buckets: Sequence[WalkedBucket], walk: Walk) -> None:
        self._buckets = buckets
        self._walk = walk

    def partitions(self) -> Sequence[InputPartition]:
        return [part for bucket in self._buckets for part in _parts(bucket)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        bucket = partition.bucket
        store = open_store(bucket.url, bucket.access_key, bucket.secret)
        try:
            for versions, unresolved in self._pages(store, partition):
                shown = [version for version in versions if _UNSHOWABLE not in version.key]
                yield _version_batch(bucket, shown, _tags(store, bucket, shown))
                hidden = {version.key for version in versions if _UNSHOWABLE in version.key}
                if hidden or unresolved:
                    yield _unresolved_batch(bucket, [*unresolved, *sorted(hidden)])
        finally:
            store.close()

    def _pages(self, store: Store, part: _Part) -> Iterator[tuple[list[ListedVersion], Sequence[str]]]:
        if part.level is not None:
            page = store.list_versions(part.bucket.name, prefix=part.level, delimiter=_SLASH, limit=_PAGE)
            if not page.is_truncated:
                yield list(page.versions), ()
                return
        # A level that has grown since it was looked at is walked with its folders, which others read.
        waiting = [(prefix, "") for prefix in part.prefixes or (part.level or "",)]
        while waiting:
            prefix, marker = waiting.pop()
            step = self._walk(store, part.bucket.name, prefix=prefix, marker=marker, limit=_PAGE)
            if step.next_marker:
                waiting.append((prefix, step.next_marker))
            if part.level is None:
                waiting += [(folder, "") for folder in step.folders]
            yield (
                [found for key, group in step.keys.items() if _belongs(key, part.level) for found in group],
                [key for key in step.unresolved if _belongs(key, part.level)],
            )


class _UploadReader(DataSourceReader):
    def __init__(self, buckets: Sequence[WalkedBucket]) -> None:
        self._buckets = buckets

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(bucket) for bucket in self._buckets]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        bucket = partition.bucket
        store = open_store(bucket.url, bucket.access_key, bucket.secret)
        try:
            key, upload_id, is_truncated = "", "", True
            while is_truncated:
                page = store.list_uploads(
                    bucket.name, prefix=bucket.prefix, key_marker=key, upload_id_marker=upload_id, limit=_PAGE
                )
                yield _upload_batch(bucket, page.uploads)
                # A store that says "more" and does not move on would be asked for ever.
                is_truncated = page.is_truncated and (page.next_key, page.next_upload_id) != (key, upload_id)
                key, upload_id = page.next_key, page.next_upload_id
        finally:
            store.close()


def _bucket(values: dict[str, Any]) -> WalkedBucket:
    needs = tuple(TagNeed(**need) for need in values.pop("tag_needs"))
    return WalkedBucket(**values, tag_needs=needs)


def _parts(bucket: WalkedBucket) -> list[_Part]:
    """By folders where there are several; one that holds everything is looked into."""
    store = open_store(bucket.url, bucket.access_key, bucket.secret)
    try:
        prefix = bucket.prefix
        while True:
            page = store.list_versions(bucket.name, prefix=prefix, delimiter=_SLASH, limit=_PAGE)
            if len(page.prefixes) != 1 or page.versions or page.is_truncated:
                break
            prefix = page.prefixes[0]
    finally:
        store.close()
    if page.is_truncated or not page.prefixes:
        return [_Part(bucket, (prefix,))]
    readers = min(len(page.prefixes), _READERS_PER_BUCKET)
    dealt = [_Part(bucket, tuple(page.prefixes[number::readers])) for number in range(readers)]
    return [_Part(bucket, level=prefix), *dealt]


def _belongs(key: str, level: str | None) -> bool:
    """Whether it is a key of the level itself, and not of a folder below it."""
    return level is None or _SLASH not in key[len(level) :]


def _tags(store: Store, bucket: WalkedBucket, versions: Iterable[ListedVersion]) -> list[dict[str, str]]:
    return [
        _fetched(store, bucket, version) if any(need.is_for(version) for need in bucket.tag_needs) else {}
        for version in versions
    ]


def _fetched(store: Store, bucket: WalkedBucket, version: ListedVersion) -> dict[str, str]:
    try:
        return dict(store.tags(bucket.name, version.key, version.version_id))
    except NotFound:
        return {}  # it went while it was listed


def _version_batch(
    bucket: WalkedBucket, versions: Sequence[ListedVersion], tags: Sequence[dict[str, str]]
) -> pa.RecordBatch:
    count = len(versions)
    columns: dict[str, Sequence[Any]] = {
        "key": [version.key for version in versions],
        "version_id": [version.version_id for version in versions],
        "created_ns": [latest_moment_ns(version.modified) for version in versions],
        "last_modified": [version.modified for version in versions],
        "size": [version.size for version in versions],
        "etag": [version.etag for version in versions],
        "tags": [list(found.items()) for found in tags],
        "storage_class": [version.storage_class for version in versions],
        "is_marker": [version.is_marker for version in versions],
        "is_latest": [version.is_latest for version in versions],
        "sequence": list(range(count)),
        "resolved": [True] * count,
        "legal_hold": [False] * count,
        "replication_pending": [False] * count,
        "tagged_ns": [0] * count,
        "moved_ns": [0] * count,
    }
    return _batch(bucket, LISTED_SCHEMA, columns, count)


def _unresolved_batch(bucket: WalkedBucket, keys: Sequence[str]) -> pa.RecordBatch:
    return _batch(bucket, LISTED_SCHEMA, {"key": keys, "resolved": [False] * len(keys)}, len(keys))


def _upload_batch(bucket: WalkedBucket, uploads: Sequence[ListedUpload]) -> pa.RecordBatch:
    columns: dict[str, Sequence[Any]] = {
        "key": [upload.key for upload in uploads],
        "upload_id": [upload.upload_id for upload in uploads],
        "created_ns": [latest_moment_ns(upload.started) for upload in uploads],
    }
    return _batch(bucket, UPLOAD_SCHEMA, columns, len(uploads))


def _batch(bucket: WalkedBucket, schema: StructType, columns: Mapping[str, Sequence[Any]], rows: int) -> pa.RecordBatch:
    same = {"bucket_uid": bucket.uid, "bucket": bucket.name, "owner": bucket.owner}
    arrow = _arrow(schema)
    arrays = [pa.array(columns.get(field.name) or [same.get(field.name)] * rows, field.type) for field in arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _arrow(schema: StructType) -> pa.Schema:
    kinds = {"string": pa.string(), "bigint": pa.int64(), "boolean": pa.bool_()}
    tags = pa.map_(pa.string(), pa.string())
    return pa.schema([(field.name, kinds.get(field.dataType.simpleString(), tags)) for field in schema.fields])
