"""`tidegate gateway`: the running gateway processes."""

from __future__ import annotations

import click

from tidegate.administration import list_gateways
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_list


@click.group(cls=Group)
def gateway() -> None:
    """Gateway processes."""


@gateway.command("list")
@pass_invocation
def list_all(invocation: Invocation) -> None:
    """Lists the gateways that are registered now."""
    with invocation.tables() as tables:
        views = list_gateways(tables)
    columns = ("host", "port", "pid", "started_at", "modified_at")
    print_list(views, columns, as_json=invocation.json, empty="No gateway is registered: tidegate up")
