"""The rows of the walker as Arrow batches: versions, uploads, keys that are not resolved, and problems of a bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tidegate.core.listings import ListedUpload, ListedVersion, latest_moment_ns
from tidegate.pipeline.column_types import arrow_schema, columns
from tidegate.pipeline.plan.version_roles import UPLOAD_SCHEMA, VERSION_SCHEMA

# `problem` says why a bucket cannot be walked: such a row has no key, and whatever else was listed is not all.
# `reported_ns` is the moment of the inventory report that the row is from; it is null in listings.
LISTED_SCHEMA = StructType(
    [
        *VERSION_SCHEMA.fields,
        *columns(is_latest=bool, sequence=int, reported_ns=int, resolved=bool, problem=str),
    ]
)
LISTED_UPLOAD_SCHEMA = StructType([*UPLOAD_SCHEMA.fields, *columns(resolved=bool, problem=str)])


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes the rows of one bucket."""

    uid: str
    bucket: str
    owner: str

    def versions(self, versions: Sequence[ListedVersion]) -> pa.RecordBatch:
        """Without their tags."""
        return self.columns(
            {
                "key": pa.array([version.key for version in versions], pa.string()),
                "version_id": pa.array([version.version_id for version in versions], pa.string()),
                "created_ns": pa.array([latest_moment_ns(version.modified) for version in versions], pa.int64()),
                "last_modified": pa.array([version.modified for version in versions], pa.string()),
                "size": pa.array([version.size for version in versions], pa.int64()),
                "etag": pa.array([version.etag for version in versions], pa.string()),
                "storage_class": pa.array([version.storage_class for version in versions], pa.string()),
                "is_marker": pa.array([version.is_marker for version in versions], pa.bool_()),
                "is_latest": pa.array([version.is_latest for version in versions], pa.bool_()),
                "sequence": pa.array(range(len(versions)), pa.int64()),
            }
        )

    def columns(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Versions by their columns; what neither a listing nor a report tells is added."""
        count = len(columns["key"])
        known = {"legal_hold": False, "replication_pending": False, "tagged_ns": 0, "moved_ns": 0, "resolved": True}
        return self._batch(LISTED_SCHEMA, {"tags": no_tags(count), **columns}, known, count)

    def unresolved(self, keys: Sequence[str]) -> pa.RecordBatch:
        """Keys that are not shown as they are."""
        return self._batch(LISTED_SCHEMA, {"key": pa.array(keys, pa.string())}, {"resolved": False}, len(keys))

    def uploads(self, uploads: Sequence[ListedUpload]) -> pa.RecordBatch:
        columns = {
            "key": pa.array([upload.key for upload in uploads], pa.string()),
            "upload_id": pa.array([upload.upload_id for upload in uploads], pa.string()),
            "created_ns": pa.array([latest_moment_ns(upload.started) for upload in uploads], pa.int64()),
        }
        return self._batch(LISTED_UPLOAD_SCHEMA, columns, {"resolved": True}, len(uploads))

    def problem(self, schema: StructType, text: str) -> pa.RecordBatch:
        return self._batch(schema, {}, {"problem": text, "resolved": False}, 1)

    def _batch(
        self, schema: StructType, columns: Mapping[str, pa.Array], same: Mapping[str, Any], count: int
    ) -> pa.RecordBatch:
        """`same` are values that every row has; what is given nowhere is null."""
        same = {"bucket_uid": self.uid, "bucket": self.bucket, "owner": self.owner, **same}
        arrow = arrow_schema(schema)
        arrays = [
            columns[field.name]
            if field.name in columns
            else pa.repeat(pa.scalar(same.get(field.name), field.type), count)
            for field in arrow
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def no_tags(count: int) -> pa.Array:
    empty = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count + 1), empty, empty)
