"""The command `tidegate`: puts the groups together."""

from __future__ import annotations

import click

from tidegate import __version__
from tidegate.cli.audits import orphans
from tidegate.cli.buckets import bucket
from tidegate.cli.deletion import deletion
from tidegate.cli.demo_lifecycle import demo
from tidegate.cli.gateways import gateway
from tidegate.cli.invocation import Root
from tidegate.cli.keys import key
from tidegate.cli.lifecycle import audit, lifecycle
from tidegate.cli.locations import location
from tidegate.cli.metalog import metalog
from tidegate.cli.moves import move
from tidegate.cli.passes import passes
from tidegate.cli.pools import pool
from tidegate.cli.replication import replication
from tidegate.cli.replication_jobs import backfill, verify
from tidegate.cli.service import status, up
from tidegate.cli.settings import settings
from tidegate.cli.undelete import undelete
from tidegate.cli.users import user


@click.group(cls=Root)
@click.version_option(__version__, prog_name="tidegate")
def main() -> None:
    """One S3 endpoint in front of many tenants' object stores."""


for command in (
    up,
    status,
    demo,
    pool,
    key,
    bucket,
    user,
    gateway,
    location,
    move,
    metalog,
    lifecycle,
    passes,
    audit,
    deletion,
    undelete,
    replication,
    settings,
):
    main.add_command(command)
audit.add_command(orphans)
replication.add_command(backfill)
replication.add_command(verify)

if __name__ == "__main__":
    main()
