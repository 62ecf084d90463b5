"""What the API process holds open: tables, topics, registry, settings and the admin token."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from pydantic import BaseModel

from tidegate import __version__, metrics
from tidegate.administration import GatewayView, list_gateways, view_pool
from tidegate.assembly import open_location, open_tables, open_topics
from tidegate.datadir import DataDirectory
from tidegate.lifecycle.acting.stop_switch import read_stops
from tidegate.lifecycle.passes.clock_guard import clock_problems
from tidegate.metalog_reader import MetalogReader
from tidegate.movement.locations import Locations
from tidegate.pools.changes import ChangeCounter
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables, Topics
from tidegate.replication.gauges import ReplicationGauges
from tidegate.settings import Settings


class StatusView(BaseModel):
    """The service as a whole."""

    version: str
    s3: str
    pools: dict[str, int]
    running_pools: int
    gateways: list[GatewayView]


@dataclass(frozen=True)
class Service:
    directory: DataDirectory
    settings: Settings
    tables: Tables
    topics: Topics
    registry: Registry
    locations: Locations
    admin_token: str
    replication: ReplicationGauges

    @classmethod
    def open(cls, directory: DataDirectory, settings: Settings) -> Service:
        tables = open_tables(settings, directory.path)
        vault = Vault.open(directory.path)
        changes = ChangeCounter(directory.path)
        topics = open_topics(settings, directory.path)
        return cls(
            directory=directory,
            settings=settings,
            tables=tables,
            topics=topics,
            registry=Registry(tables, vault, directory.path, settings),
            locations=Locations(tables, vault, settings.locations, open_location, changed=changes.bump),
            admin_token=directory.admin_token(settings),
            replication=ReplicationGauges(tables, topics, log_topic=settings.metalog.topic),
        )

    def metalog(self) -> MetalogReader:
        return MetalogReader(self.topics, self.settings.metalog.topic)

    def status(self) -> StatusView:
        views = [view_pool(self.registry, pool) for pool in self.registry.pools()]
        endpoints = self.directory.endpoints()
        return StatusView(
            version=__version__,
            s3=endpoints.s3 if endpoints else "",
            pools=dict(sorted(Counter(view.state for view in views).items())),
            running_pools=sum(bool(view.endpoint) for view in views),
            gateways=list_gateways(self.tables),
        )

    def measure(self) -> bytes:
        """The metrics, those that the tables and topics know brought up to date."""
        status = self.status()
        metrics.RUNNING_POOLS.set(status.running_pools)
        metrics.GATEWAYS.set(len(status.gateways))
        for state in ("NONE", "INITIAL", "READY", "DISABLED", "INOPERABLE"):
            metrics.POOLS.labels(state).set(status.pools.get(state, 0))
        for topic in self.topics.names():
            held = sum(following - first for first, following in self.topics.bounds(topic))
            metrics.TOPIC_RECORDS.labels(topic).set(held)
        metrics.LIFECYCLE_STOPPED.set(read_stops(self.tables).everything)
        metrics.LIFECYCLE_CLOCK_PROBLEMS.set(len(clock_problems(self.tables)))
        self.replication.measure(now=time.time())
        return metrics.render()

    def close(self) -> None:
        self.locations.close()
        self.topics.close()
        self.tables.close()


def _of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


OfRequest = Annotated[Service, Depends(_of)]
