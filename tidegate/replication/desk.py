"""What operators see of replication and ask of it, the same for the HTTP API, the page and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, Field

from tidegate.core.errors import InvalidInput, NotFound
from tidegate.core.locations import EVERY_SITE, Location
from tidegate.core.replication.messages import REPLICATION_AUDIT_TOPIC, StatusUpdate
from tidegate.core.replication.metric_views import (
    THROUGHPUT_SECONDS,
    Metric,
    Shown,
    Traffic,
    shown,
    shown_object_throughput,
    shown_progress,
    shown_share,
)
from tidegate.core.replication.pauses import Pause
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.ports import Store, Tables, Topics
from tidegate.replication import destinations, pauses
from tidegate.replication.arrived_bytes import arrived_bytes
from tidegate.replication.queries import ReplicationQueries, SiteFigures
from tidegate.replication.topics import create_replication_topics
from tidegate.topic_pages import newest
from tidegate.views import filled

HOUR_SECONDS = 3600.0
MOST_HOURS = 24 * 366


class SiteStatusView(BaseModel):
    """How far replication to a site is."""

    site: str
    paused: bool
    resume_at: datetime | None = Field(description="When a paused site resumes by itself; null: it does not.")
    pending: int = Field(description="Versions that the site is still to get.")
    completed: int = Field(description="Versions that the site has.")
    failed: int = Field(description="Versions that could not be replicated after the last try.")
    pending_bytes: int
    completed_bytes: int
    failed_bytes: int
    oldest_pending_at: datetime | None = Field(description="When the oldest pending version was written.")


class VersionAtSiteView(BaseModel):
    """How far a version is at a site."""

    site: str
    status: str = Field(examples=["COMPLETED"])
    since: datetime
    bucket: str = Field(description="The bucket there.")
    version_id: str = Field(description="The version, at the source.")
    replica_version_id: str = Field(description="Its copy at the site; empty while there is none.")
    size: int
    completed_bytes: int
    progress: str = Field(examples=["100%"])
    reason: str = Field(description="Why it failed.")


class SiteMetricsView(BaseModel):
    """What Backbeat's metrics tell of a site, or of all sites together."""

    site: str
    throughput: float = Field(description="Versions per second that arrived in the last 900 seconds.")
    throughput_bytes: float
    completions: int = Field(description="Versions that arrived in the last day.")
    completion_bytes: int
    failures: int = Field(description="Failures of the last day.")
    failure_bytes: int
    backlog: int = Field(description="Versions that the site does not have, those that have failed among them.")
    backlog_bytes: int
    pending: int = Field(description="Versions that are on their way.")
    pending_bytes: int


class DestinationView(BaseModel):
    """A bucket into which versions are replicated."""

    bucket: str
    host: str = Field(examples=["s3.example.org:443"])
    sites: list[str] = Field(description="The locations at that host.")
    pool: str = Field(description="The pool that it belongs to: rules of others may not name it.")


class HistoryView(BaseModel):
    """A failure, or a retry that an operator asked for."""

    at: datetime
    status: str = Field(examples=["FAILED"], description="FAILED, or PENDING: it was to be tried once more.")
    site: str
    bucket: str
    bucket_uid: str
    key: str
    version_id: str
    size: int
    reason: str = Field(description="Why it failed.")


@dataclass(frozen=True, slots=True)
class ReplicationDesk:
    """`locations` gives those that there are: each can be a site. `store_of` gives the store behind one."""

    tables: Tables
    topics: Topics
    locations: Callable[[], Sequence[Location]]
    store_of: Callable[[str], Store]

    # --- sites -----------------------------------------------------------------------------------

    def sites(self, name: str = EVERY_SITE) -> list[str]:
        """The site of that name, or all that can be one."""
        found = [location.name for location in self.locations()]
        return found if name == EVERY_SITE else [_checked(name, found)]

    def status(self, bucket: str = "", *, now: float) -> list[SiteStatusView]:
        """Of all buckets, or of one."""
        queries = ReplicationQueries(self.tables)
        uid = queries.uid_of(bucket) if bucket else ""
        paused = pauses.all_paused(self.tables, now=now)
        sites = set(queries.sites(uid)) | (set() if bucket else set(paused))
        return [view_site(queries.figures(site, uid), paused.get(site)) for site in sorted(sites)]

    def paused(self, sites: Iterable[str], *, now: float) -> dict[str, Pause | None]:
        found = pauses.all_paused(self.tables, now=now)
        return {site: found.get(site) for site in sites}

    def pause(self, sites: Iterable[str], *, now: float) -> None:
        """Also of those that are paused, and would resume by themselves: they do not any more. When it returns, nothing
        more is begun."""
        found = self.paused(sites, now=now)
        for site, earlier in found.items():
            if earlier is None or earlier.resume_at is not None:
                pauses.pause(self.tables, site, now=earlier.paused_at if earlier is not None else now)
        if None in found.values():
            time.sleep(pauses.LOOK_SECONDS)

    def resume(self, sites: Iterable[str]) -> None:
        for site in sites:
            pauses.resume(self.tables, site)

    def resume_in(self, sites: Iterable[str], seconds: float, *, now: float) -> list[str]:
        """Gives those that are paused, and will resume then. The others go on as they do."""
        if not 0 < seconds <= MOST_HOURS * HOUR_SECONDS:
            hours = seconds / HOUR_SECONDS
            raise InvalidInput(f"a site resumes in more than 0 and at most {MOST_HOURS} hours, not in {hours:g}")
        at = now + seconds
        return [site for site in sites if pauses.resume_later(self.tables, site, now=now, resume_at=at) is not None]

    def keep_paused(self, sites: Iterable[str], *, now: float) -> None:
        """Those that are paused do not resume by themselves."""
        self.pause([site for site, found in self.paused(sites, now=now).items() if found is not None], now=now)

    # --- the buckets there -----------------------------------------------------------------------

    def destinations(self) -> list[DestinationView]:
        """Those that belong to a pool."""
        found = destinations.claimed(self.tables)
        return [
            DestinationView(bucket=bucket, host=host, sites=self._sites_at(host), pool=pool)
            for host, bucket, pool in found
        ]

    def assign(self, site: str, bucket: str, pool: str) -> DestinationView:
        """Gives a bucket at the site to a pool."""
        _checked(site, self.sites())
        host = next(location.host for location in self.locations() if location.name == site).lower()
        sites = self._sites_at(host)
        destinations.assign(self.tables, host, bucket, pool, sites=sites)
        return DestinationView(bucket=bucket, host=host, sites=sites, pool=pool)

    def _sites_at(self, host: str) -> list[str]:
        return [location.name for location in self.locations() if location.host.lower() == host]

    # --- metrics ---------------------------------------------------------------------------------

    def metrics(self, site: str, wanted: Iterable[Metric], *, now: float) -> dict[str, Shown]:
        """In Backbeat's shapes. `site` may be `EVERY_SITE`."""
        figures, traffic = SiteFigures(""), Traffic()
        for _, of_site, passed in self._measured(site, now=now):
            figures += of_site
            traffic += passed
        return {
            metric.value: shown(metric, pending=figures.pending, failed=figures.failed, traffic=traffic)
            for metric in wanted
        }

    def metrics_by_site(self, site: str, *, now: float) -> list[SiteMetricsView]:
        """The same, of each site; with `EVERY_SITE`, of all of them together as well."""
        figures, traffic, views = SiteFigures(""), Traffic(), []
        for name, of_site, passed in self._measured(site, now=now):
            figures += of_site
            traffic += passed
            views.append(_view_metrics(name, of_site, passed))
        return [*views, _view_metrics(EVERY_SITE, figures, traffic)] if site == EVERY_SITE else views

    def _measured(self, site: str, *, now: float) -> Iterator[tuple[str, SiteFigures, Traffic]]:
        queries = ReplicationQueries(self.tables)
        sites = sorted({*self.sites(), *queries.sites()}) if site == EVERY_SITE else self.sites(site)
        for each in sites:
            yield each, queries.figures(each), queries.traffic(each, now=now)

    def progress(self, site: str, bucket: str, key: str, version_id: str) -> Shown:
        record, state = self._version_at(site, bucket, key, version_id)
        arrived = arrived_bytes(self.tables, self.store_of, record, state)
        return shown_progress(record.size, arrived, has_arrived=state.status is Status.COMPLETED)

    def version(self, bucket: str, key: str, version_id: str = "") -> list[VersionAtSiteView]:
        """At each of its sites. Without an id: the newest version that is to be replicated."""
        record = ReplicationQueries(self.tables).version(bucket, key, version_id)
        return [
            _view_version(record, state, arrived_bytes(self.tables, self.store_of, record, state))
            for state in record.sites
        ]

    def object_throughput(self, site: str, bucket: str, key: str, version_id: str, *, now: float) -> Shown:
        record, state = self._version_at(site, bucket, key, version_id)
        is_recent = state.status is Status.COMPLETED and state.since > now - THROUGHPUT_SECONDS
        return shown_object_throughput(record.size / THROUGHPUT_SECONDS if is_recent else 0.0)

    def _version_at(self, site: str, bucket: str, key: str, version_id: str) -> tuple[ReplicationRecord, SiteState]:
        _checked(site, [location.name for location in self.locations()])
        record = ReplicationQueries(self.tables).version(bucket, key, version_id, site=site)
        return record, next(state for state in record.sites if state.site == site)

    # --- the audit trail -------------------------------------------------------------------------

    def history(self, *, bucket: str = "", key: str = "", site: str = "", count: int) -> list[HistoryView]:
        """The newest failures and retries, the oldest of them first."""
        create_replication_topics(self.topics)

        def wanted(update: StatusUpdate) -> bool:
            return bucket in ("", update.bucket) and key in ("", update.key) and site in ("", update.site)

        found = newest(
            self.topics,
            REPLICATION_AUDIT_TOPIC,
            self.topics.bounds(REPLICATION_AUDIT_TOPIC),
            count,
            read=StatusUpdate.from_bytes,
            wanted=wanted,
            moment_ns=lambda update: int(update.at * 1e9),
        )
        return [filled(HistoryView, update, status=update.status.value) for update in found]


def _checked(site: str, known: Sequence[str]) -> str:
    if site not in known:
        raise NotFound(f"there is no site {site!r}: tidegate location list shows those there are")
    return site


def view_site(figures: SiteFigures, pause: Pause | None) -> SiteStatusView:
    return SiteStatusView(
        site=figures.site,
        paused=pause is not None,
        resume_at=_moment(pause.resume_at if pause is not None else None),
        pending=figures.pending.count,
        completed=figures.completed.count,
        failed=figures.failed.count,
        pending_bytes=figures.pending.bytes,
        completed_bytes=figures.completed.bytes,
        failed_bytes=figures.failed.bytes,
        oldest_pending_at=_moment(figures.oldest_pending_at),
    )


def _view_metrics(site: str, figures: SiteFigures, traffic: Traffic) -> SiteMetricsView:
    backlog = figures.pending + figures.failed
    return SiteMetricsView(
        site=site,
        throughput=round(traffic.recent_count / THROUGHPUT_SECONDS, 2),
        throughput_bytes=round(traffic.recent_bytes / THROUGHPUT_SECONDS, 2),
        completions=traffic.completions.count,
        completion_bytes=traffic.completions.bytes,
        failures=traffic.failures.count,
        failure_bytes=traffic.failures.bytes,
        backlog=backlog.count,
        backlog_bytes=backlog.bytes,
        pending=figures.pending.count,
        pending_bytes=figures.pending.bytes,
    )


def _view_version(record: ReplicationRecord, state: SiteState, arrived: int) -> VersionAtSiteView:
    return filled(
        VersionAtSiteView,
        state,
        record,
        status=state.status.value,
        version_id=record.version_id,
        completed_bytes=arrived,
        progress=shown_share(record.size, arrived, has_arrived=state.status is Status.COMPLETED),
    )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
