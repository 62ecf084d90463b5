"""`tidegate up` and `tidegate status`: the service as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from tidegate import __version__, logs
from tidegate import settings as settings_module
from tidegate.administration import list_gateways, view_pool
from tidegate.cli.demo import ensure_pool, print_welcome
from tidegate.cli.invocation import Command, Invocation, pass_invocation
from tidegate.cli.printing import print_object
from tidegate.datadir import Endpoints
from tidegate.handover import check_settings_file
from tidegate.lifecycle.buckets.time_scale import demo_day_seconds
from tidegate.supervisor import up as run_service


@click.command(cls=Command)
@click.option(
    "--demo",
    is_flag=True,
    help="Makes a pool `demo` at the first start, prints its key, and lets `tidegate demo` shorten its days.",
)
@pass_invocation
def up(invocation: Invocation, demo: bool) -> None:
    """Runs everything in the foreground until SIGTERM or Ctrl-C."""
    directory = invocation.directory
    if invocation.config is None:
        check_settings_file(directory.path / settings_module.FILE_NAME)
    overrides = (*invocation.overrides, "lifecycle.demo_day=true") if demo else invocation.overrides
    settings = settings_module.load(directory.path, config=invocation.config, overrides=overrides)
    invocation.use(settings)
    logs.setup(settings, directory.path, "supervisor")

    def announce(endpoints: Endpoints) -> None:
        shown = {"s3": endpoints.s3, "api": endpoints.api, "data": str(directory.path), "pid": endpoints.pid}
        if not demo:
            print_object(shown, as_json=invocation.json)
            return
        with invocation.registry() as registry:
            access_key, secret_key = ensure_pool(registry, directory)
        if invocation.json:
            print_object(shown | {"access_key": access_key, "secret_key": secret_key}, as_json=True)
        else:
            print_welcome(endpoints, access_key, secret_key, invocation.directory.path)

    run_service(directory, settings, announce)


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> None:
    """Shows whether the service runs, where, and the pools by state."""
    directory = invocation.directory
    endpoints = directory.endpoints() if directory.runs() else None
    with invocation.tables() as tables:
        registry = invocation.registry_on(tables)
        states = Counter(view_pool(registry, pool).state for pool in registry.pools())
        gateways = len(list_gateways(tables))
        demo_day = demo_day_seconds(tables, invocation.settings().lifecycle)
    found: dict[str, Any] = {
        "version": __version__,
        "data": str(directory.path),
        "service": "ready" if endpoints else "starting or stopping" if directory.runs() else "stopped",
        "s3": endpoints.s3 if endpoints else "",
        "api": endpoints.api if endpoints else "",
        "pid": endpoints.pid if endpoints else None,
        "gateways": gateways,
        "pools": dict(states),
    }
    if demo_day is not None:
        found["demo_day_seconds"] = demo_day
    if not invocation.json:
        found["pools"] = [f"{count} {state}" for state, count in sorted(states.items())]
    print_object(found, as_json=invocation.json)
