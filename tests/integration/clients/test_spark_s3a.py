"""PySpark over S3A: tables written over each other, directories renamed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import spark_s3a
from spark_s3a import SparkProcess
from ways import Way

# Directories `part=…` whose names lie around `/`, and one that Spark has to escape.
PARTS = {
    name: [number] for number, name in enumerate(["app", "app-old", "app.yaml", "app b", "app!", "app0", "a:b", "ü"])
}


@pytest.fixture(scope="module")
def spark(gateway: Way, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    with SparkProcess(gateway, tmp_path_factory.mktemp("s3a")) as process:
        yield process


@pytest.fixture
def address(gateway: Way, fresh_name: Callable[[str], str]) -> str:
    """A bucket of the test's own, as S3A names it."""
    bucket = fresh_name("s3a")
    gateway.s3().create_bucket(Bucket=bucket)
    return f"s3a://{bucket}"


def test_a_partitioned_table_is_overwritten_twice_and_read_back(spark: SparkProcess, address: str) -> None:
    table = f"{address}/tables/one"
    spark.call(spark_s3a.overwrite, table, PARTS)
    assert spark.call(spark_s3a.rows, table) == PARTS
    kept = {name: [*numbers, 100] for name, numbers in PARTS.items() if name != "app"}
    spark.call(spark_s3a.overwrite, table, kept)
    assert spark.call(spark_s3a.rows, table) == kept
    assert "part=app/" not in spark.call(spark_s3a.names, table)
    assert spark.call(spark_s3a.exists, f"{table}/_temporary") is False
    assert spark.call(spark_s3a.exists, f"{table}/part=app") is False


def test_a_dynamic_overwrite_replaces_only_the_partitions_it_writes(spark: SparkProcess, address: str) -> None:
    table = f"{address}/tables/one"
    spark.call(spark_s3a.overwrite, table, PARTS)
    before = spark.call(spark_s3a.files, table)
    spark.call(spark_s3a.overwrite, table, {"app": [7, 8], "new": [9]}, "dynamic")
    assert spark.call(spark_s3a.rows, table) == PARTS | {"app": [7, 8], "new": [9]}
    after = spark.call(spark_s3a.files, table)
    assert _others(after) == _others(before)
    assert [name for name in spark.call(spark_s3a.names, table) if name.startswith(".spark-staging")] == []


def test_a_directory_is_renamed_with_all_that_is_in_it(spark: SparkProcess, address: str) -> None:
    contents = {"app/x": b"1", "app-old/y/z": b"22", "app.yaml": b"333", "app b/ü/🌊": b"4444", "empty": b""}
    spark.call(spark_s3a.write_files, f"{address}/from/deep", contents)
    spark.call(spark_s3a.make_directory, f"{address}/to")
    assert spark.call(spark_s3a.rename, f"{address}/from/deep", f"{address}/to/deeper") is True
    assert spark.call(spark_s3a.exists, f"{address}/from/deep") is False
    assert spark.call(spark_s3a.files, f"{address}/to") == {f"deeper/{name}": len(contents[name]) for name in contents}


def test_a_directory_that_was_deleted_is_gone_at_once(spark: SparkProcess, address: str) -> None:
    contents = {f"{name}/{number}": b"x" for name in ("app", "app-old", "app b/deep/er") for number in range(3)}
    spark.call(spark_s3a.write_files, f"{address}/trees/deep", contents)
    spark.call(spark_s3a.write_files, f"{address}/beside", {"kept": b"x"})
    assert spark.call(spark_s3a.delete, f"{address}/trees/deep/app") is True
    assert spark.call(spark_s3a.exists, f"{address}/trees/deep/app") is False
    assert spark.call(spark_s3a.names, f"{address}/trees/deep") == ["app b/", "app-old/"]
    assert spark.call(spark_s3a.delete, f"{address}/trees") is True
    for gone in ("trees", "trees/deep", "trees/deep/app-old", "trees/deep/app b/deep/er/0"):
        assert spark.call(spark_s3a.exists, f"{address}/{gone}") is False
    assert spark.call(spark_s3a.names, f"{address}/") == ["beside/"]


def test_an_empty_directory_is_there_until_it_is_deleted(spark: SparkProcess, address: str) -> None:
    assert spark.call(spark_s3a.make_directory, f"{address}/empty/deep") is True
    assert spark.call(spark_s3a.is_directory, f"{address}/empty") is True
    assert spark.call(spark_s3a.is_directory, f"{address}/empty/deep") is True
    assert spark.call(spark_s3a.names, f"{address}/empty/deep") == []
    assert spark.call(spark_s3a.delete, f"{address}/empty") is True
    assert spark.call(spark_s3a.exists, f"{address}/empty") is False
    assert spark.call(spark_s3a.exists, f"{address}/empty/deep") is False
    assert spark.call(spark_s3a.names, f"{address}/") == []


def _others(files: dict[str, int]) -> dict[str, int]:
    """The files of partitions that were there before and are not overwritten."""
    return {name: size for name, size in files.items() if not name.startswith(("part=app/", "part=new/", "_SUCCESS"))}
