"""The planner that needs no Spark: it lists every bucket in every pass, page by page, and judges what it sees.

What is judged is written down at once, so that a bucket of any size takes up little memory.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tidegate import metrics
from tidegate.core.errors import NotFound, TidegateError, Unavailable
from tidegate.core.lifecycle.decide import Planned
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.listings import ListedVersion, UploadPage, VersionPage, latest_moment_ns
from tidegate.lifecycle.buckets.bucket_list import existing
from tidegate.lifecycle.passes.bucket_pass import BucketPass, PassClock
from tidegate.lifecycle.passes.listing_evaluator import ListingEvaluator, common_prefix, is_locked
from tidegate.lifecycle.passes.pass_records import PassStatus
from tidegate.lifecycle.passes.pass_watch import PassWatch
from tidegate.lifecycle.passes.plan_rows import PlanWriter, Row, plan_row, tasks_of_plan
from tidegate.lifecycle.passes.planner import Landing, PassContext
from tidegate.lifecycle.topics import RETRIES
from tidegate.pipeline.log import manifest
from tidegate.pipeline.plan.bucket_plan import BucketPlan, Published
from tidegate.pipeline.plan.handed_over import HandedOver
from tidegate.pipeline.plan.task_writer import TaskWriter
from tidegate.ports import Store
from tidegate.walking import UNSHOWABLE, Stretch, upload_pages, walk

# Buckets that are listed at the same time, and keys of one bucket of which the store is asked more at the same time.
_THREADS = 4
_ABORT = ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD

_Page = TypeVar("_Page")

logger = logging.getLogger(__name__)


class ListingPlanner:
    def __init__(self, context: PassContext) -> None:
        self._context = context

    def land(self, *, now_ns: int, retention_ns: int) -> Landing:
        """Takes nothing in: a listing shows what there is. A planner that lands the log later sets the cursors back."""
        file = self._context.data / manifest.DIRECTORY / manifest.FILE
        return Landing(time.time_ns(), manifest.load(file).horizon_ns)

    def plan(self, buckets: Sequence[BucketPass], times: PassClock, folder: Path, watch: PassWatch) -> list[BucketPass]:
        divided = [bucket.divided(times, walks_whole=True) for bucket in buckets]
        with PlanWriter(folder) as writer, ThreadPoolExecutor(_THREADS, thread_name_prefix="list") as executor:
            return list(executor.map(lambda bucket: self._planned(bucket, writer, watch), divided))

    def publish(self, folder: Path, *, pass_id: str, watch: PassWatch) -> Published:
        published = Published()
        writer = TaskWriter(self._context.topics, lambda: HandedOver(self._context.tables))
        for tasks in tasks_of_plan(folder, pass_id=pass_id):
            _goes_on(watch)
            published.add(writer.append(tasks))
        return published

    def tidy(self) -> None: ...

    def rest(self) -> None: ...

    def cancel(self) -> None: ...

    def kill(self) -> None: ...

    def _planned(self, bucket: BucketPass, writer: PlanWriter, watch: PassWatch) -> BucketPass:
        """A key is judged by all its versions: what was judged before some trouble holds all the same."""
        if bucket.problem:
            return bucket
        limit = self._context.settings.lifecycle.listing_limit
        listing = BucketListing(bucket, writer, watch, limit=limit)
        end = "done"
        try:
            problem = listing.run(self._context.stores.of_pool(bucket.bucket.pool))
        except TidegateError as error:
            is_gone = isinstance(error, NotFound) and not existing(self._context.tables, bucket.bucket.name, bucket.uid)
            problem = "" if is_gone else str(error)
            end = "done" if is_gone else "given-up"
        metrics.LIFECYCLE_LISTINGS.labels(bucket.uid, end).inc()
        return replace(bucket, plan=replace(listing.counted(), problem=problem))


class BucketListing:
    """One bucket, listed and judged. A page has at most `limit` entries."""

    def __init__(self, bucket: BucketPass, writer: PlanWriter, watch: PassWatch, *, limit: int) -> None:
        self._bucket = bucket
        self._limit = limit
        self._rows: list[Row] = []
        self._writer = writer
        self._watch = watch
        self._planned: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._locked: Counter[str] = Counter()
        self._bytes = 0
        self._unresolved_keys = 0

    def run(self, store: Store) -> str:
        """Why it was not listed to its end; empty when it was."""
        bucket = self._bucket
        assert bucket.clock is not None
        name, kinds = bucket.bucket.name, {pair.action.kind for pair in bucket.rules.active()}
        prefix, lister = common_prefix(bucket.rules.active()), PatientLister(store, bucket.uid, self._watch)
        locks = store.locks_objects(name)
        evaluator = ListingEvaluator(store, name, bucket.rules, bucket.bucket_context, locks, bucket.clock.now_ns)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="evaluator") as executor:
            if kinds != {_ABORT}:
                for stretch in self._stretches(lister, prefix, executor):
                    if problem := _goes_on(self._watch):
                        return problem
                    self._judge_versions(evaluator, stretch, executor)
        if _ABORT in kinds:
            for page in upload_pages(lister, name, prefix=prefix, limit=self._limit):
                if problem := _goes_on(self._watch):
                    return problem
                self._add(
                    (planned, latest_moment_ns(upload.started), None)
                    for upload in page
                    for planned in evaluator.judge_uploads(upload.key, [upload])
                )
                self._write()
        return ""

    def counted(self) -> BucketPlan:
        return BucketPlan(self._planned, self._held, self._bytes, self._unresolved_keys, locked=self._locked)

    def _stretches(self, lister: PatientLister, prefix: str, executor: Executor) -> Iterator[Stretch]:
        """The next page is read while one is judged."""
        limit, name = self._limit, self._bucket.bucket.name
        following: Future[Stretch] | None = executor.submit(walk, lister, name, prefix=prefix, marker="", limit=limit)
        while following is not None:
            stretch, following = following.result(), None
            if marker := stretch.next_marker:
                following = executor.submit(walk, lister, name, prefix=prefix, marker=marker, limit=limit)
            yield stretch

    def _judge_versions(self, evaluator: ListingEvaluator, stretch: Stretch, executor: Executor) -> None:
        """In threads where a store may be asked for more of each key."""
        clear = [(key, listed) for key, listed in stretch.keys.items() if UNSHOWABLE not in key]
        self._unresolved_keys += len(stretch.keys) - len(clear)
        asks = evaluator.locks or evaluator.rules.needs_tags
        for case, plan in (executor.map if asks else map)(lambda found: evaluator.judge(*found), clear):
            if plan:
                by_id = {version.version_id: number for number, version in enumerate(case.versions)}
                numbers = [by_id[planned.version_id] for planned in plan]
                self._add(
                    (planned, case.versions[number].created_ns, case.listed[number])
                    for planned, number in zip(plan, numbers, strict=True)
                )
        self._write()

    def _add(self, found: Iterable[tuple[Planned, int, ListedVersion | None]]) -> None:
        """Notes down what was planned, with when its subject was made and how it was listed."""
        bucket = self._bucket
        for planned, created_ns, listed in found:
            self._rows.append(plan_row(planned, bucket.bucket, bucket.owner, created_ns, listed))
            if planned.hold is None:
                self._planned[planned.kind.value] += 1
                self._bytes += self._rows[-1]["size"] or 0
            else:
                self._held[planned.hold.value] += 1
                self._locked[planned.kind.value] += is_locked(planned)

    def _write(self) -> None:
        self._writer.append(self._rows)
        self._rows = []


class PatientLister:
    """The listings of a store. One that does not answer is asked again a little later, twice."""

    def __init__(self, store: Store, bucket_uid: str, watch: PassWatch) -> None:
        self._store = store
        self._bucket_uid = bucket_uid
        self._watch = watch

    def list_versions(self, bucket: str, **where: Any) -> VersionPage:
        return self._asked(partial(self._store.list_versions, bucket, **where))

    def list_uploads(self, bucket: str, **where: Any) -> UploadPage:
        return self._asked(partial(self._store.list_uploads, bucket, **where))

    def _asked(self, ask: Callable[[], _Page]) -> _Page:
        for seconds in RETRIES.delays:
            try:
                return ask()
            except Unavailable as error:
                logger.info("a bucket will be listed later: %s", error)
                metrics.LIFECYCLE_LISTINGS.labels(self._bucket_uid, "postponed").inc()
                self._watch.pause(seconds)
                _goes_on(self._watch)
        return ask()


def _goes_on(watch: PassWatch) -> str:
    """Raises why the pass is cut short. If its time is over, which is told, what was judged until then counts."""
    reason = watch.reason()
    if reason is not None and reason.status is not PassStatus.TIMEOUT:
        raise reason
    return str(reason or "")
