"""A Spark session that is started when it is needed and kept while it is used often: starting one takes seconds.

Ending a session the way PySpark does leaves its JVM running, with all of its memory. Here the JVM ends as well.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate import processes
from tidegate.core.errors import Unavailable
from tidegate.pipeline.session.spark_session import open_session, remove_scratch
from tidegate.settings import Settings

_END_SECONDS = 5.0
_MOST_CHARACTERS = 500
_OF_NO_INTEREST = ("at ", "Caused by", "...", "File ", "SQLSTATE")

# It tells of every connection that it closes or finds closed; what fails is raised as well.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


class WarmSession:
    """For one thread; only `cancel` and `kill` may be called by another one."""

    def __init__(self, settings: Settings, data: Path) -> None:
        self._settings = settings
        self._data = data
        self._session: SparkSession | None = None
        self._used_at = 0.0

    def get(self) -> SparkSession:
        """Raises `Unavailable` where none can be started."""
        if self._session is not None and not _jvm_runs():
            self._forget()
        if self._session is None:
            self._session = open_session(self._settings, self._data)
        self._used_at = time.monotonic()
        return self._session

    def cancel(self) -> None:
        """The jobs that run; whoever waits for them gets an error."""
        session = self._session
        if session is not None and _jvm_runs():
            with suppress(Py4JError, OSError, AttributeError):  # it may be ending at this moment
                session.sparkContext.cancelAllJobs()

    def end_if_idle(self, seconds: float) -> bool:
        """Ends it if it was not used for so long. True if it was ended."""
        if self._session is None or time.monotonic() - self._used_at < seconds:
            return False
        self.end()
        return True

    def touch(self) -> None:
        """Notes that it was in use until now."""
        self._used_at = time.monotonic()

    def end(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        # A JVM that hangs must not hang us.
        stopping = threading.Thread(target=_stop, args=[session], daemon=True)
        stopping.start()
        stopping.join(_END_SECONDS)
        process = jvm()
        self.kill()
        if process is not None:
            process.wait()
        self._forget()
        remove_scratch(self._data)

    def kill(self) -> None:
        """Ends the JVM at once. It holds nothing that matters."""
        process = jvm()
        if process is not None:
            workers = processes.descendants_of(process.pid)
            for pid in (process.pid, *workers):
                processes.send(pid, signal.SIGKILL)

    def _forget(self) -> None:
        """So that the next session starts another JVM."""
        self._session = None
        with SparkContext._lock:
            gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
            SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        if gateway is not None:
            with suppress(Py4JError, OSError):
                gateway.shutdown()


@contextmanager
def spark_errors() -> Iterator[None]:
    """What goes wrong in Spark, in the words of Tidegate."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        raise Unavailable(f"Spark failed: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """The line that matters: of an error in a Python worker that is the last one of its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    of_worker = [line for line in lines if not line.startswith(_OF_NO_INTEREST)]
    has_traceback = any("Traceback (most recent call last)" in line for line in lines)
    line = (of_worker[-1] if has_traceback else lines[0]) if of_worker else type(error).__name__
    return line[:_MOST_CHARACTERS]


def jvm() -> subprocess.Popen[bytes] | None:
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def _jvm_runs() -> bool:
    process = jvm()
    return process is not None and process.poll() is None


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, PySparkException, OSError, AttributeError):
        session.stop()
