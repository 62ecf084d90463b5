"""`tidegate lifecycle` and `tidegate audit`: what the rules do, will do and have done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click

from tidegate.assembly import open_store, open_topics
from tidegate.cli.invocation import Command, Group, Invocation, pass_invocation
from tidegate.cli.printing import print_list, print_object, print_table, show
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.lifecycle.inspection import Inspector, KeyExplanationView, VerdictView
from tidegate.lifecycle.stores import Stores
from tidegate.pools.registry import Registry


@contextmanager
def _inspector(invocation: Invocation) -> Iterator[Inspector]:
    with invocation.tables() as tables:
        settings, directory = invocation.settings(), invocation.directory
        topics = open_topics(settings, directory.path)
        try:
            open_stores = partial(_stores, invocation, invocation.registry_on(tables))
            yield Inspector(tables, topics, settings.lifecycle, open_stores)
        finally:
            topics.close()


def _stores(invocation: Invocation, registry: Registry) -> Stores:
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
@click.option("--bucket", default="", help="Only this bucket.")
@click.option("--wait", is_flag=True, help="Returns when everything that was due is done.")
@pass_invocation
def run(invocation: Invocation, bucket: str, wait: bool) -> None:
    """Starts a pass now: lists the buckets that have rules and has done what is due."""
    if wait and not invocation.directory.runs():
        raise Unavailable("the service does not run on this data directory, so that nothing would end the pass")
    with _inspector(invocation) as inspector:
        view = inspector.run(bucket)
        if wait:
            view = inspector.wait(view)
    print_object(view, as_json=invocation.json)


@click.command(cls=Command)
@click.option("--bucket", default="", help="Only records of this bucket.")
@click.option("--key", default=None, help="Only records of this key.")
@click.option("-n", "count", default=20, show_default=True, type=click.IntRange(1), help="Records to show.")
@pass_invocation
def audit(invocation: Invocation, bucket: str, key: str | None, count: int) -> None:
    """Shows what lifecycle did to objects, when, under which rule and how it ended; the newest last."""
    with _inspector(invocation) as inspector:
        views = inspector.audit(bucket=bucket, key=key, count=count)
    columns = ("at", "bucket", "key", "version_id", "action", "rule_id", "outcome", "reason")
    print_list(views, columns, as_json=invocation.json, empty="Lifecycle has done nothing yet.")
