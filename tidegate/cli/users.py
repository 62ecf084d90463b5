"""`tidegate user`: owners of pools."""

from __future__ import annotations

import time

import click

from tidegate.administration import view_user
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_list, print_object


@click.group(cls=Group)
def user() -> None:
    """Owners of pools, and whether they are permitted."""


@user.command("list")
@pass_invocation
def list_users(invocation: Invocation) -> None:
    """Lists the users Tidegate knows."""
    with invocation.registry() as registry:
        views = [view_user(item) for item in registry.users()]
    print_list(views, ("name", "permitted", "modified_at"), as_json=invocation.json, empty="There are no users yet.")


@user.command()
@click.argument("name")
@pass_invocation
def allow(invocation: Invocation, name: str) -> None:
    """Lets a user's pools serve again."""
    _permit(invocation, name, True)


@user.command()
@click.argument("name")
@pass_invocation
def deny(invocation: Invocation, name: str) -> None:
    """Takes all pools of a user out of service until `allow`."""
    _permit(invocation, name, False)


def _permit(invocation: Invocation, name: str, permitted: bool) -> None:
    with invocation.registry() as registry:
        changed = registry.set_user_permitted(name, permitted, time.time())
    print_object(view_user(changed), as_json=invocation.json)
