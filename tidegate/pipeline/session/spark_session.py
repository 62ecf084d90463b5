"""The Spark session of a pass: where it runs, where it keeps its scratch files, and how it stays quiet and private."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tidegate.core.errors import Unavailable
from tidegate.pipeline.log.log_table import MOST_NAMED, LogTable
from tidegate.pipeline.session import python_workers
from tidegate.pipeline.session.class_archive import uses_archive
from tidegate.settings import Settings

# For callers outside the pipeline, who hand a session on and know nothing of Spark.
Session = SparkSession

OLDEST_JAVA = 17
# Java's quick compiler alone is the better one where there is little to read: with a log of a million events a warm
# plan cost 6 s of processor time in place of 10, with ten million it is the thorough one that saves a third.
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_MANY_EVENTS = 5_000_000
# Every plan compiles classes of its own. Java's default, a tenth of this with the quick compiler alone, is full after
# seven passes; then Java compiles no more, and passes become slower and slower.
_COMPILED_CODE = "-XX:ReservedCodeCacheSize=512m"
# Nobody waits for a single object in the middle of a pass: Java's default collector works beside the tasks to keep
# pauses short, and cost a warm plan an eighth of its processor time.
_COLLECTOR = "-XX:+UseParallelGC"
_DIRECTORY = "spark"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
# The second logger is the one by whose level PySpark decides to announce another level at its start. What goes wrong in
# a job comes back to the caller as an error; the last ones would print it as well, at length.
_LOGGING = """\
rootLogger.level = error
logger.writer.name = org.apache.spark.sql.execution.datasources.FileFormatWriter
logger.writer.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = off
logger.start.name = org.apache.spark.api.python.PythonGatewayServer
logger.start.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n%ex
"""


def open_session(settings: Settings, data: Path) -> SparkSession:
    """The session of this process, started if there is none. `data` is the data directory; on a cluster it must be
    shared by all machines."""
    check_java()
    home = data.resolve() / _DIRECTORY
    scratch = _prepare(home)
    options = _options(settings, home, scratch)
    builder = SparkSession.builder.appName("tidegate").master(settings.spark.master)
    for name, value in options.items():
        builder = builder.config(name, value)
    # The Python of Spark's workers; there is no setting of the session for it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        if SparkContext._gateway is None:
            _start_jvm(options | {"spark.master": settings.spark.master}, scratch)
        session = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise Unavailable(f"Spark cannot be started on {settings.spark.master}: {error}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _start_jvm(options: dict[str, str], scratch: Path) -> None:
    """PySpark would put all options on the JVM's command line, where every user of the machine can read them."""
    file = scratch / "session.properties"
    text = "".join(f"{_escaped(name)} {_escaped(value)}\n" for name, value in options.items())
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as stream:
        stream.write(text)
    before = os.environ.get(_SUBMIT_ARGUMENTS)
    given = f"--load-spark-defaults --properties-file {shlex.quote(str(file))} {before or 'pyspark-shell'}"
    os.environ[_SUBMIT_ARGUMENTS] = given
    try:
        # Spark makes a directory `artifacts` where it is started, which may be where this user may not write.
        gateway = launch_gateway(popen_kwargs={"cwd": scratch})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    finally:
        file.unlink()  # the JVM has read it
        if before is None:
            del os.environ[_SUBMIT_ARGUMENTS]
        else:
            os.environ[_SUBMIT_ARGUMENTS] = before


def _escaped(text: str) -> str:
    """As Java's properties files are written: nothing but letters and digits can mean anything else."""
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def check_java() -> None:
    """Spark says little that helps when Java is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    remedy = f"install Java {OLDEST_JAVA} or later (Debian: openjdk-17-jre-headless), or set JAVA_HOME to where it is"
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(
            f"passes are planned on Spark, which needs Java, and {command} does not run ({error}): {remedy}"
        ) from None
    version = re.search(r'version "(\d+)', said)
    if version and int(version[1]) < OLDEST_JAVA:
        raise Unavailable(f"{command} is Java {version[1]}, which is too old for Spark: {remedy}")


def _options(settings: Settings, home: Path, scratch: Path) -> dict[str, str]:
    chosen = settings.spark
    is_local = chosen.master.startswith("local")
    partitions = chosen.shuffle_partitions or 2 * (os.cpu_count() or 1)
    # Java's own measurements would be in /tmp, with a name that tells of the process.
    java = [f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}", _COMPILED_CODE, _COLLECTOR, "-XX:-UsePerfData"]
    java.append(uses_archive())
    if LogTable(home.parent).manifest().rows < _MANY_EVENTS:
        java.append(_QUICK_COMPILER)
    options = {
        # Who does not know the session's secret is not answered by any of its ports.
        "spark.authenticate": "true",
        "spark.driver.memory": chosen.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(java),
        # Hadoop sets modes itself and takes no notice of the process's mask.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.local.dir": str(scratch),
        "spark.python.daemon.module": python_workers.MODULE,
        # Else every function that makes up a column tells Spark where it was called, in calls of its own.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        # How much there is to join is known beforehand; to plan anew between the stages only takes time.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.parquet.pushdown.inFilterThreshold": str(MOST_NAMED),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A plan is made of more generated classes than are kept by default, and is made again in every pass.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # As Python reads JSON objects that name a key twice.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        # The log table names its files one by one, and they all exist: no job is needed to look them up.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not Path(pwd.getpwuid(os.geteuid()).pw_dir).is_dir():
        options["spark.jars.ivy"] = str(home / "ivy")  # in place of the home that a service account has not
    secret = chosen.secret.get_secret_value()
    if secret:
        options["spark.authenticate.secret"] = secret
    options |= {name: value.get_secret_value() for name, value in chosen.options.items()}
    _check_secret(chosen.master, options)
    return options


def _check_secret(master: str, options: dict[str, str]) -> None:
    """Spark makes a secret by itself, but not where master and workers are there before the session."""
    is_missing = options["spark.authenticate"] == "true" and "spark.authenticate.secret" not in options
    if master.startswith("spark://") and is_missing:
        raise Unavailable(
            "a standalone cluster needs a secret: set spark.secret to the spark.authenticate.secret of its master and "
            'workers, or, if the network is trusted, spark.options to {"spark.authenticate": "false"}'
        )


def remove_scratch(data: Path) -> None:
    """What the session of this process, which has ended, left behind."""
    shutil.rmtree(_scratch(data.resolve() / _DIRECTORY), ignore_errors=True)


def _scratch(home: Path) -> Path:
    return home / "scratch" / str(os.getpid())


def _prepare(home: Path) -> Path:
    """A scratch directory of this process; those that killed processes left behind are removed."""
    scratch = _scratch(home)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        (home / "log4j2.properties").write_text(_LOGGING)
        for left in scratch.parent.iterdir():
            if left.name.isdigit() and not Path("/proc", left.name).exists():
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise Unavailable(f"{home} cannot be used for Spark's files: {error.strerror}") from None
    return scratch
