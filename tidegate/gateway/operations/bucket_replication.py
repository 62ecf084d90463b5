"""The replication rules of buckets, which the gateway keeps. They need versioning, and hold it fast."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.assembly import open_location
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.locations import Location
from tidegate.core.records import BucketState
from tidegate.core.replication.rules import REPLICATION, ReplicationRules
from tidegate.core.replication.rules_xml import parse_replication, replication_xml
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.bucket_states import learn_versioning
from tidegate.gateway.operations.bucket_settings import change_setting
from tidegate.ports import Store
from tidegate.replication.destinations import claim, destinations_of, is_anothers, unfit_in
from tidegate.storage_classes import locations_in

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

# A site that takes longer to answer is asked no further.
_SITE_SECONDS = 3.0


async def put_replication(exchange: Exchange, admission: Admission) -> None:
    gateway, bucket = exchange.gateway, admission.bucket
    assert bucket is not None
    await learn_versioning(exchange)
    sites = await gateway.loop.run_in_executor(None, _sites, gateway)
    rules = parse_replication(exchange.parsed, sites=sorted(sites))
    await gateway.loop.run_in_executor(None, _check_destinations, gateway, bucket.pool, rules, sites)

    def store(entry: str) -> None:
        """With the times since when its rules do what they do."""
        text = gateway.tables.get(BucketState.PREFIX + bucket.uid)
        if text is None or BucketState.from_json(text).versioning != Versioning.ENABLED:
            raise S3Error(
                "InvalidRequest", "Versioning must be 'Enabled' on the bucket to apply a replication configuration."
            )
        places = _places(rules, sites)
        for host, name in places:
            at_host = [site for site, location in sites.items() if location.host == host]
            if not claim(gateway.tables, host, name, bucket.pool, sites=at_host):
                raise _anothers(name)
        before = gateway.tables.get(entry)
        earlier = ReplicationRules.from_json(before) if before is not None else None
        gateway.tables.put(entry, rules.after(earlier, now=time.time()).to_json())
        gone = {site for rule in rules.rules for site in rule.sites}.difference(_sites(gateway))
        if gone:  # a location is removed only while no rules name it: whoever comes second sees the other
            gateway.tables.change({entry: before})
            raise S3Error("InvalidArgument", f"The location {min(gone)} is being removed.")
        for host, name in places:  # a bucket is given to another pool only while no rules name it
            if is_anothers(gateway.tables, host, name, bucket.pool):
                gateway.tables.change({entry: before})
                raise _anothers(name)

    await change_setting(exchange, admission, REPLICATION, rules, store=store)
    exchange.answer(200, {}, b"")


async def get_replication(exchange: Exchange, admission: Admission) -> None:
    if admission.replication is None:
        raise S3Error("ReplicationConfigurationNotFoundError", fields={"BucketName": admission.bucket_name})
    exchange.answer(200, {"Content-Type": "application/xml"}, replication_xml(admission.replication))


async def delete_replication(exchange: Exchange, admission: Admission) -> None:
    # Also where none are known here: another machine may have put them a moment ago.
    await change_setting(exchange, admission, REPLICATION, None)
    exchange.answer(204, {}, b"")


def before_versioning(exchange: Exchange, admission: Admission) -> None:
    """Rules need versioning. Whether there are some is looked at when the bucket is locked, so that none are put
    meanwhile."""
    if exchange.parsed != Versioning.ENABLED:
        admission.before_commit = lambda: _refuse_with_rules(exchange.gateway, admission)


async def _refuse_with_rules(gateway: Gateway, admission: Admission) -> None:
    assert admission.bucket is not None
    if await gateway.loop.run_in_executor(None, gateway.tables.get, REPLICATION + admission.bucket.uid) is not None:
        raise S3Error(
            "InvalidBucketState",
            "A replication configuration is present on this bucket, so the versioning state cannot be changed. "
            "Delete the replication configuration first.",
            fields={"BucketName": admission.bucket_name},
        )


def _sites(gateway: Gateway) -> Mapping[str, Location]:
    return {location.name: location for location in locations_in(gateway.tables, gateway.settings.locations)}


def _check_destinations(gateway: Gateway, pool: str, rules: ReplicationRules, sites: Mapping[str, Location]) -> None:
    """Whose they are is told first: of another pool's buckets nobody learns anything."""
    for host, name in _places(rules, sites):
        if is_anothers(gateway.tables, host, name, pool):
            raise _anothers(name)

    def opened(site: str) -> Store:
        return open_location(*gateway.locations.with_secret(site), timeout=_SITE_SECONDS)

    for name, why in unfit_in(destinations_of(rules.rules), opened).items():
        raise S3Error("InvalidRequest", why, fields={"BucketName": name})


def _places(rules: ReplicationRules, sites: Mapping[str, Location]) -> set[tuple[str, str]]:
    """The host and the bucket of every destination."""
    return {(sites[site].host, bucket) for site, buckets in destinations_of(rules.rules).items() for bucket in buckets}


def _anothers(bucket: str) -> S3Error:
    return S3Error("AccessDenied", f"The bucket {bucket} at that site is a destination of another pool.")
