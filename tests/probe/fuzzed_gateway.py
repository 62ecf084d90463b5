"""A gateway process in front of recording stores: for each lane a pool of the senders' and a pool of somebody else's.

A lane sends one request at a time, and nobody else uses its pools. Whatever arrives there meanwhile, and whatever the
metadata log says of them, belongs to that request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from differential_check import Logged
from odd_world import DIRECT_DOMAIN, DOMAIN, Sender, World, lane_buckets, lane_names, spare_buckets
from recording_store import Arrival, RecordingStore
from requests_on_the_wire import Signer
from scripted_backend import LoneGateway

from tidegate.assembly import open_topics
from tidegate.core.events import Event, EventKind
from tidegate.core.records import KeyPolicy
from tidegate.pools.registry import Registry

# The credential that `LoneGateway.settle` enters for a store.
CREDENTIAL = Signer("ADMIN", "admin-secret")


@dataclass
class Lane:
    """The pools, buckets and keys of one sender at a time, and what arrives at the two stores."""

    number: int
    arrivals: list[Arrival] = field(default_factory=list)
    stores: list[RecordingStore] = field(default_factory=list)
    senders: list[Sender] = field(default_factory=list)

    async def open(self) -> None:
        pools, spare = lane_names(self.number), frozenset(spare_buckets(self.number))
        self.stores = [RecordingStore(pool, self.arrivals, domain=DOMAIN, spare=spare) for pool in pools]
        for store in self.stores:
            await store.start()

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def world(self, authority: str) -> World:
        own, other = lane_names(self.number)
        return World(
            authority=authority.encode(),
            own=own,
            other=other,
            buckets=lane_buckets(self.number),
            spare=spare_buckets(self.number),
            senders=tuple(self.senders),
            direct_names=(own, other),
        )


class FuzzedGateway(LoneGateway):
    overrides: ClassVar[tuple[str, ...]] = (
        f'gateway.domains=["{DOMAIN}"]',
        f"gateway.direct_domain={DIRECT_DOMAIN}",
        "gateway.backend_seconds=60",
        "gateway.route_seconds=60",
        "log.access=file",
    )

    def __init__(self, data: Path, lanes: list[Lane]) -> None:
        self._lanes = lanes
        super().__init__(data, lanes[0].stores[0])  # type: ignore[arg-type]  # of a store only the address counts
        self._topics = open_topics(self.settings, data)
        self._offsets: dict[int, int] = {}

    @property
    def authority(self) -> str:
        return urlsplit(self.url).netloc

    def settle(self) -> None:
        """Beside the pool of its own, which nobody uses here, enters those of the lanes."""
        super().settle()
        registry = Registry(self.tables, self._vault, self.data, self.settings)
        for lane in self._lanes:
            for store in lane.stores:
                registry.create_pool(store.pool, now=time.time(), direct_hostname=store.pool)
                self.pool, self.store = store.pool, store  # type: ignore[assignment]
                super().settle()
            for bucket in lane_buckets(lane.number).values():
                registry.create_bucket(bucket.name, bucket.pool, now=time.time())
                registry.set_bucket_policy(bucket.name, bucket.policy)
            lane.senders = _senders(registry, *lane_names(lane.number))

    def new_events(self) -> list[tuple[int, Logged]]:
        """What the metadata log has got since the last call, with the times of the events."""
        topic = self.settings.metalog.topic
        found = []
        for partition, (first, end) in enumerate(self._topics.bounds(topic)):
            offset = self._offsets.get(partition, first)
            while offset < end:
                for message in self._topics.read(topic, partition, offset, 1000):
                    found.append(_logged(Event.from_bytes(message.value)))
                    offset = message.offset + 1
            self._offsets[partition] = offset
        return sorted(found)

    def end(self) -> None:
        self._topics.close()
        super().end()


def _logged(event: Event) -> tuple[int, Logged]:
    tags = tuple(sorted(event.tags))
    upload = "" if event.operation is EventKind.UPLOAD_STARTED else event.upload_id
    where = event.pool, event.bucket, event.key, event.version_id
    return event.ts_ns, Logged(event.operation.value, *where, upload, tags)


def _senders(registry: Registry, own: str, other: str) -> list[Sender]:
    found = []
    for policy, reads, writes in (
        (KeyPolicy.READWRITE, True, True),
        (KeyPolicy.READONLY, True, False),
        (KeyPolicy.WRITEONLY, False, True),
    ):
        key, secret = registry.create_key(own, now=time.time(), policy=policy)
        found.append(Sender(policy.value, own, Signer(key.access_key, secret), reads, writes))
    forger = Sender("forger", own, Signer(key.access_key, "wrong"), forged=True)
    nobody = Sender("anonymous", "", None)
    return [*found, *found, found[0], nobody, nobody, forger]
