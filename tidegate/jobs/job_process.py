"""The process of one job, from its start by the runner to its record, which says how it ended."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tidegate import logs
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.jobs.job_list import AnyJob, JobList
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.session.warm_session import WarmSession, spark_errors
from tidegate.ports import Tables
from tidegate.settings import Settings


@dataclass(frozen=True, slots=True)
class JobContext:
    """`folder` is for what the job finds; it is not there yet. The session is started when it is asked for."""

    settings: Settings
    directory: DataDirectory
    tables: Tables
    warm: WarmSession
    folder: Path

    @property
    def place(self) -> InstallationPlace:
        return InstallationPlace(settings_module.dump(self.settings), str(self.directory.path))


def run(
    name: str,
    jobs_in: Callable[[Tables, Path], JobList[AnyJob]],
    work: Callable[[JobContext, AnyJob], AnyJob],
    report: Callable[[AnyJob], None],
) -> None:
    """Carries out the job that the command line names. `name` is that of the log, `jobs_in` the list in these tables
    and that data directory, `work` gives the job as it ended, `report` writes that to the log."""
    parser = argparse.ArgumentParser(description=f"One job of Tidegate's: {name}.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--job", required=True)
    given = parser.parse_args()
    directory = DataDirectory(given.data)
    settings = settings_module.restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, name)
    warm = WarmSession(settings, directory.path)

    def end(*_: object) -> None:
        warm.kill()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    with closing(open_tables(settings, directory.path)) as tables:
        jobs = jobs_in(tables, directory.path)
        job = jobs.get(given.job).begun()
        jobs.put(job)
        try:
            with spark_errors():
                ended = work(JobContext(settings, directory, tables, warm, jobs.folder_of(job.id)), job)
        except TidegateError as error:
            ended = job.failed(str(error), now=time.time())
        jobs.put(ended)
    report(ended)
    warm.end()
    sys.exit(0)
