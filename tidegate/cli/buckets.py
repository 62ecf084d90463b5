"""`tidegate bucket`: buckets in the one namespace of all pools."""

from __future__ import annotations

from functools import partial

import click

from tidegate import administration
from tidegate.administration import view_bucket
from tidegate.cli.deletion import deletion_desk
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.lifecycle import stores_of
from tidegate.cli.locations import locations_on
from tidegate.cli.printing import print_done, print_list, print_object
from tidegate.cli.ticker import Ticker
from tidegate.core.records import BucketPolicy
from tidegate.movement.purge import PurgeCounts

_POLICY = click.Choice([policy.value for policy in BucketPolicy])


@click.group(cls=Group)
def bucket() -> None:
    """Buckets; a name belongs to one pool."""


@bucket.command()
@click.argument("name")
@click.option("--pool", required=True, help="The pool it is to lie in.")
@click.option("--policy", type=_POLICY, default="none", show_default=True, help="What may be done without a key.")
@pass_invocation
def create(invocation: Invocation, name: str, pool: str, policy: str) -> None:
    """Creates a bucket."""
    with invocation.registry() as registry:
        created = administration.create_bucket(registry, name, pool, policy=policy)
    print_object(created, as_json=invocation.json)


@bucket.command("list")
@click.option("--pool", default="", help="Only those of this pool.")
@pass_invocation
def list_buckets(invocation: Invocation, pool: str) -> None:
    """Lists buckets."""
    with invocation.tables() as tables:
        views = administration.list_buckets(invocation.registry_on(tables), tables, pool)
    columns = ("name", "pool", "policy", "created_at")
    print_list(views, columns, as_json=invocation.json, empty="There are no buckets yet.")


@bucket.command()
@click.argument("name")
@pass_invocation
def show(invocation: Invocation, name: str) -> None:
    """Shows one bucket."""
    with invocation.registry() as registry:
        print_object(view_bucket(registry.bucket(name)), as_json=invocation.json)


@bucket.command()
@click.argument("name")
@click.argument("policy", type=_POLICY)
@pass_invocation
def policy(invocation: Invocation, name: str, policy: str) -> None:
    """Sets what may be done in a bucket without a key."""
    with invocation.registry() as registry:
        changed = administration.set_bucket_policy(registry, name, policy)
    print_object(changed, as_json=invocation.json)


@bucket.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Does not ask.")
@pass_invocation
def delete(invocation: Invocation, name: str, yes: bool) -> None:
    """Makes a bucket unreachable and frees its name. Its contents stay in the pool's directory."""
    with invocation.registry() as registry:
        pool = registry.bucket(name).pool
        if not yes:
            click.confirm(f"Delete the entry of the bucket {name} of the pool {pool}?", abort=True, err=True)
        administration.delete_bucket(registry, name)
    message = f"The bucket {name} is unreachable now. Its contents stay in the pool {pool}."
    print_done(message, {"bucket": name, "deleted": True}, as_json=invocation.json)


@bucket.command()
@click.argument("name")
@click.option("--prefix", default="", help="Only keys that begin with this.")
@click.option("--dry-run", is_flag=True, help="Only counts: nothing is deleted.")
@click.option("--confirm", metavar="NAME", default="", help="The bucket's name once more; otherwise it is asked for.")
@pass_invocation
def purge(invocation: Invocation, name: str, prefix: str, dry_run: bool, confirm: str) -> None:
    """Deletes all versions, delete markers and open uploads that a bucket holds, for good.

    What is written meanwhile stays. The bucket itself stays, too. Where it has a grace (`tidegate deletion grace`),
    `tidegate undelete` brings objects back until that is over. The exit code is 1 if something could not be deleted;
    `tidegate deletion history` says why.
    """
    with deletion_desk(invocation) as desk:
        registry = invocation.registry_on(desk.tables)
        found = registry.bucket(name)
        if not dry_run and not confirm:
            what = f"all of it that begins with {prefix}" if prefix else "all that it holds"
            confirm = click.prompt(f"Type the name of the bucket {name} to delete {what}", err=True)
        with Ticker(silent=invocation.json) as ticker, locations_on(invocation, desk.tables) as locations:
            view = desk.purge(
                found,
                partial(stores_of, invocation, registry),
                locations,
                prefix=prefix,
                dry_run=dry_run,
                confirm=confirm,
                progress=partial(_tell_purged, ticker),
            )
    print_object(view, as_json=invocation.json)
    if view.failed:
        click.get_current_context().exit(1)


def _tell_purged(ticker: Ticker, counts: PurgeCounts) -> None:
    found = counts.versions + counts.markers + counts.uploads
    ticker.tell(f"{found:,} found, {counts.deleted:,} deleted, {counts.aborted:,} aborted, {counts.failed:,} failed")
