"""The process of jobs: `python -m tidegate.jobs.serve --data DIR`, started by their runner.

It reads one line for each job, `LIST ID`, and ends with its input. The record of a job says how it ended. The Spark
session is kept from one job to the next.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tidegate import logs
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.errors import TidegateError
from tidegate.datadir import DataDirectory
from tidegate.jobs.job_work import JobContext, JobWork
from tidegate.movement.audit_job import AUDIT
from tidegate.movement.audits import FOLDER as AUDITS
from tidegate.pipeline.session.warm_session import WarmSession, spark_errors
from tidegate.ports import Tables
from tidegate.replication.jobs import FOLDER as REPLICATION_JOBS
from tidegate.replication.replication_job import COMPARISON
from tidegate.settings import Settings

_WORK: dict[str, JobWork[Any]] = {AUDITS: AUDIT, REPLICATION_JOBS: COMPARISON}


def main() -> None:
    parser = argparse.ArgumentParser(description="Carries out audits, backfills and verifications of Tidegate.")
    parser.add_argument("--data", type=Path, required=True)
    directory = DataDirectory(parser.parse_args().data)
    settings = settings_module.restore(directory.settings_file.read_text())
    logs.setup(settings, directory.path, "jobs")
    warm = WarmSession(settings, directory.path)

    def end(*_: object) -> None:
        warm.kill()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    with closing(open_tables(settings, directory.path)) as tables:
        for line in sys.stdin:
            name, job_id = line.split()
            _carry_out(_WORK[name], job_id, settings, directory, tables, warm)
    warm.end()


def _carry_out(
    work: JobWork[Any], job_id: str, settings: Settings, directory: DataDirectory, tables: Tables, warm: WarmSession
) -> None:
    jobs = work.jobs_in(tables, directory.path)
    job = jobs.get(job_id).begun()
    jobs.put(job)
    try:
        with spark_errors():
            ended = work.carry_out(JobContext(settings, directory, tables, warm, jobs.folder_of(job.id)), job)
    except TidegateError as error:
        ended = job.failed(str(error), now=time.time())
    work.report(ended)
    jobs.put(ended)


if __name__ == "__main__":
    main()
