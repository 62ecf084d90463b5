"""`tidegate bucket`: buckets in the one namespace of all pools."""

from __future__ import annotations

import click

from tidegate import administration
from tidegate.administration import view_bucket
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_done, print_list, print_object
from tidegate.core.records import BucketPolicy

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
