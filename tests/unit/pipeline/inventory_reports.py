"""Inventory reports as S3 writes them, from rows of plain values."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq

CSV_COLUMNS = ("Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate", "ETag")
CURRENT_ONLY = tuple(name for name in CSV_COLUMNS if name not in ("VersionId", "IsLatest", "IsDeleteMarker"))
LOCKS = ("ReplicationStatus", "ObjectLockRetainUntilDate", "ObjectLockLegalHoldStatus")
PARQUET_NAMES = {
    "Bucket": ("bucket", pa.string()),
    "Key": ("key", pa.string()),
    "VersionId": ("version_id", pa.string()),
    "IsLatest": ("is_latest", pa.bool_()),
    "IsDeleteMarker": ("is_delete_marker", pa.bool_()),
    "Size": ("size", pa.int64()),
    "LastModifiedDate": ("last_modified_date", pa.timestamp("ms", tz="UTC")),
    "ETag": ("e_tag", pa.string()),
    "StorageClass": ("storage_class", pa.string()),
    "ReplicationStatus": ("replication_status", pa.string()),
    "ObjectLockRetainUntilDate": ("object_lock_retain_until_date", pa.timestamp("ms", tz="UTC")),
    "ObjectLockLegalHoldStatus": ("object_lock_legal_hold_status", pa.string()),
}


def csv_file(columns, rows):
    """Every field in quotes, keys encoded, no header."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        shown = {**row, "Key": quote_plus(row["Key"], safe="/")}
        writer.writerow([_shown(shown.get(name)) for name in columns])
    return gzip.compress(text.getvalue().encode())


def _shown(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def parquet_file(columns, rows):
    fields = [PARQUET_NAMES[name] for name in columns]
    arrays = []
    for name, (_, kind) in zip(columns, fields, strict=True):
        values = [row.get(name) for row in rows]
        if pa.types.is_timestamp(kind):
            values = [datetime.fromisoformat(value) if value else None for value in values]
        arrays.append(pa.array(values, kind))
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, names=[name for name, _ in fields]), sink)
    return sink.getvalue()


def report(bucket, columns, parts, *, created_ns, parquet=False, prefix="reports"):
    """The contents of a report by their keys, the manifest's first; `parts` are the rows of each file."""
    contents = {}
    for number, rows in enumerate(parts):
        name = f"{prefix}/{bucket}/daily/data/part-{number}.{'parquet' if parquet else 'csv.gz'}"
        contents[name] = parquet_file(columns, rows) if parquet else csv_file(columns, rows)
    manifest = {
        "sourceBucket": bucket,
        "destinationBucket": "arn:aws:s3:::reports",
        "version": "2016-11-30",
        "creationTimestamp": str(created_ns // 1_000_000),
        "fileFormat": "Parquet" if parquet else "CSV",
        "fileSchema": parquet_schema(columns) if parquet else ", ".join(columns),
        "files": [
            {"key": key, "size": len(content), "MD5checksum": hashlib.md5(content).hexdigest()}
            for key, content in contents.items()
        ],
    }
    begun = datetime.fromtimestamp(created_ns // 10**9, UTC).strftime("%Y-%m-%dT%H-%MZ")
    return {f"{prefix}/{bucket}/daily/{begun}/manifest.json": json.dumps(manifest).encode(), **contents}


def parquet_schema(columns):
    kinds = {pa.string(): "binary {} (STRING)", pa.bool_(): "boolean {}", pa.int64(): "int64 {}"}
    shown = [
        "optional " + kinds.get(kind, "int64 {} (TIMESTAMP(MILLIS,true))").format(name)
        for name, kind in (PARQUET_NAMES[column] for column in columns)
    ]
    return "message s3.inventory { " + "; ".join(shown) + "; }"


def written(directory: Path, contents) -> str:
    """In a directory, as a copy of the bucket; the address of the manifest."""
    for key, content in contents.items():
        file = directory / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return str(directory / next(iter(contents)))
