"""`tidegate deletion`: how far the deletion of data is, what was deleted, and what could not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from tidegate.assembly import open_topics
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_done, print_list, print_object
from tidegate.movement.deletion_queries import DeletionDesk
from tidegate.movement.graces import Graces


@contextmanager
def deletion_desk(invocation: Invocation) -> Iterator[DeletionDesk]:
    with invocation.tables() as tables:
        settings = invocation.settings()
        topics = open_topics(settings, invocation.directory.path)
        try:
            yield DeletionDesk(tables, topics, settings)
        finally:
            topics.close()


@click.group(cls=Group)
def deletion() -> None:
    """Deletion of data that no record refers to any more."""


@deletion.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Tells how many deletes are pending, how many of them wait for a retry, and how many were given up."""
    with deletion_desk(invocation) as desk:
        print_object(desk.status(), as_json=invocation.json)


@deletion.command()
@click.argument("days", required=False, metavar="[DAYS|default]")
@click.option("--pool", default="", help="Of all buckets of this pool that have none of their own.")
@click.option("--bucket", default="", help="Of this bucket.")
@pass_invocation
def grace(invocation: Invocation, days: str | None, pool: str, bucket: str) -> None:
    """Shows how long what is deleted for good can be brought back, or sets that for a pool or a bucket.

    DAYS may have a fraction; 0 keeps nothing, and `default` goes by the pool's grace, or by the setting
    deletion.grace_days. What was deleted before is kept for as long as was said then.
    """
    if days is not None and bool(pool) is bool(bucket):
        raise click.UsageError("Say whose grace it is: --pool POOL, or --bucket BUCKET.")
    with invocation.tables() as tables:
        graces = Graces(tables, invocation.settings().deletion)
        if days is not None:
            registry, wanted = invocation.registry_on(tables), _days(days)
            if pool:
                graces.set_of_pool(registry.pool(pool), wanted)
            else:
                graces.set_of_bucket(registry.bucket(bucket), wanted)
        view = graces.view()
    print_object(view, as_json=invocation.json)


def _days(text: str) -> float | None:
    """None for the default."""
    if text == "default":
        return None
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is neither a number of days nor `default`.") from None


@deletion.command()
@click.option("--bucket", default="", help="Only data of this bucket.")
@click.option("--count", "-n", default=20, show_default=True, type=click.IntRange(1), help="Records to show.")
@pass_invocation
def history(invocation: Invocation, bucket: str, count: int) -> None:
    """Shows what was deleted, or was to be, and how it ended; the newest last."""
    with deletion_desk(invocation) as desk:
        views = desk.history(bucket=bucket, count=count)
    columns = ("at", "outcome", "component", "location", "bucket", "key", "version_id", "detail")
    print_list(views, columns, as_json=invocation.json, empty="Nothing was deleted yet.")


@deletion.group(cls=Group)
def dead() -> None:
    """Deletes that were given up after the last retry."""


@dead.command("list")
@click.option("--count", "-n", default=100, show_default=True, type=click.IntRange(1), help="Dead letters to show.")
@pass_invocation
def list_dead(invocation: Invocation, count: int) -> None:
    """Lists them, the oldest first, and tells why the last try of each failed."""
    with deletion_desk(invocation) as desk:
        views = desk.dead(count=count)
    columns = ("id", "died_at", "location", "bucket", "key", "attempt", "reason")
    print_list(views, columns, as_json=invocation.json, empty="No delete was given up.")


@dead.command()
@click.argument("letter_id", metavar="ID")
@pass_invocation
def show(invocation: Invocation, letter_id: str) -> None:
    """Shows one, with the pending delete as it was sent. ID is PARTITION:OFFSET, as the list shows it."""
    with deletion_desk(invocation) as desk:
        print_object(desk.show(letter_id), as_json=invocation.json)


@dead.command()
@click.argument("letter_ids", metavar="ID...", nargs=-1, required=True)
@pass_invocation
def retry(invocation: Invocation, letter_ids: tuple[str, ...]) -> None:
    """Sends dead letters back to be carried out, with as many tries as new ones have."""
    with deletion_desk(invocation) as desk:
        for letter_id in letter_ids:
            desk.retry(letter_id)
    message = f"Sent back: {', '.join(letter_ids)}."
    print_done(message, {"retried": list(letter_ids)}, as_json=invocation.json)


@dead.command()
@click.argument("letter_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Does not ask.")
@pass_invocation
def discard(invocation: Invocation, letter_ids: tuple[str, ...], yes: bool) -> None:
    """Forgets dead letters: their data stays where it is, and only an audit of orphans finds it."""
    with deletion_desk(invocation) as desk:
        for letter_id in letter_ids:
            letter = desk.show(letter_id)
            if not yes:
                what = f"the data of {letter.bucket}/{letter.key}" + (f" in {letter.location}" * bool(letter.location))
                click.confirm(f"Discard {letter_id}, and leave {what} where it is?", abort=True, err=True)
            desk.discard(letter_id)
    message = f"Discarded: {', '.join(letter_ids)}."
    print_done(message, {"discarded": list(letter_ids)}, as_json=invocation.json)
