"""`tidegate pool`: pools, their life and their backends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tidegate import administration
from tidegate.administration import view_pool
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.moments import MOMENT
from tidegate.cli.printing import print_done, print_list, print_object
from tidegate.pools import waking


@click.group(cls=Group)
def pool() -> None:
    """Pools: one directory, one owner, one backend each."""


@pool.command()
@click.argument("name")
@click.option("--backend", default="", help="Backend.  [default: the setting pools.backend]")
@click.option("--owner", default="", help="System user the backend runs as.  [default: the service's user]")
@click.option("--group", default="", help="System group.  [default: the owner's]")
@click.option("--directory", default="", help="Where the data lies.  [default: pools/NAME in the data directory]")
@click.option("--direct-hostname", default="", help="Host name that leads to this pool without a key.")
@click.option("--expires", type=MOMENT, help="When the pool stops serving: a date, or a time from now such as 30d.")
@pass_invocation
def create(
    invocation: Invocation,
    name: str,
    backend: str,
    owner: str,
    group: str,
    directory: str,
    direct_hostname: str,
    expires: float | None,
) -> None:
    """Creates a pool and a first access key. The secret is shown only now."""
    with invocation.registry() as registry:
        created = administration.create_pool(
            registry,
            name,
            owner=owner,
            group=group,
            directory=directory,
            backend=backend,
            direct_hostname=direct_hostname,
            expires_at=expires,
        )
    print_object(created, as_json=invocation.json)


@pool.command("list")
@pass_invocation
def list_pools(invocation: Invocation) -> None:
    """Lists all pools."""
    with invocation.registry() as registry:
        views = [view_pool(registry, item) for item in registry.pools()]
    columns = ("name", "state", "owner", "backend", "endpoint", "online", "expires_at", "last_access_at")
    print_list(views, columns, as_json=invocation.json, empty="There are no pools yet: tidegate pool create NAME")


@pool.command()
@click.argument("name")
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Shows one pool with its state and processes."""
    with invocation.registry() as registry:
        print_object(view_pool(registry, registry.pool(name)), as_json=invocation.json)


@pool.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Does not ask.")
@pass_invocation
def delete(invocation: Invocation, name: str, yes: bool) -> None:
    """Deletes a pool with its keys and bucket entries. The contents of its directory stay."""
    with invocation.registry() as registry:
        directory = registry.pool(name).directory
        if not yes:
            click.confirm(f"Delete the pool {name}, its keys and its buckets' entries?", abort=True, err=True)
        registry.delete_pool(name)
    message = f"The pool {name} is deleted. Its contents are still in {directory}"
    print_done(message, {"pool": name, "deleted": True, "directory": directory}, as_json=invocation.json)


@pool.command()
@click.argument("name")
@pass_invocation
def start(invocation: Invocation, name: str) -> None:
    """Starts the pool's backend now instead of at the first request."""
    with invocation.registry() as registry:
        registry.pool(name)
        settings, directory = invocation.settings(), invocation.directory
        if not directory.runs():
            directory.write_settings(settings)  # the manager reads them
        with _standard_error_in(directory.log / "managers.log"):
            endpoint = waking.start_pool(directory.path, name, settings)
    print_done(f"{name} runs at {endpoint}", {"pool": name, "endpoint": endpoint}, as_json=invocation.json)


@contextmanager
def _standard_error_in(file: Path) -> Iterator[None]:
    """The manager inherits ours and lives on: a script that reads our output to its end must not wait for that."""
    kept, log = os.dup(2), os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)


@pool.command()
@click.argument("name")
@pass_invocation
def stop(invocation: Invocation, name: str) -> None:
    """Stops the pool's backend; the next request starts it again."""
    with invocation.registry() as registry:
        registry.stop_pool(name)
    print_done(f"{name} is stopped", {"pool": name, "stopped": True}, as_json=invocation.json)


@pool.command()
@click.argument("name")
@pass_invocation
def online(invocation: Invocation, name: str) -> None:
    """Lets a pool serve again that was taken offline."""
    _set_online(invocation, name, True)


@pool.command()
@click.argument("name")
@pass_invocation
def offline(invocation: Invocation, name: str) -> None:
    """Takes a pool out of service until `online`."""
    _set_online(invocation, name, False)


def _set_online(invocation: Invocation, name: str, value: bool) -> None:
    with invocation.registry() as registry:
        changed = registry.update_pool(name, online=value)
        print_object(view_pool(registry, changed), as_json=invocation.json)


@pool.command()
@click.argument("name")
@click.argument("when", metavar="WHEN|never")
@pass_invocation
def expire(invocation: Invocation, name: str, when: str) -> None:
    """Sets when a pool stops serving: a date, a time from now such as 30d, or `never`."""
    expires_at = None if when == "never" else MOMENT.convert(when, None, None)
    with invocation.registry() as registry:
        changed = registry.update_pool(name, expires_at=expires_at)
        print_object(view_pool(registry, changed), as_json=invocation.json)


@pool.command()
@click.argument("name")
@pass_invocation
def reset(invocation: Invocation, name: str) -> None:
    """Lets an INOPERABLE pool be tried again, after its cause was removed."""
    with invocation.registry() as registry:
        registry.reset_pool(name, now=time.time())
        print_object(view_pool(registry, registry.pool(name)), as_json=invocation.json)
