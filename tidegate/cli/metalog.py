"""`tidegate metalog`: the log of every change made through the gateway."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from tidegate.assembly import open_topics
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_object, print_table, show, show_bytes
from tidegate.core.events import Event
from tidegate.metalog_reader import MetalogReader
from tidegate.metalog_statistics import MetalogStatisticsView, metalog_statistics

_FOLLOW_SECONDS = 0.5
_PAGE = 1000


@click.group(cls=Group)
def metalog() -> None:
    """The metadata log."""


@metalog.command()
@click.option("--follow", "-f", is_flag=True, help="Goes on as events come, until Ctrl-C.")
@click.option("--bucket", default="", help="Only events of this bucket.")
@click.option("--pool", default="", help="Only events of this pool.")
@click.option("-n", "count", default=10, show_default=True, type=click.IntRange(0), help="Events to begin with.")
@pass_invocation
def tail(invocation: Invocation, follow: bool, bucket: str, pool: str, count: int) -> None:
    """Prints the newest events, the oldest first; with --json one object per line."""

    def wanted(event: Event) -> bool:
        return (not bucket or event.bucket == bucket) and (not pool or event.pool == pool)

    settings, directory = invocation.settings(), invocation.directory
    directory.prepare()
    topics = open_topics(settings, directory.path)
    try:
        topics.create(settings.metalog.topic, settings.metalog.partitions)
        reader = MetalogReader(topics, settings.metalog.topic)
        positions = reader.end()
        _print(reader.tail(count, wanted, positions), as_json=invocation.json)
        while follow:
            events, reached = reader.page(positions, _PAGE, wanted)
            _print(events, as_json=invocation.json)
            if reached == positions:
                time.sleep(_FOLLOW_SECONDS)
            positions = reached
    finally:
        topics.close()


def _print(events: list[Event], *, as_json: bool) -> None:
    for event in events:
        click.echo(event.to_bytes().decode() if as_json else _line(event))


def _line(event: Event) -> str:
    when = datetime.fromtimestamp(event.ts_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    words = [when, f"{event.operation:<16}", f"{event.pool}/{event.bucket}"]
    words += [show(event.key)] if event.key else []
    words += [f"version={event.version_id}"] if event.version_id else []
    words += [f"size={event.size}"] if event.size is not None else []
    return " ".join(words)


@metalog.command()
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Buckets to show.")
@pass_invocation
def statistics(invocation: Invocation, top: int) -> None:
    """Counts events by operation, bucket and day, and tells the size of the log and how far it is landed."""
    settings, directory = invocation.settings(), invocation.directory
    directory.prepare()
    topics = open_topics(settings, directory.path)
    try:
        topics.create(settings.metalog.topic, settings.metalog.partitions)
        view = metalog_statistics(topics, settings.metalog.topic, directory.path, most_buckets=top)
    finally:
        topics.close()
    if invocation.json:
        print_object(view, as_json=True)
    else:
        _print_statistics(view)


def _print_statistics(view: MetalogStatisticsView) -> None:
    click.echo(f"{view.events:,} events, {show_bytes(view.bytes_put)} put, {view.buckets:,} buckets")
    for title, counts in (("OPERATION", view.by_operation), ("BUCKET", view.by_bucket), ("DAY", view.by_day)):
        if counts:
            click.echo()
            rows = [[show(count.name), f"{count.events:,}", show_bytes(count.bytes_put)] for count in counts]
            print_table([title, "EVENTS", "PUT"], rows)
    topic, table = view.topic, view.table
    click.echo(
        f"\ntopic {topic.name}: {topic.records:,} records in {topic.partitions} partitions, "
        f"{topic.not_landed:,} not landed yet"
    )
    days = f" of {table.days} days, {table.first_day} to {table.last_day}" if table.days else ""
    click.echo(f"table: {table.events:,} events in {table.files:,} files{days}, {show_bytes(table.bytes)}")
    if table.complete_since is not None:
        click.echo(f"events before {show(table.complete_since)} were dropped")
    if view.unreadable or table.rejected:
        click.echo(f"{view.unreadable + table.rejected:,} records are no events")
