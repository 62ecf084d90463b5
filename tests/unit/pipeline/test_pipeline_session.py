"""The Spark session: where it keeps its files, and what is said when it cannot start."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pytest

from tidegate.core.errors import Unavailable
from tidegate.pipeline import session
from tidegate.settings import Settings


def fake_java(home, says):
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


def test_missing_java_is_told_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match=r"needs Java.*install Java 17"):
        session.open_session(Settings(), tmp_path)


def test_an_old_java_is_refused_by_its_version(tmp_path, monkeypatch):
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="Java 11, which is too old"):
        session.check_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_newer_javas_are_taken(tmp_path, monkeypatch, version):
    fake_java(tmp_path, f'openjdk version "{version}" 2025-01-01')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    session.check_java()


def test_the_session_counts_in_utc_and_serves_no_page(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_there_is_room_for_the_compiled_code_of_many_passes(spark):
    pools = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room >= 500 << 20


def test_scratch_files_lie_in_the_data_directory_and_those_of_ended_processes_go(spark, tmp_path):
    home = tmp_path / "spark"
    left = home / "scratch" / "4194305"  # larger than any process id
    left.mkdir(parents=True)
    session.open_session(Settings(), tmp_path)
    assert not left.exists()
    assert (home / "scratch" / str(os.getpid())).is_dir()


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used for Spark's files"):
        session.open_session(Settings(), tmp_path / "file")


def test_python_workers_read_no_archives_of_spark_for_their_modules(spark):
    def archives(batches):
        for _ in batches:
            places = [place for place in sys.path_importer_cache if place.endswith((".zip", ".jar"))]
            yield pa.RecordBatch.from_arrays([pa.array(places, pa.string())], ["place"])

    assert spark.range(1).mapInArrow(archives, "place string").where("place like '%spark%'").collect() == []
