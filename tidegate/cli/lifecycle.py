"""`tidegate lifecycle` and `tidegate audit`: what the rules do, will do and have done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import click

from tidegate.assembly import open_store, open_topics
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_list, print_object, print_table, show, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.lifecycle.due import REAL_DAY_SECONDS
from tidegate.core.lifecycle.rules import TransitionMinimum
from tidegate.core.lifecycle.xml_nodes import LARGEST_DOCUMENT
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.queries.control import LifecycleControl, LifecycleStateView
from tidegate.lifecycle.queries.inspection import Inspector, KeyExplanationView, VerdictView
from tidegate.lifecycle.queries.simulation import Amount, SimulatedActions, SimulationView
from tidegate.pools.registry import Registry


@contextmanager
def _inspector(invocation: Invocation) -> Iterator[Inspector]:
    with invocation.tables() as tables:
        settings, directory = invocation.settings(), invocation.directory
        topics = open_topics(settings, directory.path)
        try:
            open_stores = partial(stores_of, invocation, invocation.registry_on(tables))
            yield Inspector(
                tables,
                topics,
                settings.lifecycle,
                open_stores,
                settings.locations,
                settings.replication.hold_failed,
            )
        finally:
            topics.close()


def stores_of(invocation: Invocation, registry: Registry) -> Stores:
    endpoints = invocation.directory.endpoints()
    if endpoints is None:
        raise Unavailable("the service does not run on this data directory; start it with: tidegate up")
    return Stores(registry, partial(open_store, endpoints.s3))


@click.group(cls=Group)
def lifecycle() -> None:
    """Expiry of objects by the buckets' rules."""


@lifecycle.command()
@pass_invocation
def buckets(invocation: Invocation) -> None:
    """Lists the buckets with rules to carry out."""
    with _inspector(invocation) as inspector:
        views = inspector.buckets()
    columns = ("bucket", "pool", "rules", "uid")
    print_list(views, columns, as_json=invocation.json, empty="No bucket has lifecycle rules that are enabled.")


@contextmanager
def _control(invocation: Invocation) -> Iterator[LifecycleControl]:
    with invocation.tables() as tables:
        topics = open_topics(invocation.settings(), invocation.directory.path)
        try:
            yield LifecycleControl(tables, topics, invocation.settings().lifecycle)
        finally:
            topics.close()


@lifecycle.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Tells whether rules are carried out, and what keeps them from it."""
    with _control(invocation) as control:
        _print_state(control.state(), as_json=invocation.json)


@lifecycle.command()
@click.option("--bucket", default="", help="Only in this bucket.")
@pass_invocation
def stop(invocation: Invocation, bucket: str) -> None:
    """Stops all acting at once, on every machine, until it is resumed.

    Requests that are under way are finished. What is queued is dropped, and planned again after the resumption.
    """
    with _control(invocation) as control:
        _print_state(control.stop(bucket), as_json=invocation.json)


@lifecycle.command()
@click.option("--bucket", default="", help="Only in this bucket.")
@pass_invocation
def resume(invocation: Invocation, bucket: str) -> None:
    """Lets lifecycle go on after a stop; a round that was missed meanwhile is made up for."""
    with _control(invocation) as control:
        _print_state(control.resume(bucket), as_json=invocation.json)


@lifecycle.command("confirm-clock")
@pass_invocation
def confirm_clock(invocation: Invocation) -> None:
    """Says that the clock of this machine is right, though it is far from the last time that was seen."""
    with _control(invocation) as control:
        _print_state(control.confirm_clock(), as_json=invocation.json)


def _print_state(view: LifecycleStateView, *, as_json: bool) -> None:
    if as_json:
        print_object(view, as_json=True)
        return
    if not view.enabled:
        click.echo("Lifecycle is switched off (lifecycle.enabled is false).")
    if view.stopped:
        click.echo(f"Lifecycle is stopped since {show(view.stopped_since)}; resume it with: tidegate lifecycle resume")
    elif view.enabled:
        click.echo("Lifecycle is not stopped.")
    for stopped in view.stopped_buckets:
        click.echo(f"stopped: bucket {show(stopped.bucket)} since {show(stopped.since)}")
    for machine, problem in view.clock_problems.items():
        click.echo(f"No pass begins on {show(machine)}: {show(problem)}")
    click.echo(f"queued:  {view.queued_actions:,} actions")


@lifecycle.command()
@click.argument("address", metavar="s3://BUCKET/KEY")
@click.option("--version", "version_id", default="", help="Only this version.")
@pass_invocation
def explain(invocation: Invocation, address: str, version_id: str) -> None:
    """Tells which rules apply to an object, when it is due, what holds it back, and the last decision."""
    bucket, slash, key = address.removeprefix("s3://").partition("/")
    if not (address.startswith("s3://") and bucket and slash and key):
        raise InvalidInput(f"the object is named as s3://BUCKET/KEY, not {address!r}")
    with _inspector(invocation) as inspector:
        view = inspector.explain(bucket, key, version_id)
    if invocation.json:
        print_object(view, as_json=True)
    else:
        _print_explanation(view)


def _print_explanation(view: KeyExplanationView) -> None:
    click.echo(f"{show(view.bucket)}/{show(view.key)}  versioning {view.versioning}, {view.rules} rules")
    for item in view.items:
        name = f"upload {item.upload_id}" if item.upload_id else f"version {item.version_id or 'null'}"
        click.echo(f"\n{name}  {item.place}, created {show(item.created_at)}")
        if item.verdicts:
            rows = [[show(verdict.rule_id), verdict.kind, _judged(verdict)] for verdict in item.verdicts]
            print_table(["  RULE", "ACTION", "VERDICT"], [[f"  {rule}", kind, judged] for rule, kind, judged in rows])
        else:
            click.echo("  the bucket has no rules")
    last = view.last_decision
    if last is not None:
        reason = f" ({show(last.reason)})" if last.reason else ""
        click.echo(
            f"\nlast decision: {show(last.at)} {last.action} by rule {show(last.rule_id)}: {last.outcome}{reason}"
        )


def _judged(verdict: VerdictView) -> str:
    if not verdict.matches:
        return "does not apply: " + "; ".join(map(show, verdict.obstacles))
    words = [f"{verdict.action} {'since' if verdict.is_due else 'at'} {show(verdict.due_at)}"]
    words += [f"held: {verdict.hold}"] if verdict.is_due and verdict.hold else []
    words += ["the next pass does this"] if verdict.is_next else []
    return ", ".join(words)


@lifecycle.command()
@click.argument("rules", type=click.File("rb"))
@click.option("--bucket", required=True, help="The bucket to try them on.")
@click.option("--days", default=30, show_default=True, type=click.IntRange(1, 3660), help="Days to look ahead.")
@click.option(
    "--minimum",
    type=click.Choice([value.value for value in TransitionMinimum]),
    help="Which small objects transitions leave alone, as in x-amz-transition-default-minimum-object-size.",
)
@pass_invocation
def simulate(invocation: Invocation, rules: BinaryIO, bucket: str, days: int, minimum: str | None) -> None:
    """Tells what rules would do to a bucket and when, by day, before they are put.

    RULES is a file with S3's XML or the AWS command line's JSON, or - for standard input. Nothing is changed.
    """
    document = rules.read(LARGEST_DOCUMENT + 1)
    with _inspector(invocation) as inspector, Ticker(silent=invocation.json) as ticker:
        view = inspector.simulate(bucket, document, days=days, minimum=minimum, progress=partial(_tell_keys, ticker))
    if invocation.json:
        print_object(view, as_json=True)
    else:
        _print_simulation(view)


def _tell_keys(ticker: Ticker, keys: int) -> bool:
    ticker.tell(f"{keys:,} keys looked at")
    return True


def _print_simulation(view: SimulationView) -> None:
    where = f" that begin with {show(view.prefix)}" if view.prefix else ""
    click.echo(
        f"{show(view.bucket)}: {view.keys:,} keys{where}, {view.seen.versions:,} versions, "
        f"{show_bytes(view.seen.bytes)}, {view.seen.uploads:,} open uploads; versioning {view.versioning}\n"
    )
    rows = [["at once", *_cells(actions)] for actions in view.at_once]
    for day in view.days:
        begins = show(day.begins_at) if view.day_seconds != REAL_DAY_SECONDS else day.begins_at.date().isoformat()
        rows += [[begins, *_cells(actions)] for actions in day.actions]
    if rows:
        print_table(["WHEN", "RULE", "ACTION", "KIND", "OBJECTS", "BYTES", "FREED", "NOTE"], rows)
    else:
        click.echo(f"Nothing happens until {show(view.until)}.")
    click.echo(f"\nafter {show(view.until)}: {_amount(view.later)}\nnever, as things stand: {_amount(view.never)}")
    if view.unresolved_keys:
        click.echo(f"left alone: {view.unresolved_keys:,} keys that listings do not show as they are")


def _cells(actions: SimulatedActions) -> list[str]:
    note = f"held: {actions.held}" if actions.held else f"to {actions.storage_class}" if actions.storage_class else ""
    amounts = [f"{actions.count:,}", show_bytes(actions.bytes), show_bytes(actions.freed_bytes)]
    return [show(actions.rule_id), actions.action, actions.kind, *amounts, note]


def _amount(amount: Amount) -> str:
    uploads = f", {amount.uploads:,} open uploads" if amount.uploads else ""
    return f"{amount.versions:,} versions, {show_bytes(amount.bytes)}{uploads}"


@click.group(cls=Group, invoke_without_command=True)
@click.option("--bucket", default="", help="Only records of this bucket.")
@click.option("--key", default=None, help="Only records of this key.")
@click.option("-n", "count", default=20, show_default=True, type=click.IntRange(1), help="Records to show.")
@pass_invocation
def audit(invocation: Invocation, bucket: str, key: str | None, count: int) -> None:
    """Shows what lifecycle did to objects, when, under which rule and how it ended; the newest last. Its commands look
    for data that is lost or left over."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    with _inspector(invocation) as inspector:
        views = inspector.audit(bucket=bucket, key=key, count=count)
    columns = ("at", "bucket", "key", "version_id", "action", "rule_id", "outcome", "reason")
    print_list(views, columns, as_json=invocation.json, empty="Lifecycle has done nothing yet.")
