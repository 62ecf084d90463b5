"""What the tables tell of replication: by site and bucket what is pending, completed and failed, and what arrived and
failed lately."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.errors import NotFound
from tidegate.core.records import Bucket
from tidegate.core.replication.counts import COUNTS, INTERVALS, ArrivedCount, IntervalCount, IntervalKey, interval_of
from tidegate.core.replication.metric_views import DAY_SECONDS, NOTHING, Amount, Traffic, traffic_of
from tidegate.core.replication.records import (
    OPEN,
    OpenVersion,
    ReplicationRecord,
    Status,
    entries_of_key,
    entry_of,
)
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.ports import Tables
from tidegate.table_pages import every

# Above every character that a site's name may have.
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """`oldest_pending_at` (Unix time) is when the oldest version was written that the site does not have yet."""

    site: str
    pending: Amount = NOTHING
    failed: Amount = NOTHING
    completed: Amount = NOTHING
    oldest_pending_at: float | None = None

    def __add__(self, other: SiteFigures) -> SiteFigures:
        times = [time for time in (self.oldest_pending_at, other.oldest_pending_at) if time is not None]
        return SiteFigures(
            "",
            self.pending + other.pending,
            self.failed + other.failed,
            self.completed + other.completed,
            min(times, default=None),
        )


class ReplicationQueries:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    # --- sites -----------------------------------------------------------------------------------

    def uid_of(self, bucket: str) -> str:
        text = self._tables.get(Bucket.PREFIX + bucket)
        if text is None:
            raise NotFound(f"there is no bucket {bucket}")
        return Bucket.from_json(text).uid

    def sites(self, uid: str = "") -> list[str]:
        """Those that rules name, of one bucket or of all, and those that have something of them."""
        found = set(self.sites_of_rules(uid))
        for prefix in (OPEN, COUNTS):
            for site in self._sites_under(prefix):
                if self._tables.scan(f"{prefix}{site}/" + (f"{uid}/" if uid else ""), limit=1):
                    found.add(site)
        return sorted(found)

    def sites_in_use(self) -> list[str]:
        """Those that rules name and those to which something is on its way, be there a location of that name or not."""
        return sorted({*self.sites_of_rules(), *filter(self._is_awaited, self._sites_under(OPEN))})

    def _is_awaited(self, site: str) -> bool:
        texts = (text for _, text in every(self._tables, f"{OPEN}{site}/"))
        return any(OpenVersion.from_json(text).status is Status.PENDING for text in texts)

    def sites_of_rules(self, uid: str = "") -> Iterator[str]:
        """A scan by a bucket's uid finds its entry, since no uid begins another one."""
        for _, text in every(self._tables, REPLICATION + uid):
            yield from ReplicationRules.from_json(text).sites

    def _sites_under(self, prefix: str) -> Iterator[str]:
        """One look for each site, however much it has."""
        after: str | None = None
        while found := self._tables.scan(prefix, after=after, limit=1):
            site = found[0][0].removeprefix(prefix).partition("/")[0]
            yield site
            after = f"{prefix}{site}/{_LAST}"

    # --- figures ---------------------------------------------------------------------------------

    def figures(self, site: str, uid: str = "") -> SiteFigures:
        """Of one bucket, or of all. What has not arrived is counted one by one."""
        pending, failed = _Sum(), _Sum()
        oldest: int | None = None
        under = f"{OPEN}{site}/" + (f"{uid}/" if uid else "")
        for _, text in every(self._tables, under):
            version = OpenVersion.from_json(text)
            if version.status is Status.FAILED:
                failed.add(version.size)
            else:
                pending.add(version.size)
                oldest = version.ts_ns if oldest is None else min(oldest, version.ts_ns)
        return SiteFigures(
            site,
            pending.amount,
            failed.amount,
            self._completed(site, uid),
            None if oldest is None else oldest / 1e9,
        )

    def _completed(self, site: str, uid: str) -> Amount:
        total = Amount()
        for _, text in every(self._tables, f"{COUNTS}{site}/" + (f"{uid}/" if uid else "")):
            count = ArrivedCount.from_json(text)
            total += Amount(count.completed, count.completed_bytes)
        return total

    def traffic(self, site: str, *, now: float) -> Traffic:
        """Of the last day."""
        total = Traffic()
        first = interval_of(now - DAY_SECONDS) + 1
        for entry, text in every(self._tables, f"{INTERVALS}{site}/"):
            number = IntervalKey.of_entry(entry).number
            if number >= first:
                total += traffic_of(number, IntervalCount.from_json(text), now)
        return total

    # --- one version -----------------------------------------------------------------------------

    def version(self, bucket: str, key: str, version_id: str = "", *, site: str = "") -> ReplicationRecord:
        """Without an id: the newest version of the key that has sites. With a site: one that is to be there."""
        uid = self.uid_of(bucket)
        if version_id:
            text = self._tables.get(entry_of(uid, key, version_id))
            texts = [text] if text is not None else []
        else:
            texts = [text for _, text in every(self._tables, entries_of_key(uid, key))]
        records = map(ReplicationRecord.from_json, texts)
        wanted = [record for record in records if record.sites and (not site or record.at(site) is not None)]
        if not wanted:
            what = f"version {version_id} of " if version_id else ""
            raise NotFound(f"{what}{bucket}/{key} is not replicated" + (f" to {site}" if site else ""))
        return max(wanted, key=lambda record: record.ts_ns)


class _Sum:
    def __init__(self) -> None:
        self._count = self._bytes = 0

    def add(self, size: int) -> None:
        self._count += 1
        self._bytes += size

    @property
    def amount(self) -> Amount:
        return Amount(self._count, self._bytes)
