"""`tidegate undelete`: brings back what lifecycle or a purge has deleted for good."""

from __future__ import annotations

from functools import partial

import click

from tidegate.cli.invocation import Command, Invocation, pass_invocation
from tidegate.cli.lifecycle import stores_of
from tidegate.cli.moments import PAST_MOMENT
from tidegate.cli.own_service import service_for
from tidegate.cli.printing import print_object
from tidegate.cli.ticker import Ticker
from tidegate.movement import undelete as trash
from tidegate.movement.moves import parse_target
from tidegate.movement.undelete import Selection, UndeleteCounts


@click.command(cls=Command)
@click.argument("target", metavar="s3://BUCKET/PREFIX")
@click.option("--since", type=PAST_MOMENT, default=None, help="Only what was deleted since then, or 90m, 12h, 30d ago.")
@click.option("--pass", "pass_id", default="", metavar="ID", help="Only what this pass of lifecycle has deleted.")
@click.option("--dry-run", is_flag=True, help="Only counts: nothing is brought back.")
@pass_invocation
def undelete(invocation: Invocation, target: str, since: float | None, pass_id: str, dry_run: bool) -> None:
    """Brings back the objects whose keys begin with PREFIX, with their data, metadata, tags and times.

    What lifecycle or `tidegate bucket purge` has deleted for good is in the trash until its grace is over (`tidegate
    deletion grace`). An object that was written again meanwhile is kept as it is. The command can be repeated; its exit
    code is 1 if something could not be brought back. Where no service runs on the data directory, one is started for
    the command.
    """
    bucket, prefix = parse_target(target)
    with service_for(invocation), invocation.tables() as tables, Ticker(silent=invocation.json) as ticker:
        registry = invocation.registry_on(tables)
        view = trash.undelete(
            tables,
            registry.bucket(bucket),
            partial(stores_of, invocation, registry),
            Selection(prefix, since or 0.0, pass_id),
            dry_run=dry_run,
            progress=partial(_tell, ticker),
        )
    print_object(view, as_json=invocation.json)
    if view.failed:
        click.get_current_context().exit(1)


def _tell(ticker: Ticker, counts: UndeleteCounts) -> None:
    ticker.tell(f"{counts.found:,} found, {counts.restored:,} restored, {counts.kept:,} kept, {counts.failed:,} failed")
