"""The list of jobs of one kind: asked for, followed, looked back on, and what they found.

A job is an entry in the tables, under its kind's prefix and its id. Whoever carries it out writes there how far it is
and what it counted; its findings lie in the data directory, in files under the kind's folder.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from tidegate.core.errors import Conflict, NotFound, Unavailable
from tidegate.lifecycle.passes.pass_records import new_pass_id
from tidegate.ports import Tables
from tidegate.table_pages import every

_MOST_KEPT = 30
_MOST_WAITING = 20
_POLL_SECONDS = 0.2


class JobStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def has_ended(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED)


class Job(Protocol):
    """A record of a job. `PREFIX` begins the keys of its kind in the tables."""

    PREFIX: ClassVar[str]

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> JobStatus: ...

    def begun(self) -> Self: ...

    def failed(self, problem: str, *, now: float) -> Self: ...

    def to_json(self) -> str: ...

    @classmethod
    def from_json(cls, text: str) -> Self: ...


AnyJob = TypeVar("AnyJob", bound=Job)


class JobList(Generic[AnyJob]):
    """`what` is what one job of the kind is called; `folder` is where each has a folder for its findings."""

    def __init__(self, tables: Tables, kind: type[AnyJob], what: str, folder: Path) -> None:
        self._tables = tables
        self._kind = kind
        self._what = what
        self._folder = folder

    @property
    def name(self) -> str:
        return self._folder.name

    def submit(self, make: Callable[[str, float], AnyJob]) -> AnyJob:
        """Asks for a job, which is made of an id and the time."""
        waiting = [job for job in self.all() if not job.status.has_ended]
        if len(waiting) >= _MOST_WAITING:
            raise Conflict(f"{_MOST_WAITING} of them wait already; ask for another {self._what} when some have ended")
        now = time.time()
        job = make(new_pass_id(int(now * 1e9)), now)
        self.put(job)
        return job

    def wait(self, job_id: str, watch: Callable[[JobStatus], None]) -> None:
        """Until it has ended."""
        while not (job := self.get(job_id)).status.has_ended:
            watch(job.status)
            time.sleep(_POLL_SECONDS)

    def all(self) -> list[AnyJob]:
        """The oldest first."""
        return [self._kind.from_json(text) for _, text in every(self._tables, self._kind.PREFIX)]

    def get(self, job_id: str) -> AnyJob:
        text = self._tables.get(self._kind.PREFIX + job_id)
        if text is None:
            raise NotFound(f"there is no {self._what} {job_id}")
        return self._kind.from_json(text)

    def put(self, job: AnyJob) -> None:
        self._tables.put(self._kind.PREFIX + job.id, job.to_json())

    def with_status(self, status: JobStatus) -> list[AnyJob]:
        """The oldest first."""
        return [job for job in self.all() if job.status is status]

    def folder_of(self, job_id: str) -> Path:
        return self._folder / job_id

    def prune(self) -> None:
        """Keeps the newest, and what they found."""
        ended = [job.id for job in self.all() if job.status.has_ended]
        for job_id in ended[:-_MOST_KEPT]:
            self._tables.delete(self._kind.PREFIX + job_id)
        known = {job.id for job in self.all()}
        for folder in self._folder.glob("*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def first_found(self, job_id: str, findings: str, columns: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
        """The first findings of that name, read from the files; there may be any number of them."""
        if not count:
            return
        import pyarrow.lib  # only here: it takes long to load, and few commands need it
        import pyarrow.parquet as pq

        for file in sorted((self.folder_of(job_id) / findings).glob("*.parquet")):
            try:
                for batch in pq.ParquetFile(file).iter_batches(count, columns=list(columns)):
                    rows = batch.slice(0, count).to_pylist()
                    yield from rows
                    count -= len(rows)
                    if not count:
                        return
            except FileNotFoundError:  # those of old jobs are removed
                continue
            except (OSError, pyarrow.lib.ArrowException) as error:
                raise Unavailable(f"the findings in {file} cannot be read: {error}") from None
