"""Puts versions into the queue of replication: records first, then tasks, so that no task is without a record.

Done twice, it does no harm: a record that stands is left alone, and a version that has arrived is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tidegate.core.replication.messages import (
    REPLICATION_TOPIC,
    STATUS_TOPIC,
    ReplicationTask,
    StatusUpdate,
    VersionRetimed,
)
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import Tables, Topics
from tidegate.replication.topics import send


def queued(record: ReplicationRecord, targets: dict[str, str], *, now: float) -> ReplicationRecord:
    """The record with these sites (and the bucket at each), all of them PENDING."""
    for site, bucket in targets.items():
        record = record.with_state(SiteState(site, bucket, Status.PENDING, now))
    return record


def enqueue(tables: Tables, topics: Topics, versions: Sequence[ReplicationRecord], *, is_check: bool = False) -> int:
    """Says how many tasks were sent. The versions' sites are PENDING; one without sites gets a record alone.

    A version that the log tells of once more, at a later time, gets that time: the log does so where it learnt of an
    earlier one too late, and where a version was brought back. Its task is sent before its record changes, so that one
    that is broken off in between is sent again.

    With `is_check` (a backfill) the sites of records that stand become PENDING again, be they new or said to have it,
    and a copy that is not there is made again. Where the record has another bucket, the version goes to this one.
    """
    while True:
        found = _Found.of(tables, versions, is_check=is_check)
        new = {entry: text for version in found.new for entry, text in _entries(version).items()}
        if tables.change(new, expected=dict.fromkeys(version.entry for version in found.new)):
            break  # otherwise somebody else has made one of the records meanwhile
    send(topics, STATUS_TOPIC, found.updates)
    tasks = [
        task
        for version in versions
        for task in _tasks(
            version, is_check=is_check, earlier_ns=found.earlier.get(version.entry, 0), moved=found.moved
        )
    ]
    send(topics, REPLICATION_TOPIC, tasks)
    send(topics, STATUS_TOPIC, [_retimed(version) for version in versions if version.entry in found.earlier])
    return len(tasks)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the records say: versions that have none, what is to be told of the others, the times that those had which
    the log tells of once more, and the times at which others go to another bucket, by entry and site."""

    new: list[ReplicationRecord]
    updates: list[StatusUpdate]
    earlier: dict[str, int]
    moved: dict[tuple[str, str], float]

    @classmethod
    def of(cls, tables: Tables, versions: Sequence[ReplicationRecord], *, is_check: bool) -> Self:
        found = cls([], [], {}, {})
        for version in {version.entry: version for version in versions}.values():
            text = tables.get(version.entry)
            if text is None:
                found.new.append(version)
                continue
            known = ReplicationRecord.from_json(text)
            if is_check:
                found.updates.extend(_reopened(known, version))
                found.moved.update({(version.entry, state.site): state.since for state in _moved(known, version)})
            elif known.ts_ns < version.ts_ns:
                found.earlier[version.entry] = known.ts_ns
        return found


def _entries(version: ReplicationRecord) -> dict[str, str | None]:
    return {version.entry: version.to_json(), **version.open_entries()}


def _reopened(known: ReplicationRecord, wanted: ReplicationRecord) -> Iterator[StatusUpdate]:
    for state in wanted.sites:
        found = known.at(state.site)
        if found is None or found.status is not Status.PENDING or found.bucket != state.bucket:
            yield StatusUpdate(
                bucket=wanted.bucket,
                bucket_uid=wanted.bucket_uid,
                key=wanted.key,
                version_id=wanted.version_id,
                site=state.site,
                status=Status.PENDING,
                at=state.since,
                site_bucket=state.bucket,
            )


def _moved(known: ReplicationRecord, wanted: ReplicationRecord) -> Iterator[SiteState]:
    """The sites that the record knows with another bucket."""
    for state in wanted.sites:
        found = known.at(state.site)
        if found is not None and found.bucket != state.bucket:
            yield state


def _retimed(version: ReplicationRecord) -> VersionRetimed:
    return VersionRetimed(
        bucket=version.bucket,
        bucket_uid=version.bucket_uid,
        key=version.key,
        version_id=version.version_id,
        ts_ns=version.ts_ns,
        record=version,
    )


def _tasks(
    version: ReplicationRecord, *, is_check: bool, earlier_ns: int, moved: Mapping[tuple[str, str], float]
) -> Iterator[ReplicationTask]:
    """One for all sites whose record is as it was, and one for those whose bucket changes."""
    sites: dict[float, list[str]] = {}
    for state in version.sites:
        sites.setdefault(moved.get((version.entry, state.site), 0.0), []).append(state.site)
    for moved_at, names in sites.items():
        yield ReplicationTask(
            bucket=version.bucket,
            bucket_uid=version.bucket_uid,
            key=version.key,
            version_id=version.version_id,
            ts_ns=version.ts_ns,
            sites=tuple(names),
            is_check=is_check,
            earlier_ns=earlier_ns,
            moved_at=moved_at,
        )
