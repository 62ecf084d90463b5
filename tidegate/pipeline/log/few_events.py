"""A few records of the topic as files of the log table, without Spark: a job costs more than so few are worth.

Only events that are beyond doubt are taken. What Spark might read otherwise, or reject, is left to `event_columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import structs

from tidegate.core.events import Event, Pairs
from tidegate.core.shards import bucket_day, key_hash
from tidegate.pipeline.column_types import arrow_schema
from tidegate.pipeline.log.event_columns import FILE_SCHEMA, NS_PER_DAY

_FIRST_DAY = date(1970, 1, 1).toordinal()
_FILE = arrow_schema(FILE_SCHEMA)
_NAMES = Event.__struct_fields__
# Small pages, as Spark is told to write them: who asks for some buckets need not read the pages of others.
_PAGE_BYTES = 64 * 1024


def _strict() -> type[msgspec.Struct]:
    """An event as records have it: pairs are a JSON object there, and nothing else."""
    fields: list[Any] = []
    for field in structs.fields(Event):
        if field.type == Pairs:
            fields.append((field.encode_name, dict[str, str], msgspec.field(default_factory=dict)))
        elif field.required:
            fields.append((field.encode_name, field.type))
        else:
            fields.append((field.encode_name, field.type, field.default))
    return msgspec.defstruct("StrictEvent", fields, kw_only=True)


_DECODER = msgspec.json.Decoder(_strict())


def write_events(staged: Sequence[Path], target: Path) -> bool:
    """Writes staged records by day, as `log_table.write_by_day` does. False, with nothing written, if one of them is no
    event beyond doubt."""
    records = pa.concat_tables([pq.read_table(file, partitioning=None) for file in staged])
    try:
        table, days = _table(records)
    except (msgspec.DecodeError, UnicodeError, OverflowError, ValueError, pa.ArrowException):
        return False
    for day in pc.unique(days).to_pylist():
        name = date.fromordinal(_FIRST_DAY + day).isoformat()
        folder = target / f"day={name}"
        folder.mkdir()
        rows = table.filter(pc.equal(days, day)).sort_by([("bucket_day", "ascending"), ("ts_ns", "ascending")])
        pq.write_table(
            rows,
            folder / "events.parquet",
            compression="zstd",
            data_page_size=_PAGE_BYTES,
            write_page_index=True,
        )
    return True


def _table(records: pa.Table) -> tuple[pa.Table, pa.Array]:
    """The rows, and the day of each."""
    events = [_DECODER.decode(value) for value in records.column("value").to_pylist()]
    columns: dict[str, Sequence[Any]] = {name: [getattr(event, name) for event in events] for name in _NAMES}
    for name in ("tags", "attributes"):
        columns[name] = [list(pairs.items()) for pairs in columns[name]]
    days = [ts_ns // NS_PER_DAY for ts_ns in columns["ts_ns"]]
    for day in {min(days), max(days)}:
        date.fromordinal(_FIRST_DAY + day)  # those that have no name are rejected
    hashes = list(map(key_hash, columns["bucket"], columns["key"]))
    number = cache(bucket_day)
    columns |= {
        "shard": [hashed >> 60 & 15 for hashed in hashes],
        "key_hash": hashes,
        "bucket_day": list(map(number, columns["bucket_uid"], days)),
    }
    arrays = [
        records.column(field.name) if field.name.startswith("topic_") else pa.array(columns[field.name], field.type)
        for field in _FILE
    ]
    return pa.Table.from_arrays(arrays, schema=_FILE), pa.array(days, pa.int64())
