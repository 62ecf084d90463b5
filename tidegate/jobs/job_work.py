"""How the jobs of one list are carried out, and what is at hand for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from tidegate import settings as settings_module
from tidegate.datadir import DataDirectory
from tidegate.jobs.job_list import AnyJob, JobList
from tidegate.pipeline.audit.reference_source import InstallationPlace
from tidegate.pipeline.session.warm_session import WarmSession
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


@dataclass(frozen=True, slots=True)
class JobWork(Generic[AnyJob]):
    """`jobs_in` is the list in these tables and that data directory, `carry_out` gives the job as it ended, `report`
    writes that to the log."""

    jobs_in: Callable[[Tables, Path], JobList[AnyJob]]
    carry_out: Callable[[JobContext, AnyJob], AnyJob]
    report: Callable[[AnyJob], None]
