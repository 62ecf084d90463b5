"""The same plan by DuckDB, over the same files: the candidates of each rule's stretch, without those that a later event
replaced; of versioned buckets the candidates' keys with all their versions."""

from __future__ import annotations

from pathlib import Path

import duckdb

from bench.lifecycle.generated_log import GeneratedLog
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.pipeline.log.event_columns import NS_PER_DAY

# A day is real here: due times are midnights, and those after one midnight and up to the next are newly due.
_PLAN = f"""
COPY (
  WITH candidates AS (
    SELECT e.bucket_uid, e.bucket, e.owner, e.key, e.key_hash, e.version_id, e.operation, e.ts_ns, e.size, e.etag,
           e.shard, r.is_versioned
    FROM events e JOIN rules r ON e.bucket_uid = r.bucket_uid
      AND e.ts_ns > $after_ns - r.wait_ns AND e.ts_ns <= $until_ns - r.wait_ns
      AND starts_with(e.key, r.prefix)
    WHERE e.operation IN ('put', 'delete-marker')
  ),
  replaced AS (
    SELECT c.bucket_uid, c.key_hash, c.key, c.ts_ns
    FROM candidates c JOIN events e ON e.key_hash = c.key_hash AND e.ts_ns > c.ts_ns
      AND e.bucket_uid = c.bucket_uid AND e.key = c.key
    WHERE NOT c.is_versioned AND e.operation IN ('put', 'delete', 'delete-marker') AND e.ts_ns > $oldest_ns
  ),
  objects AS (
    SELECT bucket_uid, bucket, owner, key, '' AS version_id, ts_ns AS created_ns, size, etag, shard,
           'current' AS place, ts_ns AS start_ns
    FROM candidates c ANTI JOIN replaced r USING (bucket_uid, key_hash, key, ts_ns)
    WHERE NOT c.is_versioned AND operation = 'put'
  ),
  history AS (
    SELECT e.bucket_uid, e.bucket, e.owner, e.key, e.version_id, e.operation, e.ts_ns, e.size, e.etag, e.shard
    FROM events e SEMI JOIN (SELECT key_hash FROM candidates WHERE is_versioned) c ON e.key_hash = c.key_hash
    WHERE e.bucket_uid IN (SELECT bucket_uid FROM rules WHERE is_versioned)
  ),
  alive AS (
    SELECT * FROM history h ANTI JOIN (SELECT bucket_uid, key, version_id FROM history WHERE operation = 'delete') d
      USING (bucket_uid, key, version_id)
    WHERE operation IN ('put', 'delete-marker')
  ),
  placed AS (
    SELECT *, lag(ts_ns) OVER newest_first AS successor_ns, count(*) OVER (PARTITION BY bucket_uid, key) AS versions
    FROM alive WINDOW newest_first AS (PARTITION BY bucket_uid, key ORDER BY ts_ns DESC)
  ),
  versions AS (
    SELECT bucket_uid, bucket, owner, key, version_id, ts_ns AS created_ns, size, etag, shard,
           CASE WHEN successor_ns IS NOT NULL THEN 'noncurrent' WHEN operation = 'put' THEN 'current'
                WHEN versions = 1 THEN 'sole' ELSE 'covering' END AS place,
           coalesce(successor_ns, ts_ns) AS start_ns
    FROM placed
  ),
  due AS (
    SELECT s.*, r.kind, r.position, (s.start_ns + r.wait_ns + {NS_PER_DAY - 1}) // {NS_PER_DAY} * {NS_PER_DAY} AS due_ns
    FROM (FROM objects UNION ALL FROM versions) s JOIN rules r ON s.bucket_uid = r.bucket_uid
      AND starts_with(s.key, r.prefix) AND (r.kind = 'NoncurrentDays') = (s.place = 'noncurrent')
      AND s.place <> 'covering'
  )
  SELECT bucket_uid, key, version_id, created_ns, first(bucket) AS bucket, first(owner) AS owner, first(size) AS size,
         first(etag) AS etag, first(shard) AS shard, arg_min(kind, (due_ns, position)) AS kind, min(due_ns) AS due_ns
  FROM due WHERE due_ns <= $until_ns
  GROUP BY bucket_uid, key, version_id, created_ns
  HAVING max(due_ns) > $after_ns
) TO '{{target}}' (FORMAT parquet, COMPRESSION zstd)
"""


def plan(log: GeneratedLog, target: Path, *, after_ns: int) -> int:
    """Writes the plan to a file and gives the number of its rows."""
    files = [str(log.table.path / file.path) for file in log.table.manifest().files]
    rules = [
        (
            bucket.uid,
            bucket.bucket_context.versioning is not Versioning.OFF,
            pair.rule.filter.prefix,
            pair.action.kind.value,
            (pair.action.days or 0) * NS_PER_DAY,
            pair.position,
        )
        for bucket in log.buckets
        for pair in bucket.rule_set.active()
    ]
    assert {kind for *_, kind, _, _ in rules} == {ActionKind.EXPIRATION_DAYS, ActionKind.NONCURRENT_DAYS}
    oldest_ns = after_ns - max(wait_ns for *_, wait_ns, _ in rules)
    with duckdb.connect() as connection:
        columns = "bucket_uid text, is_versioned bool, prefix text, kind text, wait_ns int8, position int4"
        connection.execute(f"CREATE TABLE rules ({columns})")
        connection.executemany("INSERT INTO rules VALUES (?, ?, ?, ?, ?, ?)", rules)
        connection.execute(_view(files))
        wanted = {"after_ns": after_ns, "until_ns": log.until_ns, "oldest_ns": oldest_ns}
        connection.execute(_PLAN.replace("{target}", str(target)), wanted)
        found = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(target)]).fetchone()
    assert found is not None
    return int(found[0])


def _view(files: list[str]) -> str:
    return f"CREATE VIEW events AS FROM read_parquet([{', '.join(map(repr, files))}])"
