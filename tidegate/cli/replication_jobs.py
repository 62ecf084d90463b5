"""`tidegate replication backfill` and `verify`: a bucket compared with its sites, and what is missing there queued."""

from __future__ import annotations

import time

import click

from tidegate.cli.invocation import Command, Invocation, pass_invocation
from tidegate.cli.own_service import service_for
from tidegate.cli.printing import print_list, print_object, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import Unavailable
from tidegate.datadir import DataDirectory
from tidegate.jobs.job_list import JobStatus
from tidegate.replication.jobs import JobKind, ReplicationJobs, ReplicationJobView

_SHOWN = 20
_POLL_SECONDS = 0.5
_COLUMNS = {
    "missing": ("site", "key", "version_id", "size", "lack"),
    "different": ("site", "key", "version_id", "copy_id", "difference"),
    "extra": ("site", "site_bucket", "key", "copy_id", "copy_size"),
}


@click.command(cls=Command)
@click.argument("bucket")
@click.option("--site", default="", metavar="SITE", help="Only this site.  [default: all that the rules name]")
@click.option("--dry-run", is_flag=True, help="Only tells what is missing; nothing is queued.")
@click.option("--wait", is_flag=True, help="Waits until what is on its way has arrived or failed.")
@click.option("--show", is_flag=True, help=f"Shows the first {_SHOWN} versions that are missing.")
@pass_invocation
def backfill(invocation: Invocation, bucket: str, site: str, dry_run: bool, wait: bool, show: bool) -> None:
    """Queues the versions of BUCKET that its rules send to the sites and that are not there.

    Versions that are older than their rule are queued if the rule is for existing objects. Those that have failed are
    queued, too. Where no service runs on the data directory, one is started for the command; give it --wait then.
    """
    with service_for(invocation), invocation.tables() as tables:
        jobs = ReplicationJobs(tables, invocation.directory.path)
        asked = jobs.submit(JobKind.BACKFILL, bucket, site=site, dry_run=dry_run)
        view = _followed(invocation, jobs, asked, entries=_SHOWN if show else 0, wait=wait and not dry_run)
    _tell(invocation, view)


@click.command(cls=Command)
@click.argument("bucket")
@click.option("--site", default="", metavar="SITE", help="Only this site.  [default: all that the rules name]")
@click.option("--show", is_flag=True, help=f"Shows the first {_SHOWN} of each kind.")
@pass_invocation
def verify(invocation: Invocation, bucket: str, site: str, show: bool) -> None:
    """Compares BUCKET with what lies at its sites, and changes nothing.

    Missing are versions that the rules send to a site and that are not there, also while they are on their way;
    different are copies that are not what their records say; extra is what lies in the site's bucket and is no copy.
    Where no service runs on the data directory, one is started for the command.
    """
    with service_for(invocation), invocation.tables() as tables:
        jobs = ReplicationJobs(tables, invocation.directory.path)
        asked = jobs.submit(JobKind.VERIFY, bucket, site=site)
        view = _followed(invocation, jobs, asked, entries=_SHOWN if show else 0, wait=False)
    _tell(invocation, view)


def _followed(
    invocation: Invocation, jobs: ReplicationJobs, asked: ReplicationJobView, *, entries: int, wait: bool
) -> ReplicationJobView:
    directory, kind = invocation.directory, asked.kind.value

    def watch(status: JobStatus) -> None:
        _check_service(directory, f"the {kind} {asked.id} is carried out when it runs again")
        ticker.tell(f"the {kind} waits" if status is JobStatus.WAITING else f"the {kind} runs")

    with Ticker(silent=invocation.json) as ticker:
        jobs.wait(asked.id, watch)
        view = jobs.show(asked.id, entries=entries)
        if wait and view.status is JobStatus.DONE:
            pending = jobs.following(asked.id)
            while pending.are_left():
                _check_service(directory, "replication goes on when it runs again")
                ticker.tell("versions are on their way")
                time.sleep(_POLL_SECONDS)
    return view


def _check_service(directory: DataDirectory, what_then: str) -> None:
    if not directory.runs():
        raise Unavailable(f"the service has stopped; {what_then}")


def _tell(invocation: Invocation, view: ReplicationJobView) -> None:
    if invocation.json:
        print_object(view, as_json=True)
    elif view.status is not JobStatus.DONE:
        click.echo(f"{view.kind} {view.id} {view.status}: {view.problem}")
    else:
        for line in _backfilled(view) if view.kind is JobKind.BACKFILL else _verified(view):
            click.echo(line)
        for what, columns in _COLUMNS.items():
            found = getattr(view, f"first_{what}")
            if found:
                click.echo()
                print_list(found, columns, as_json=False, empty="")
    if view.status is not JobStatus.DONE:
        click.get_current_context().exit(1)


def _backfilled(view: ReplicationJobView) -> list[str]:
    size = show_bytes(view.missing_bytes)
    what = f"{view.missing:,} would be, {size}" if view.dry_run else size
    lines = [f"queued: {view.queued:,} ({what})", f"present: {view.present:,}"]
    if view.older:
        lines.append(f"older than their rules, which are not for existing objects: {view.older:,}")
    return lines


def _verified(view: ReplicationJobView) -> list[str]:
    on_their_way = f" ({view.pending:,} of them pending)" if view.pending else ""
    return [
        f"compared: {view.compared:,}",
        f"missing: {view.missing:,}{on_their_way}",
        f"different: {view.different:,}",
        f"extra: {view.extra:,}",
    ]
