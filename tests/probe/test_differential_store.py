"""After odd requests a real store holds what the metadata log says, in the buckets of both tenants."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from backend_reading import Meaning
from botocore.exceptions import ClientError
from differential import Connection, shortened
from gateway_reading import admitted
from odd_examples import examples
from odd_parts import KEYS
from odd_requests import Maker
from odd_world import DIRECT_DOMAIN, DOMAIN, Sender, Sent, World, lane_buckets, lane_names, spare_buckets
from replayed import compare, direct_client, wait_until_healed
from requests_on_the_wire import Signer
from running_service import PoolKey, RunningService

COUNT = int(os.environ.get("DIFFERENTIAL_STORE_REQUESTS", "600"))
FIRST_SEED = int(os.environ.get("DIFFERENTIAL_SEED", "0"))
BATCH = 100  # after so many requests store and log are compared, so that a difference has few suspects
# SeaweedFS keeps at most 255 bytes between two slashes: it refuses a longer name, or lists it without a latest version.
LONG_NAME = re.compile(rb"([a-z])\1{255}")
VERSIONED, LOCKED = "lane0-public", "lane0.dotted.name"
Answered = tuple[Sent, Meaning | None, int]


@pytest.mark.timeout(600 + COUNT)
def test_a_store_holds_what_the_log_says_after_odd_requests(make_service: Callable[..., RunningService]) -> None:
    service = make_service(
        gateway__processes=1, gateway__domains=json.dumps([DOMAIN]), gateway__direct_domain=DIRECT_DOMAIN
    )
    tenants = [service.create_pool(name, "--direct-hostname", name) for name in lane_names(0)]
    world = _world(service, tenants)
    maker = Maker(world)
    held: set[tuple[str, str]] = set()
    changed = 0
    made = (maker.make(seed) for seed in range(FIRST_SEED, FIRST_SEED + COUNT))
    odd = [*examples(world), *(sent for sent in made if not LONG_NAME.search(sent.request.raw()))]
    for batch in (odd[first : first + BATCH] for first in range(0, len(odd), BATCH)):
        answered = asyncio.run(_send(service, batch))
        held |= {(meaning.bucket, meaning.key) for sent, meaning, _ in answered if meaning and _holds(sent, meaning)}
        changed += sum(
            status < 300 and meaning is not None and meaning.effect == "write" for _, meaning, status in answered
        )
        try:
            _check(service, tenants, held)
        except AssertionError as difference:
            raise AssertionError(f"{difference}\n\nafter one of:\n{_told(answered)}") from None
    assert changed > COUNT // 50  # or else there was nothing to compare


def _world(service: RunningService, tenants: list[PoolKey]) -> World:
    buckets = lane_buckets(0)
    clients = {tenant.pool: service.s3(tenant) for tenant in tenants}
    for bucket in buckets.values():
        clients[bucket.pool].create_bucket(Bucket=bucket.name, ObjectLockEnabledForBucket=bucket.name == LOCKED)
        service.cli("bucket", "policy", bucket.name, bucket.policy)
    own = clients[tenants[0].pool]
    own.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    for name in ("lane0-mine", VERSIONED, LOCKED):
        for key in ("k", *(key.decode() for key in KEYS[:12])):
            own.put_object(Bucket=name, Key=key, Body=key.encode())
    uploads = [own.create_multipart_upload(Bucket=name, Key="k1")["UploadId"] for name in ("lane0-mine", VERSIONED)]
    return World(
        authority=urlsplit(service.s3_url).netloc.encode(),
        own=tenants[0].pool,
        other=tenants[1].pool,
        buckets=buckets,
        spare=spare_buckets(0),
        senders=_senders(service, tenants[0]),
        direct_names=tuple(tenant.pool for tenant in tenants),
        upload_ids=tuple(uploads),
    )


def _senders(service: RunningService, tenant: PoolKey) -> tuple[Sender, ...]:
    own = Sender("readwrite", tenant.pool, Signer(tenant.access_key, tenant.secret_key), reads=True, writes=True)
    writer = service.create_key(tenant.pool, "--policy", "writeonly")
    reader = service.create_key(tenant.pool, "--policy", "readonly")
    return (
        own,
        own,
        own,
        Sender("writeonly", tenant.pool, Signer(writer.access_key, writer.secret_key), writes=True),
        Sender("readonly", tenant.pool, Signer(reader.access_key, reader.secret_key), reads=True),
        Sender("anonymous", "", None),
    )


async def _send(service: RunningService, batch: list[Sent]) -> list[Answered]:
    address = urlsplit(service.s3_url)
    connection = Connection(str(address.hostname), address.port or 0)
    answered = []
    for sent in batch:
        reply = await connection.ask(sent.request.raw(), is_head=sent.request.method == b"HEAD")
        meaning = admitted(sent.head(), domains=(DOMAIN,), direct_domain=DIRECT_DOMAIN)
        answered.append((sent, meaning, reply.status))
    connection.close()
    return answered


def _holds(sent: Sent, meaning: Meaning) -> bool:
    """Whether the request may have locked an object, as far as the gateway knows."""
    if meaning.operation in ("PutObjectRetention", "PutObjectLegalHold"):
        return True
    return any(name.lower().startswith(b"x-amz-object-lock-") for name, _ in sent.request.headers)


def _check(service: RunningService, tenants: list[PoolKey], held: set[tuple[str, str]]) -> None:
    wait_until_healed(service)
    for tenant in tenants:
        direct = direct_client(service, tenant)
        names = sorted(bucket["name"] for bucket in service.cli("bucket", "list", "--pool", tenant.pool))
        there = sorted(bucket["Name"] for bucket in direct.list_buckets()["Buckets"])
        assert there == names, f"{tenant.pool}: the store has the buckets {there}, the gateway knows {names}"
        compare(service, tenant, names)
        if LOCKED in names:
            _check_locks(direct, held)


def _check_locks(direct: Any, held: set[tuple[str, str]]) -> None:
    """Locks are in no event: where nobody asked for one, there is none."""
    for page in direct.get_paginator("list_object_versions").paginate(Bucket=LOCKED):
        for entry in page.get("Versions", ()):
            if (LOCKED, entry["Key"]) in held:
                continue
            named = {"Bucket": LOCKED, "Key": entry["Key"], "VersionId": entry["VersionId"]}
            locks = [_asked(direct.get_object_retention, named), _asked(direct.get_object_legal_hold, named)]
            assert "GOVERNANCE" not in locks and "ON" not in locks, f"{named}: nobody asked for {locks}"


def _asked(ask: Any, named: dict[str, str]) -> str:
    try:
        answer = ask(**named)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return str(answer.get("Retention", {}).get("Mode") or answer.get("LegalHold", {}).get("Status"))


def _told(answered: list[Answered]) -> str:
    """The requests of a batch that may have changed something."""
    return "\n".join(
        f"seed {sent.seed} ({', '.join(sent.recipe)}), {status}: {shortened(sent.request.raw())}\n  admitted: {meaning}"
        for sent, meaning, status in answered
        if (status < 300 or status >= 500) and sent.request.method not in (b"GET", b"HEAD")
    )
