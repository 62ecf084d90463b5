"""What `tidegate up --demo` adds: a pool to play with, and lines to try it with."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from tidegate import administration
from tidegate.core.errors import Conflict, NotFound
from tidegate.datadir import DataDirectory, Endpoints
from tidegate.lifecycle.buckets.time_scale import DEMO_POOL
from tidegate.pools.registry import Registry

POOL = DEMO_POOL
BUCKET = "hello"


def ensure_pool(registry: Registry, directory: DataDirectory) -> tuple[str, str]:
    """Key and secret of the pool `demo`, which is made at the first start.

    They are kept in a file that only its owner can read, so that every start can print them.
    """
    kept = directory.demo()
    try:
        registry.pool(POOL)
    except NotFound:
        created = administration.create_pool(registry, POOL)
        directory.write_demo({"access_key": created.access_key, "secret_key": created.secret_key})
        return created.access_key, created.secret_key
    if kept is None:
        raise Conflict(
            f"a pool {POOL} exists that was not made by --demo; start without --demo, or delete it: "
            f"tidegate pool delete {POOL} --data {directory.path}"
        )
    return kept["access_key"], kept["secret_key"]


def print_welcome(endpoints: Endpoints, access_key: str, secret_key: str, data: Path) -> None:
    click.echo(f"""
  S3 endpoint   {endpoints.s3}
  access key    {access_key}
  secret key    {secret_key}
  web           {endpoints.api}  (its page /lifecycle asks for a password: admin_token in run/endpoints.json)
""")
    click.echo("Try:\n")
    for line in _lines(endpoints.s3, access_key, secret_key):
        click.echo(f"  {line}")
    click.echo(f"\nEvery change is in the log: {program('tidegate')} metalog tail --follow --data {data}")
    click.echo(f"See objects expire within a minute, and why: {program('tidegate')} demo --data {data}")
    click.echo("Ctrl-C ends everything.")


def _lines(s3: str, access_key: str, secret_key: str) -> list[str]:
    """With the AWS command line where there is one, otherwise with curl, which is nearly everywhere."""
    aws = program("aws")
    if shutil.which(aws):
        secrets = f"AWS_ACCESS_KEY_ID={access_key} AWS_SECRET_ACCESS_KEY={secret_key}"
        return [
            f"export {secrets} AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL={s3}",
            f"{aws} s3 mb s3://{BUCKET} && {aws} s3 cp README.md s3://{BUCKET}/",
            f"{aws} s3 ls s3://{BUCKET}",
        ]
    # Older versions of curl do not send the header by themselves.
    curl = (
        f'curl --aws-sigv4 "aws:amz:us-east-1:s3" --user "{access_key}:{secret_key}" '
        '-H "x-amz-content-sha256: UNSIGNED-PAYLOAD"'
    )
    return [
        f"{curl} -X PUT {s3}/{BUCKET}",
        f"{curl} -T README.md {s3}/{BUCKET}/",
        f"{curl} {s3}/{BUCKET}",
    ]


def program(name: str) -> str:
    """The program beside our Python, as short as it can be typed from here, or by its name alone."""
    beside = Path(sys.executable).parent / name
    if not beside.exists():
        return name
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)
