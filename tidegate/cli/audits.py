"""`tidegate audit orphans`: what lies in a location beside what refers to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import click

from tidegate.assembly import open_location
from tidegate.cli.invocation import Command, Invocation, pass_invocation
from tidegate.cli.own_service import service_for
from tidegate.cli.printing import print_list, print_object, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import Unavailable
from tidegate.datadir import DataDirectory
from tidegate.jobs.job_list import JobStatus
from tidegate.movement.audits import LocationAudits, OrphanAuditView
from tidegate.movement.locations import Locations
from tidegate.pools.vault import Vault

_SHOWN = 20


@contextmanager
def _audits(invocation: Invocation) -> Iterator[tuple[LocationAudits, Locations]]:
    with invocation.tables() as tables:
        path = invocation.directory.path
        configured = invocation.settings().locations
        with closing(Locations(tables, Vault.open(path), configured, open_location)) as locations:
            yield LocationAudits(tables, path), locations


@click.command(cls=Command)
@click.argument("location")
@click.option("--dry-run", is_flag=True, help="Only tells what it finds; no orphan is deleted.")
@click.option("--show", is_flag=True, help=f"Shows the first {_SHOWN} orphans and the first {_SHOWN} missing ones.")
@pass_invocation
def orphans(invocation: Invocation, location: str, dry_run: bool, show: bool) -> None:
    """Compares what lies in LOCATION with what refers to it.

    Data that nothing refers to, older than the setting audit.orphan_grace_hours, is handed to deletion. Versions whose
    data is not there are reported: that is damage. Where no service runs on the data directory, one is started for the
    command.
    """
    with service_for(invocation), _audits(invocation) as (audits, locations):
        asked = audits.submit(locations, location, dry_run=dry_run)
        with Ticker(silent=invocation.json) as ticker:
            audits.wait(asked.id, partial(_watch, invocation.directory, ticker, asked.id))
        view = audits.show(asked.id, entries=_SHOWN if show else 0)
    if invocation.json:
        print_object(view, as_json=True)
    else:
        _print(view)
    if view.status is not JobStatus.DONE:
        click.get_current_context().exit(1)


def _watch(directory: DataDirectory, ticker: Ticker, audit_id: str, status: JobStatus) -> None:
    if not directory.runs():
        raise Unavailable(f"the service has stopped; the audit {audit_id} is carried out when it runs again")
    ticker.tell("the audit waits" if status is JobStatus.WAITING else "the audit runs")


def _print(view: OrphanAuditView) -> None:
    if view.status is not JobStatus.DONE:
        click.echo(f"{view.id} {view.status}: {view.problem}")
        return
    click.echo(f"audit {view.id}: {view.listed:,} pieces of data, {view.referenced:,} versions that refer to some")
    what = f"{view.sent:,} handed to deletion" if not view.dry_run else "nothing was done"
    foreign = f", {view.foreign:,} of unknown owners, left alone" if view.foreign else ""
    click.echo(f"orphans: {view.orphans:,} ({show_bytes(view.orphan_bytes)}; {what}{foreign})")
    click.echo(f"missing: {view.missing:,}")
    if view.first_orphans:
        click.echo()
        print_list(view.first_orphans, ("data_key", "size", "bucket", "key", "version_id"), as_json=False, empty="")
    if view.first_missing:
        click.echo()
        print_list(view.first_missing, ("bucket", "key", "version_id", "data_key"), as_json=False, empty="")
