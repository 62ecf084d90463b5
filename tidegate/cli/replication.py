"""`tidegate replication`: how far replication is, what has failed, and pauses of sites."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from tidegate.assembly import open_topics
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.lifecycle import stores_of
from tidegate.cli.locations import locations_on
from tidegate.cli.moments import DURATION
from tidegate.cli.printing import print_done, print_list, print_object, print_pages
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import Conflict
from tidegate.core.locations import EVERY_SITE
from tidegate.replication.desk import DestinationView, ReplicationDesk, SiteMetricsView
from tidegate.replication.failure_retry import FailureRetry
from tidegate.replication.failures import PAGE, FailureReader, FailureView, Selection, view_failure
from tidegate.replication.site_health import health_of
from tidegate.replication.stored_rules import StoredRules


@contextmanager
def replication_desk(invocation: Invocation) -> Iterator[ReplicationDesk]:
    with invocation.tables() as tables, locations_on(invocation, tables) as locations:
        topics = open_topics(invocation.settings(), invocation.directory.path)
        try:
            yield ReplicationDesk(tables, topics, locations.all, locations.store)
        finally:
            topics.close()


@click.group(cls=Group)
def replication() -> None:
    """Replication of versions to sites, which are locations, by the rules of buckets."""


@replication.command()
@click.argument("bucket", default="")
@pass_invocation
def status(invocation: Invocation, bucket: str) -> None:
    """Tells by site how many versions are pending, completed and failed, of BUCKET or of all buckets."""
    with replication_desk(invocation) as desk:
        views = desk.status(bucket, now=time.time())
    columns = ("site", "paused", "resume_at", "pending", "completed", "failed", "oldest_pending_at")
    empty = f"Nothing of {bucket} is replicated." if bucket else "No bucket has replication rules."
    print_list(views, columns, as_json=invocation.json, empty=empty)


@replication.command()
@click.argument("site", default=EVERY_SITE)
@pass_invocation
def metrics(invocation: Invocation, site: str) -> None:
    """Tells of SITE, or of each and of all together, what `/_/metrics/crr` does.

    Throughput is per second, over the last 15 minutes; completions and failures are those of the last day. What has
    failed counts as backlog.
    """
    with replication_desk(invocation) as desk:
        views = desk.metrics_by_site(site, now=time.time())
    print_list(views, tuple(SiteMetricsView.model_fields), as_json=invocation.json, empty="There are no locations.")


@replication.command()
@click.argument("bucket")
@click.argument("key")
@click.option("--version", default="", metavar="ID", help="A version of it; otherwise the newest.")
@pass_invocation
def progress(invocation: Invocation, bucket: str, key: str, version: str) -> None:
    """Shows how far a version is at each of its sites."""
    with replication_desk(invocation) as desk:
        views = desk.version(bucket, key, version)
    columns = ("site", "status", "since", "progress", "size", "version_id", "reason")
    print_list(views, columns, as_json=invocation.json, empty="")


@replication.command()
@click.argument("site")
@pass_invocation
def pause(invocation: Invocation, site: str) -> None:
    """Pauses SITE, or `all`, until it is resumed: what is on its way arrives, what is for it waits.

    A site that would have resumed by itself does not any more.
    """
    with replication_desk(invocation) as desk:
        sites = desk.sites(site)
        desk.pause(sites, now=time.time())
    print_done(f"Paused: {', '.join(sites)}.", {"paused": sites}, as_json=invocation.json)


@replication.command()
@click.argument("site")
@click.option("--in", "seconds", type=DURATION, default=None, help="Not now, but after 30s, 90m, 12h or 30d.")
@pass_invocation
def resume(invocation: Invocation, site: str, seconds: float | None) -> None:
    """Resumes SITE, or `all`: what has waited for it is replicated."""
    with replication_desk(invocation) as desk:
        sites = desk.sites(site)
        if seconds is None:
            desk.resume(sites)
        else:
            sites = desk.resume_in(sites, seconds, now=time.time())
            if not sites:
                raise Conflict(
                    f"{'no site is' if site == EVERY_SITE else f'site {site} is not'} paused: nothing to resume"
                )
    when = "now" if seconds is None else f"in {seconds:g} seconds"
    print_done(
        f"To resume {when}: {', '.join(sites)}.", {"resumed": sites, "in": seconds or 0}, as_json=invocation.json
    )


@replication.command()
@click.argument("site", default=EVERY_SITE)
@pass_invocation
def health(invocation: Invocation, site: str) -> None:
    """Tells whether SITE, or each, can be reached and its destination buckets take versions; ends with code 1 if not.

    `tidegate location check` also writes there.
    """
    with replication_desk(invocation) as desk, locations_on(invocation, desk.tables) as locations:
        views = health_of(locations, desk.sites(site), StoredRules(desk.tables).destinations())
    columns = ("site", "ok", "milliseconds", "message")
    print_list(views, columns, as_json=invocation.json, empty="There are no locations.")
    if not all(view.ok for view in views):
        click.get_current_context().exit(1)


@replication.group(cls=Group)
def destination() -> None:
    """Buckets at sites, each of which belongs to the first pool whose rules name it."""


@destination.command("list")
@pass_invocation
def list_destinations(invocation: Invocation) -> None:
    """Lists the buckets that belong to a pool."""
    with replication_desk(invocation) as desk:
        views = desk.destinations()
    print_list(
        views,
        tuple(DestinationView.model_fields),
        as_json=invocation.json,
        empty="No bucket at a site belongs to a pool.",
    )


@destination.command()
@click.argument("site")
@click.argument("bucket")
@click.argument("pool")
@pass_invocation
def assign(invocation: Invocation, site: str, bucket: str, pool: str) -> None:
    """Gives BUCKET at SITE to POOL, whoever has it; refused while rules of another pool name it."""
    with replication_desk(invocation) as desk:
        view = desk.assign(site, bucket, pool)
    print_object(view, as_json=invocation.json)


@replication.command()
@click.option("--bucket", default="", help="Only of this bucket.")
@click.option("--key", default="", help="Only of this key.")
@click.option("--site", default="", help="Only at this site.")
@click.option("--count", "-n", default=20, show_default=True, type=click.IntRange(1), help="Records to show.")
@pass_invocation
def history(invocation: Invocation, bucket: str, key: str, site: str, count: int) -> None:
    """Shows what failed and what was tried once more, the newest last; also what has expired from the list."""
    with replication_desk(invocation) as desk:
        views = desk.history(bucket=bucket, key=key, site=site, count=count)
    columns = ("at", "status", "site", "bucket", "key", "version_id", "reason")
    print_list(views, columns, as_json=invocation.json, empty="Nothing has failed yet.")


@replication.group(cls=Group)
def failed() -> None:
    """Versions that could not be replicated after the last try."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--site", default="", help="Only at this site."),
        click.option("--version", default="", metavar="ID", help="Only this version of --key."),
        click.option("--key", default="", help="Only of this key in --bucket."),
        click.option("--bucket", default="", help="Only of this bucket."),
    ):
        command = option(command)
    return command


@failed.command("list")
@_filters
@click.option("--count", "-n", default=100, show_default=True, type=click.IntRange(1), help="Failures to show.")
@click.option("--all", "everything", is_flag=True, help="Shows all of them.")
@pass_invocation
def list_failed(
    invocation: Invocation, bucket: str, key: str, version: str, site: str, count: int, everything: bool
) -> None:
    """Lists them, with the reason of the last failure of each.

    They stay in the list for `replication.failed_hours`; `tidegate replication history` shows older ones.
    """
    selection = Selection(bucket, key, version, site)
    columns = ("failed_at", "site", "bucket", "key", "version_id", "size", "reason")
    with invocation.tables() as tables:
        listing = _Listing(FailureReader(tables), selection, None if everything else count)
        print_pages(listing.pages(), columns, as_json=invocation.json, empty="Nothing has failed.")
    if listing.is_more:
        click.echo("note: there are more; --all shows them, --count as many as you say", err=True)


class _Listing:
    """The first failures, so many of them, or all. `is_more` tells at the end whether some were left out."""

    def __init__(self, reader: FailureReader, selection: Selection, count: int | None) -> None:
        self._reader = reader
        self._selection = selection
        self._left = count
        self.is_more = False

    def pages(self) -> Iterator[list[FailureView]]:
        marker, is_more = "", True
        while is_more and self._left != 0:
            most = PAGE if self._left is None else min(self._left, PAGE)
            page = self._reader.page(self._selection, marker, most=most)
            if self._left is not None:
                self._left -= len(page.failures)
            yield [view_failure(failure) for failure in page.failures]
            marker, is_more = page.next_marker, bool(page.next_marker)
        self.is_more = is_more


@failed.command()
@_filters
@click.option("--all", "everything", is_flag=True, help="All that have failed.")
@pass_invocation
def retry(invocation: Invocation, bucket: str, key: str, version: str, site: str, everything: bool) -> None:
    """Sends failed versions to be replicated once more, with as many tries as new ones have.

    They leave the list, and come back if they fail again. What has not failed is left alone.
    """
    selection = Selection(bucket, key, version, site)
    if everything is (selection != Selection()):
        raise click.UsageError("Say which: by --bucket, --key, --version and --site, or --all.")
    retried, marker = 0, ""
    with replication_desk(invocation) as desk, Ticker(silent=invocation.json) as ticker:
        retrying = FailureRetry(
            desk.tables, desk.topics, partial(stores_of, invocation, invocation.registry_on(desk.tables))
        )
        while True:
            page = retrying.retry_page(selection, marker, now=time.time())
            retried, marker = retried + len(page.failures), page.next_marker
            ticker.tell(f"{retried:,} sent once more")
            if not marker:
                break
    print_done(f"Versions sent once more: {retried:,}.", {"retried": retried}, as_json=invocation.json)
