"""`tidegate move`: moves the data of objects to a location, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click

from tidegate.assembly import open_location
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.own_service import service_for
from tidegate.cli.printing import print_list, print_object, show_bytes
from tidegate.cli.ticker import Ticker
from tidegate.core.errors import Unavailable
from tidegate.datadir import DataDirectory
from tidegate.movement.locations import Locations
from tidegate.movement.moves import SCHEME, Moves, MoveView, parse_target
from tidegate.pools.vault import Vault

_RUN = "run"


class _MoveGroup(Group):
    """`tidegate move s3://…` stands for `tidegate move run s3://…`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        place = next((number for number, word in enumerate(args) if word.startswith(SCHEME)), None)
        if place is not None and _RUN not in args[:place]:
            args = [_RUN, *args]
        return super().parse_args(context, args)


@contextmanager
def _moves(invocation: Invocation) -> Iterator[Moves]:
    with invocation.tables() as tables:
        configured = invocation.settings().locations
        locations = Locations(tables, Vault.open(invocation.directory.path), configured, open_location)
        try:
            yield Moves(tables, locations.all)
        finally:
            locations.close()


@click.group("move", cls=_MoveGroup)
def move() -> None:
    """Moves the data of objects to a location, and back. `tidegate move s3://…` is short for `tidegate move run s3://…`."""


@move.command(_RUN)
@click.argument("target", metavar="s3://BUCKET/PREFIX")
@click.option("--to", default="", metavar="LOCATION", help="Where the data goes.")
@click.option("--back", is_flag=True, help="Moves it back into the pool's own store.")
@click.option("--versions", is_flag=True, help="Includes noncurrent versions.")
@click.option("--dry-run", is_flag=True, help="Only counts what would be moved.")
@click.option("--no-wait", is_flag=True, help="Returns when the move is asked for.")
@pass_invocation
def run(invocation: Invocation, target: str, to: str, back: bool, versions: bool, dry_run: bool, no_wait: bool) -> None:
    """Moves the objects whose keys begin with PREFIX, and ends with code 1 when some could not be moved.

    Clients read and list the objects as before. What lies there already is left alone. When the command is interrupted
    the move goes on; `tidegate move status ID` shows how far it is. Where no service runs on the data directory, one is
    started for the command.
    """
    bucket, prefix = parse_target(target)
    if bool(to) is back:
        raise click.UsageError("Say where to: --to LOCATION, or --back.")
    if no_wait:
        with _moves(invocation) as moves:
            view = moves.start(bucket, prefix, to=to, back=back, versions=versions, dry_run=dry_run)
        print_object(view, as_json=invocation.json)
        return
    with service_for(invocation), _moves(invocation) as moves:
        asked = moves.start(bucket, prefix, to=to, back=back, versions=versions, dry_run=dry_run)
        try:
            with Ticker(silent=invocation.json) as ticker:
                view = moves.wait(asked.id, partial(_watch, invocation.directory, ticker))
        except KeyboardInterrupt:
            click.echo(f"note: the move goes on; `tidegate move status {asked.id}` shows how far it is", err=True)
            raise
    print_object(view, as_json=invocation.json)
    if view.failed:
        click.get_current_context().exit(1)


def _watch(directory: DataDirectory, ticker: Ticker, view: MoveView) -> None:
    if not directory.runs():
        raise Unavailable(f"the service has stopped; the move {view.id} goes on when it runs again")
    words = [f"{view.moved:,} of {view.total:,} moved ({show_bytes(view.bytes)})"]
    words += [f"{view.failed:,} failed"] if view.failed else []
    words += ["still listing"] if view.status == "listing" else []
    words += [view.problem] if view.problem else []
    ticker.tell(", ".join(words))


@move.command()
@click.argument("move_id", metavar="ID")
@pass_invocation
def status(invocation: Invocation, move_id: str) -> None:
    """Shows how far a move is, or how it ended."""
    with _moves(invocation) as moves:
        print_object(moves.show(move_id), as_json=invocation.json)


@move.command("list")
@click.option("-n", "count", default=20, show_default=True, type=click.IntRange(1), help="Moves to show.")
@pass_invocation
def list_moves(invocation: Invocation, count: int) -> None:
    """Lists the newest moves of the last 30 days."""
    with _moves(invocation) as moves:
        views = moves.newest(count)
    columns = ("id", "bucket", "prefix", "location", "status", "total", "moved", "failed", "unchanged")
    print_list(views, columns, as_json=invocation.json, empty="Nothing was moved yet.")
