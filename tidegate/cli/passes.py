"""`tidegate pass`: lifecycle passes, asked for, watched and looked back on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click

from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.own_service import service_for
from tidegate.cli.printing import print_list, print_object, print_table, show, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import Unavailable
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.passes.plan_files import PlannedActions
from tidegate.lifecycle.queries.pass_inspection import (
    CurrentPassView,
    EngineName,
    PassDetailView,
    PassInspector,
    PassProgressView,
    PassView,
)

_FINE = frozenset({"ok", "running"})
_entries_option = click.option(
    "--list", "entries", default=0, metavar="N", type=click.IntRange(0), help="Shows the first N entries of the plan."
)


@contextmanager
def _inspector(invocation: Invocation) -> Iterator[PassInspector]:
    with invocation.tables() as tables:
        yield PassInspector(tables, invocation.settings().lifecycle, invocation.directory.path)


@click.group("pass", cls=Group)
def passes() -> None:
    """Lifecycle passes: what is due is planned, done and reported."""


@passes.command()
@click.option("--bucket", default="", help="Only this bucket.")
@click.option("--dry-run", is_flag=True, help="Only plans, and shows what would be done.")
@click.option("--engine", type=click.Choice(["spark", "listing"]), help="[default: the setting lifecycle.engine]")
@click.option("--no-wait", is_flag=True, help="Returns when the pass is asked for.")
@_entries_option
@pass_invocation
def run(
    invocation: Invocation, bucket: str, dry_run: bool, engine: EngineName | None, no_wait: bool, entries: int
) -> None:
    """Runs a pass now, and ends with code 1 when it could not do everything.

    Where no service runs on the data directory, one is started for the command.
    """
    if no_wait:
        with _inspector(invocation) as inspector:
            print_object(inspector.submit(bucket, dry_run=dry_run, engine=engine or ""), as_json=invocation.json)
        return
    with service_for(invocation), _inspector(invocation) as inspector:
        request = inspector.submit(bucket, dry_run=dry_run, engine=engine or "")
        with Ticker(silent=invocation.json) as ticker:
            inspector.wait(request.id, partial(_watch, invocation.directory, ticker, request.id))
        view = inspector.show(request.id, entries=entries)
    _print_detail(view, as_json=invocation.json)
    if view.status not in _FINE:
        click.get_current_context().exit(1)


def _watch(directory: DataDirectory, ticker: Ticker, pass_id: str, progress: PassProgressView | None) -> None:
    if not directory.runs():
        raise Unavailable(f"the service has stopped; the pass {pass_id} goes on when it runs again")
    if progress is None:
        ticker.tell("the pass has not begun")
    elif progress.id != pass_id:
        ticker.tell(f"waits for the pass {progress.id}: {_stage(progress)}")
    else:
        ticker.tell(_stage(progress))


def _stage(progress: PassProgressView) -> str:
    words = [progress.stage, f"{progress.buckets:,} buckets"]
    words += [f"{progress.finished:,} of {progress.planned:,} actions finished"] if progress.planned else []
    return ", ".join(words)


@passes.command()
@pass_invocation
def status(invocation: Invocation) -> None:
    """Shows the pass that runs, those that wait, and the last one."""
    with _inspector(invocation) as inspector:
        view = inspector.current()
    if invocation.json:
        print_object(view, as_json=True)
    else:
        _print_current(view)


def _print_current(view: CurrentPassView) -> None:
    running = view.running
    click.echo(f"running: {running.id} ({_stage(running)})" if running is not None else "No pass runs.")
    if view.refused:
        click.echo(f"No pass begins: {show(view.refused)}")
    for request in view.waiting:
        what = f"{'dry run' if request.dry_run else 'pass'} over {show(request.bucket) if request.bucket else 'all'}"
        click.echo(f"waiting: {request.id} ({what})")
    if view.last is not None:
        click.echo(f"last:    {_line(view.last)}")


@passes.command()
@click.argument("pass_id", metavar="[ID]", default="")
@click.option("-n", "count", default=20, show_default=True, type=click.IntRange(1), help="Passes to show.")
@_entries_option
@pass_invocation
def history(invocation: Invocation, pass_id: str, count: int, entries: int) -> None:
    """Lists the newest passes, or shows the one named ID in detail."""
    with _inspector(invocation) as inspector:
        if pass_id:
            _print_detail(inspector.show(pass_id, entries=entries), as_json=invocation.json)
            return
        views = inspector.history(count)
    columns = ("id", "status", "engine", "trigger", "dry_run", "ended_at", "buckets", "planned", "outcomes", "problem")
    print_list(views, columns, as_json=invocation.json, empty="No pass has run yet.")


def _line(view: PassView) -> str:
    words = [f"{view.planned:,} actions planned", f"{view.buckets:,} buckets looked at"]
    words += [f"{count:,} {outcome}" for outcome, count in sorted(view.outcomes.items())]
    words += [show(view.problem)] if view.problem else []
    name = f"{view.engine}{', dry run' if view.dry_run else ''}"
    return f"{view.id} ({name}) {view.status}: {'; '.join(words)}"


def _print_detail(view: PassDetailView, *, as_json: bool) -> None:
    if as_json:
        print_object(view, as_json=True)
        return
    click.echo(_line(view))
    if view.plan:
        click.echo()
        titles = ["BUCKET", "RULE", "ACTION", "KIND", "OBJECTS", "BYTES", "NOTE"]
        print_table(titles, [_cells(line) for line in view.plan])
    _print_buckets(view)
    if view.entries:
        click.echo()
        columns = ("bucket", "key", "version_id", "upload_id", "action", "rule_id", "due_at", "size", "held")
        print_list(view.entries, columns, as_json=False, empty="")


def _cells(line: PlannedActions) -> list[str]:
    note = f"held: {line.held}" if line.held else ""
    names = [show(line.bucket), show(line.rule_id), line.action, line.kind]
    return [*names, f"{line.count:,}", show_bytes(line.bytes), note]


def _print_buckets(view: PassView) -> None:
    for detail in view.details:
        words = [f"{count} {outcome}" for outcome, count in sorted(detail.outcomes.items())]
        words += [f"{shards} shards looked at anew: {reason}" for reason, shards in sorted(detail.recoveries.items())]
        words += ["listed"] if detail.walked else []
        words += [f"{detail.unresolved_keys} keys cannot be judged"] if detail.unresolved_keys else []
        words += [show(detail.problem)] if detail.problem else []
        if words:
            click.echo(f"\n{show(detail.bucket)}: {'; '.join(words)}")
