"""A Spark session with S3A as its file system, in a process of its own, and what tests do in it.

Spark takes in jars when its JVM starts, and a process has one JVM. The tests' own process may already have one without
S3A, so these functions run in another, whose session stays open from call to call.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from running_service import ROOT
from ways import Way

_HADOOP = "3.4.1"  # the one of the locked PySpark
# S3A asks for the SDK in one jar of half a gigabyte, of which it needs these parts.
_SDK = "2.25.16"
_SDK_PARTS = ("s3", "s3-transfer-manager", "sts")
_PACKAGES = [
    f"org.apache.hadoop:hadoop-aws:{_HADOOP}",
    *(f"software.amazon.awssdk:{part}:{_SDK}" for part in _SDK_PARTS),
]

Files = dict[str, int]


class SparkProcess:
    """`call` runs one of this module's functions in the process that has the session."""

    def __init__(self, way: Way, scratch: Path) -> None:
        self._executor = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), initializer=_open, initargs=(way, scratch)
        )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._executor.submit(_told, function, *arguments).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.submit(_close).result()
        self._executor.shutdown()


def _told(function: Callable[..., Any], *arguments: Any) -> Any:
    """Errors that refer to objects of the JVM cannot leave the process."""
    try:
        return function(*arguments)
    except (Py4JError, PySparkException) as error:
        raise RuntimeError(str(error)) from None


def _open(way: Way, scratch: Path) -> None:
    builder = SparkSession.builder.master("local[2]").appName("s3a")
    options = {
        "spark.jars.packages": ",".join(_PACKAGES),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.jars.ivy": str(ROOT / ".tools" / "ivy"),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint": way.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": way.key.access_key,
        "spark.hadoop.fs.s3a.secret.key": way.key.secret_key,
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        # A further attempt would hide what went wrong in the first.
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
        "spark.hadoop.fs.s3a.retry.limit": "1",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    builder.getOrCreate().sparkContext.setLogLevel("ERROR")


def _close() -> None:
    _session().stop()


def _session() -> SparkSession:
    return SparkSession.builder.getOrCreate()


def overwrite(address: str, parts: dict[str, list[int]], mode: str = "static") -> None:
    """Writes one row for each number, in a partition for each name. `dynamic` leaves other partitions alone."""
    writer = _table(parts).write.mode("overwrite").option("partitionOverwriteMode", mode)
    writer.partitionBy("part").parquet(address)


def _table(parts: dict[str, list[int]]) -> DataFrame:
    """Made of SQL, since a frame made of Python objects would need Python workers to read it."""
    values = ", ".join(f"('{name}', {number})" for name, numbers in parts.items() for number in numbers)
    return _session().sql(f"SELECT part, number FROM VALUES {values} AS rows (part, number)")


def rows(address: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in _session().read.parquet(address).collect():
        found.setdefault(str(row["part"]), []).append(row["number"])
    return {name: sorted(numbers) for name, numbers in found.items()}


def write_files(address: str, files: dict[str, bytes]) -> None:
    for name, contents in files.items():
        stream = _file_system(address).create(_path(f"{address}/{name}"))
        stream.write(bytearray(contents))
        stream.close()


def make_directory(address: str) -> bool:
    return bool(_file_system(address).mkdirs(_path(address)))


def rename(source: str, target: str) -> bool:
    return bool(_file_system(source).rename(_path(source), _path(target)))


def delete(address: str) -> bool:
    return bool(_file_system(address).delete(_path(address), True))


def exists(address: str) -> bool:
    return bool(_file_system(address).exists(_path(address)))


def is_directory(address: str) -> bool:
    return bool(_file_system(address).getFileStatus(_path(address)).isDirectory())


def names(address: str) -> list[str]:
    """What lies directly in a directory; directories end in a slash."""
    found = _file_system(address).listStatus(_path(address))
    return sorted(status.getPath().getName() + "/" * status.isDirectory() for status in found)


def files(address: str) -> Files:
    """All files below a directory, with their sizes."""
    found: Files = {}
    statuses = _file_system(address).listFiles(_path(address), True)
    while statuses.hasNext():
        status = statuses.next()
        found[status.getPath().toString().removeprefix(f"{address}/")] = status.getLen()
    return found


@functools.cache
def _jvm() -> Any:
    return _session()._jvm


def _path(address: str) -> Any:
    return _jvm().org.apache.hadoop.fs.Path(address)


def _file_system(address: str) -> Any:
    return _path(address).getFileSystem(_session()._jsc.hadoopConfiguration())
