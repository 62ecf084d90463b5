"""The log that the bench of planning generates is one that is planned, by Spark and by DuckDB alike."""

from __future__ import annotations

from bench.lifecycle import duckdb_plan
from bench.lifecycle.generated_log import generate
from bench.lifecycle.planning import planned_by_spark
from tidegate.pipeline.log.event_columns import NS_PER_DAY


def test_spark_and_duckdb_plan_the_same_of_a_generated_log(spark, tmp_path):
    log = generate(spark, tmp_path, 5000)
    after_ns = log.until_ns - NS_PER_DAY
    _, due = planned_by_spark(spark, log, tmp_path / "plan", after_ns, log.until_ns)
    assert due == duckdb_plan.plan(log, tmp_path / "duckdb.parquet", after_ns=after_ns) > 0
