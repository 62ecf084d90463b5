"""The Spark session: where it keeps its files, and what is said when it cannot start."""

from __future__ import annotations

import os
import re
import sys
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.core.errors import Unavailable
from tidegate.pipeline.session import class_archive, spark_session
from tidegate.settings import Settings


def fake_java(home, says):
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


def test_missing_java_is_told_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match=r"needs Java.*install Java 17"):
        spark_session.open_session(Settings(), tmp_path)


def test_an_old_java_is_refused_by_its_version(tmp_path, monkeypatch):
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="Java 11, which is too old"):
        spark_session.check_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_newer_javas_are_taken(tmp_path, monkeypatch, version):
    fake_java(tmp_path, f'openjdk version "{version}" 2025-01-01')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    spark_session.check_java()


def test_the_session_counts_in_utc_and_serves_no_page(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_options_are_not_on_the_command_line_of_the_jvm(spark):
    process = spark.sparkContext._gateway.proc
    words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
    assert "org.apache.spark.deploy.SparkSubmit" in words
    assert "--conf" not in words
    assert spark.sparkContext._gateway.gateway_parameters.auth_token not in " ".join(words)
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(2 * os.cpu_count())  # and yet they hold
    assert not list(Path(spark.sparkContext.getConf().get("spark.local.dir")).glob("*.properties"))


def test_the_jvm_works_in_its_scratch_directory_and_not_where_it_was_started(spark):
    process = spark.sparkContext._gateway.proc
    assert Path(f"/proc/{process.pid}/cwd").readlink() == Path(spark.sparkContext.getConf().get("spark.local.dir"))


def test_options_of_any_characters_reach_the_jvm_unchanged():
    """`_escaped` writes what Java reads; here it is read by its rules for unicode escapes."""
    for text in ("spark.a-b.C", " = : # ! \\ \n\r\t", "é\U0001f600"):
        units = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), spark_session._escaped(text))
        assert units.encode("utf-16-be", "surrogatepass").decode("utf-16-be") == text
        assert re.fullmatch(r"([A-Za-z0-9]|\\u[0-9a-f]{4})*", spark_session._escaped(text))


def listening_addresses(pid):
    """Those of the process's TCP sockets, as the kernel lists them."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for words in map(str.split, Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]):
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                address = bytes.fromhex(words[1].partition(":")[0])
                words32 = (address[at : at + 4][::-1] for at in range(0, len(address), 4))
                whole = ip_address(b"".join(words32))
                found.append(getattr(whole, "ipv4_mapped", None) or whole)
    return found


def test_strangers_are_answered_by_no_port_of_the_session(spark):
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"
    secret = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey()
    assert len(secret) >= 32
    listening = listening_addresses(spark.sparkContext._gateway.proc.pid)
    assert listening and all(address.is_loopback for address in listening), listening


def test_files_of_spark_are_its_user_s_alone(spark, tmp_path):
    spark.range(10).write.parquet(str(tmp_path / "table"))
    assert [path for path in (tmp_path / "table").rglob("*") if path.stat().st_mode & 0o077] == []


def test_a_standalone_cluster_needs_a_secret_and_options_are_the_operators(tmp_path):
    def options(**chosen):
        settings = Settings(spark={"master": "spark://127.0.0.1:7077"} | chosen)
        return spark_session._options(settings, tmp_path / "spark", tmp_path / "scratch")

    with pytest.raises(Unavailable, match=r"spark\.secret"):
        options()
    assert options(secret="s3cret")["spark.authenticate.secret"] == "s3cret"
    assert options(options={"spark.authenticate": "false"})["spark.authenticate"] == "false"


def test_the_jvm_maps_the_archived_classes(spark):
    assert str(class_archive.FILE) in Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()


def test_without_an_archive_java_is_told_of_none(tmp_path, monkeypatch):
    monkeypatch.setattr(class_archive, "FILE", tmp_path / "none.jsa")
    assert class_archive.uses_archive() == ""


def test_there_is_room_for_the_compiled_code_of_many_passes(spark):
    pools = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room >= 500 << 20


def test_scratch_files_lie_in_the_data_directory_and_those_of_ended_processes_go(spark, tmp_path):
    home = tmp_path / "spark"
    left = home / "scratch" / "4194305"  # larger than any process id
    left.mkdir(parents=True)
    spark_session.open_session(Settings(), tmp_path)
    assert not left.exists()
    assert (home / "scratch" / str(os.getpid())).is_dir()


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used for Spark's files"):
        spark_session.open_session(Settings(), tmp_path / "file")


def test_python_workers_read_no_archives_of_spark_for_their_modules(spark):
    def archives(batches):
        for _ in batches:
            places = [place for place in sys.path_importer_cache if place.endswith((".zip", ".jar"))]
            yield pa.RecordBatch.from_arrays([pa.array(places, pa.string())], ["place"])

    assert spark.range(1).mapInArrow(archives, "place string").where("place like '%spark%'").collect() == []
