"""The rows of an inventory report's files, column by column, as the walker's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from tidegate.core.errors import InvalidInput
from tidegate.core.events import NULL_VERSION
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.pipeline.walk.inventory import CSV, VERSION_COLUMNS, Report, ReportFile, opened, plain_name
from tidegate.pipeline.walk.listed_rows import Rows
from tidegate.ports import Store

Columns = Mapping[str, pa.Array]

_READ = (
    *("bucket", "key", "size", "lastmodifieddate", "etag", "storageclass", *VERSION_COLUMNS),
    *("replicationstatus", "objectlockretainuntildate", "objectlocklegalholdstatus"),
)
_TYPES = {"size": pa.int64(), "islatest": pa.bool_(), "isdeletemarker": pa.bool_()}
_BLOCK_BYTES = 4 * 1024 * 1024
_BATCH_ROWS = 65_536
_TIME = pa.timestamp("ns", tz="UTC")
# No byte of UTF-8: it cannot stand in a key.
_SEPARATOR = b"\xff"


def report_rows(rows: Rows, report: Report, file: ReportFile, store: Store, prefix: str) -> Iterator[pa.RecordBatch]:
    """Of the keys that begin with `prefix`."""
    try:
        with opened(report, file, store) as content:
            for columns in _csv(report, content) if report.form == CSV else _parquet(content):
                yield rows.columns(_listed(_checked(columns, report.bucket), prefix, report.created_ns))
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise InvalidInput(f"the inventory file {file.key} cannot be understood: {error}") from None


def _csv(report: Report, content: IO[bytes]) -> Iterator[Columns]:
    wanted = [name for name in report.columns if name in _READ]
    plain = pa.CompressedInputStream(content, "gzip")
    reader = csv.open_csv(
        plain,
        read_options=csv.ReadOptions(column_names=list(report.columns), block_size=_BLOCK_BYTES, use_threads=False),
        convert_options=csv.ConvertOptions(
            column_types={name: _TYPES.get(name, pa.string()) for name in report.columns},
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=False,
        ),
    )
    for batch in reader:
        columns = dict(zip(wanted, batch.columns, strict=True))
        yield columns | {"key": _url_decoded(columns["key"])}


def _parquet(content: IO[bytes]) -> Iterator[Columns]:
    file = parquet.ParquetFile(content)
    names = {name: plain_name(name) for name in file.schema_arrow.names}
    wanted = [name for name, plain in names.items() if plain in _READ]
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted, use_threads=False):
        yield {names[name]: column for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _checked(columns: Columns, bucket: str) -> Columns:
    if not pc.all(pc.equal(columns["bucket"], bucket), min_count=0).as_py():
        raise ValueError(f"it has rows of other buckets than {bucket}")
    if columns["key"].null_count or pc.any(pc.equal(columns["key"], "")).as_py():
        raise ValueError("it has rows without a key")
    return columns


def _url_decoded(keys: pa.Array) -> pa.Array:
    """As HTML forms encode: a plus is a space. All keys are decoded as one text, since most need nothing."""
    joined = _SEPARATOR.join(keys.cast(pa.binary()).to_pylist())
    if b"%" not in joined and b"+" not in joined:
        return keys
    decoded = unquote_to_bytes(joined.replace(b"+", b" ")).split(_SEPARATOR)
    if len(decoded) != len(keys):
        raise ValueError("it has keys that are not UTF-8")
    return pa.array(decoded, pa.binary()).cast(pa.string())


def _listed(columns: Columns, prefix: str, created_ns: int) -> dict[str, pa.Array]:
    """The walker's columns."""
    if prefix:
        begins = pc.starts_with(columns["key"], prefix)
        columns = {name: column.filter(begins) for name, column in columns.items()}
    count = len(columns["key"])
    last_modified = _iso(columns["lastmodifieddate"])
    is_marker = _flag(columns, "isdeletemarker", default=False)
    version_id = _text(columns, "versionid", count)
    return {
        "key": columns["key"],
        "version_id": pc.if_else(pc.equal(version_id, ""), NULL_VERSION, version_id),
        "created_ns": _latest_moment_ns(last_modified),
        "last_modified": last_modified,
        "size": pc.fill_null(columns["size"], 0),
        "etag": pc.utf8_trim(_text(columns, "etag", count), '"'),
        "storage_class": _text(columns, "storageclass", count),
        "is_marker": is_marker,
        "is_latest": _flag(columns, "islatest", default=True),
        "sequence": pa.array(range(count), pa.int64()),
        "retained_until_ns": _retained_until(columns, count),
        "legal_hold": pc.equal(pc.utf8_upper(_text(columns, "objectlocklegalholdstatus", count)), "ON"),
        "replication_pending": pc.equal(pc.utf8_upper(_text(columns, "replicationstatus", count)), "PENDING"),
        "reported_ns": pa.repeat(pa.scalar(created_ns, pa.int64()), count),
    }


def _text(columns: Columns, name: str, count: int) -> pa.Array:
    return pc.fill_null(columns[name].cast(pa.string()), "") if name in columns else pa.repeat("", count)


def _flag(columns: Columns, name: str, *, default: bool) -> pa.Array:
    if name not in columns:
        return pa.repeat(default, len(columns["key"]))
    if columns[name].null_count:
        raise ValueError(f"it has rows that do not say {name}")
    return columns[name]


def _iso(times: pa.Array) -> pa.Array:
    return pc.strftime(times, "%Y-%m-%dT%H:%M:%SZ") if pa.types.is_timestamp(times.type) else times


def _retained_until(columns: Columns, count: int) -> pa.Array:
    if "objectlockretainuntildate" not in columns:
        return pa.nulls(count, pa.int64())
    texts = _iso(columns["objectlockretainuntildate"])
    return _nanoseconds(pc.if_else(pc.equal(texts, ""), None, texts))


def _nanoseconds(texts: pa.Array) -> pa.Array:
    return pc.cast(texts, _TIME).cast(pa.int64())


def _latest_moment_ns(texts: pa.Array) -> pa.Array:
    """As `core.listings.latest_moment_ns`: the last nanosecond that the text can mean."""
    times = _nanoseconds(texts)
    latest = times
    for unit in (1000, 1_000_000, SECOND_NS):
        is_whole = pc.equal(pc.multiply(pc.divide(times, unit), unit), times)
        latest = pc.if_else(is_whole, pc.add(times, unit - 1), latest)
    return latest
