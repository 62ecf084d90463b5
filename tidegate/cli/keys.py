"""`tidegate key`: access keys."""

from __future__ import annotations

import click

from tidegate import administration
from tidegate.administration import view_key
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.moments import MOMENT
from tidegate.cli.printing import print_done, print_list, print_object
from tidegate.core.records import KeyPolicy


@click.group(cls=Group)
def key() -> None:
    """Access keys of pools."""


@key.command()
@click.argument("pool")
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in KeyPolicy]),
    default="readwrite",
    show_default=True,
    help="What it may do.",
)
@click.option("--expires", type=MOMENT, help="When it stops working: a date, or a time from now such as 30d.")
@pass_invocation
def create(invocation: Invocation, pool: str, policy: str, expires: float | None) -> None:
    """Creates a key for a pool. The secret is shown only now."""
    with invocation.registry() as registry:
        created = administration.create_key(registry, pool, policy=policy, expires_at=expires)
    print_object(created, as_json=invocation.json)


@key.command("list")
@click.argument("pool")
@pass_invocation
def list_keys(invocation: Invocation, pool: str) -> None:
    """Lists a pool's keys, without their secrets."""
    with invocation.registry() as registry:
        views = [view_key(item) for item in registry.keys(pool)]
    columns = ("access_key", "policy", "created_at", "expires_at")
    print_list(views, columns, as_json=invocation.json, empty=f"{pool} has no keys: tidegate key create {pool}")


@key.command()
@click.argument("access_key")
@click.option("--yes", is_flag=True, help="Does not ask.")
@pass_invocation
def delete(invocation: Invocation, access_key: str, yes: bool) -> None:
    """Deletes a key: requests signed with it are refused from then on."""
    with invocation.registry() as registry:
        pool = registry.key(access_key).pool
        if not yes:
            click.confirm(f"Delete the key {access_key} of the pool {pool}?", abort=True, err=True)
        administration.delete_key(registry, access_key)
    print_done(
        f"The key {access_key} is deleted.", {"access_key": access_key, "deleted": True}, as_json=invocation.json
    )
