"""`tidegate location`: the stores to which the data of objects moves."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tidegate.assembly import open_location
from tidegate.cli.deletion import deletion_desk
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_done, print_list, print_object, print_table
from tidegate.cli.printing import show as shown
from tidegate.core.errors import InvalidInput
from tidegate.movement.location_views import view_location
from tidegate.movement.locations import Locations
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.vault import Vault
from tidegate.ports import Tables

_LONGEST_SECRET = 4096


@click.group(cls=Group)
def location() -> None:
    """Locations: S3 endpoints to which the data of objects moves."""


@contextmanager
def _locations(invocation: Invocation) -> Iterator[Locations]:
    with invocation.tables() as tables:
        path = invocation.directory.path
        changes = ChangeCounter(path)
        configured = invocation.settings().locations
        locations = Locations(tables, Vault.open(path), configured, open_location, changed=changes.bump)
        try:
            yield locations
        finally:
            locations.close()
            changes.close()


@contextmanager
def locations_on(invocation: Invocation, tables: Tables) -> Iterator[Locations]:
    """The locations that there are, to be used and not changed."""
    locations = Locations(tables, Vault.open(invocation.directory.path), invocation.settings().locations, open_location)
    try:
        yield locations
    finally:
        locations.close()


@location.command()
@click.argument("name")
@click.option("--endpoint", required=True, metavar="URL", help="https://HOST:PORT, or http://HOST:PORT.")
@click.option("--bucket", required=True, help="Bucket there; it must exist.")
@click.option("--region", default="us-east-1", show_default=True, help="Region that requests are signed for.")
@click.option("--prefix", default="", help="What the keys there begin with.  [default: nothing]")
@click.option("--access-key", required=True, help="Access key.")
@click.option(
    "--secret-key-file",
    required=True,
    metavar="FILE",
    help="File with its secret, which only you can read; - reads standard input.",
)
@click.option(
    "--storage-class",
    "storage_classes",
    multiple=True,
    metavar="CLASS",
    help="Objects of this class move here; may be repeated.  [default: NAME]",
)
@click.option(
    "--ca-file",
    default="",
    metavar="FILE",
    help="PEM file with the authorities its certificate is checked against.  [default: the system's]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="Objects and parts on their way at a time, of one process.",
)
@click.option(
    "--bytes-per-second",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Most bytes per second to and from there, of one process; 0: any.",
)
@pass_invocation
def create(
    invocation: Invocation,
    name: str,
    endpoint: str,
    bucket: str,
    region: str,
    prefix: str,
    access_key: str,
    secret_key_file: str,
    storage_classes: tuple[str, ...],
    ca_file: str,
    concurrency: int,
    bytes_per_second: int,
) -> None:
    """Creates a location. `tidegate location check NAME` tries it."""
    # Before the settings are read: a command of root's gives up what may read the file.
    secret = _secret(secret_key_file)
    with _locations(invocation) as locations:
        made = locations.create(
            name,
            endpoint=endpoint,
            bucket=bucket,
            access_key=access_key,
            secret=secret,
            now=time.time(),
            region=region,
            prefix=prefix,
            storage_classes=storage_classes,
            ca_file=str(Path(ca_file).absolute()) if ca_file else "",
            concurrency=concurrency,
            bytes_per_second=bytes_per_second,
        )
        print_object(view_location(locations, made), as_json=invocation.json)


@location.command("list")
@pass_invocation
def list_locations(invocation: Invocation) -> None:
    """Lists all locations, without their secrets."""
    with _locations(invocation) as locations:
        views = [view_location(locations, item) for item in locations.all()]
    columns = ("name", "endpoint", "bucket", "prefix", "storage_classes", "source")
    print_list(
        views, columns, as_json=invocation.json, empty="There are no locations yet: tidegate location create NAME"
    )


@location.command()
@click.argument("name")
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Shows one location, without its secret."""
    with _locations(invocation) as locations:
        print_object(view_location(locations, locations.get(name)), as_json=invocation.json)


@location.command()
@click.argument("name")
@click.pass_context
@pass_invocation
def check(invocation: Invocation, context: click.Context, name: str) -> None:
    """Writes, reads, looks at and deletes a small object there. The exit code is 1 if anything fails."""
    with _locations(invocation) as locations:
        result = locations.check(name)
    if invocation.json:
        print_object(result, as_json=True)
    else:
        rows = [
            [step.step, "ok" if step.ok else "FAILED", f"{step.milliseconds} ms", shown(step.message)]
            for step in result.steps
        ]
        print_table(["STEP", "RESULT", "TIME", "MESSAGE"], rows)
    if not result.ok:
        context.exit(1)


@location.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Does not ask.")
@pass_invocation
def remove(invocation: Invocation, name: str, yes: bool) -> None:
    """Removes a location to which no object refers any more. Nothing in its bucket is deleted."""
    with _locations(invocation) as locations, deletion_desk(invocation) as desk:
        locations.get(name)
        if not yes:
            click.confirm(f"Remove the location {name}?", abort=True, err=True)
        locations.remove(name, desk.in_flight)
    print_done(f"The location {name} is removed.", {"location": name, "removed": True}, as_json=invocation.json)


def _secret(name: str) -> str:
    text = sys.stdin.read(_LONGEST_SECRET) if name == "-" else _file_of_ones_own(Path(name))
    if not text.strip():
        raise InvalidInput("the secret key is empty: put it into the file, on one line")
    return text.strip()


def _file_of_ones_own(file: Path) -> str:
    try:
        with file.open() as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if mode & 0o077:
                raise InvalidInput(f"{file} can be read by others (mode {mode:04o}): chmod 600 {file}")
            return stream.read(_LONGEST_SECRET)
    except OSError as error:
        raise InvalidInput(f"the file {file} with the secret key cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the file {file} with the secret key does not hold text") from None
