"""`python -m bench.movement.deletion`: data in a location deleted by the deletion service, beside bare DeleteObjects.

The data lies in the location as copies do, with the headers that say whose it is. A pending delete is sent for each
piece; the service checks that no record refers to the data and that it is what the message says, deletes it, and writes
a record of it. The seconds count from the first message that is sent to the last that is acknowledged. The bare client
has eight threads that delete a thousand keys at a time in the same store. Rounds alternate; what is shown are medians.
"""

from __future__ import annotations

import json
import statistics
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import click

from bench.goals import word
from bench.lifecycle.service_parts import cpu_between, cpu_used
from bench.movement.stores import LOCATION, LOCATION_BUCKET, Stores, client, put_objects, running_stores
from tidegate.core.pending_deletes import Component, DataType, PendingDelete, owner_metadata
from tidegate.movement.pending_deletes import send_pending
from tidegate.movement.topics import DELETION_GROUP

GOAL = 0.8
_BYTES = 1 << 10
_THREADS, _KEYS_AT_ONCE = 8, 1000
_POLL_SECONDS = 0.02


@dataclass(slots=True)
class Figures:
    """Seconds for all objects, and the CPU seconds of the service's parts; one for each round."""

    objects: int
    service: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.bare) / statistics.median(self.service)


def run(objects: int = 10_000, rounds: int = 2, *, as_json: bool = False) -> None:
    found = Figures(objects)
    with running_stores() as stores:
        _delete_by_service(stores, Figures(100), "warm-up")
        for number in range(rounds):
            _delete_by_service(stores, found, f"service-{number}")
            _delete_barely(stores, found, f"bare-{number}")
    print(_json(found) if as_json else _table(found))


@click.command()
@click.option("--objects", default=10_000, help="Pieces of data to delete in each round.")
@click.option("--rounds", default=2, help="How often each way is measured.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def main(objects: int, rounds: int, as_json: bool) -> None:
    """Deletes per second in a location, by the deletion service and by bare DeleteObjects."""
    run(objects, rounds, as_json=as_json)


def _delete_by_service(stores: Stores, found: Figures, name: str) -> None:
    pendings = _stored(stores, name, found.objects)
    topic = stores.settings.deletion.topic
    with stores.state() as (_, topics):
        used, began = cpu_used(stores.service.data), time.monotonic()
        if len(send_pending(topics, topic, pendings)) != len(pendings):
            raise SystemExit("pending deletes could not be sent")
        while topics.lag(topic, DELETION_GROUP):
            time.sleep(_POLL_SECONDS)
        found.service.append(time.monotonic() - began)
        found.cpu.append(cpu_between(used, cpu_used(stores.service.data)))
    _check_empty(stores, f"moved/{name}/")


def _stored(stores: Stores, name: str, count: int) -> list[PendingDelete]:
    """Data in the location, and the pending deletes that are right for it."""
    owners = [
        {"pool": name, "bucket": "photos", "bucket_uid": name, "key": f"key-{number}", "version_id": "null"}
        for number in range(count)
    ]
    keys = [f"moved/{name}/{uuid.uuid4().hex}" for _ in owners]
    headers = {key: owner_metadata(Component.PLACEMENT, **owner) for key, owner in zip(keys, owners, strict=True)}
    etag = put_objects(stores.location, LOCATION_BUCKET, keys, _BYTES, stores.home / "body", headers=headers)
    return [
        PendingDelete(
            component=Component.PLACEMENT,
            data_type=DataType.LOCATION,
            sent_ns=time.time_ns(),
            location=LOCATION,
            data_key=key,
            etag=etag,
            **owner,
        )
        for key, owner in zip(keys, owners, strict=True)
    ]


def _delete_barely(stores: Stores, found: Figures, name: str) -> None:
    keys = [pending.data_key for pending in _stored(stores, name, found.objects)]
    store = client(stores.location)

    def delete(start: int) -> None:
        part = [{"Key": key} for key in keys[start : start + _KEYS_AT_ONCE]]
        store.delete_objects(Bucket=LOCATION_BUCKET, Delete={"Objects": part})

    began = time.monotonic()
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(delete, range(0, len(keys), _KEYS_AT_ONCE)))
    found.bare.append(time.monotonic() - began)
    _check_empty(stores, f"moved/{name}/")


def _check_empty(stores: Stores, prefix: str) -> None:
    left = client(stores.location).list_objects_v2(Bucket=LOCATION_BUCKET, Prefix=prefix)["KeyCount"]
    if left:
        raise SystemExit(f"{left} objects or more are left under {prefix}")


def _table(found: Figures) -> str:
    ways = {"bare DeleteObjects, 8 threads": found.bare, "deletion service": found.service}
    lines = [f"{'':<32} {'seconds':>8} {'deletes/s':>10}", "-" * 52]
    for name, rounds in ways.items():
        seconds = statistics.median(rounds)
        lines.append(f"{name:<32} {seconds:8.1f} {found.objects / seconds:10,.0f}")
    parts = {part: statistics.median(used.get(part, 0.0) for used in found.cpu) for part in found.cpu[0]}
    used = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
    goal = f"goal {GOAL} of bare deletes: {found.ratio:.2f}, {word(found.ratio >= GOAL)}"
    return "\n".join([*lines, "", f"CPU seconds of the service: {used}", f"{found.objects:,} objects; {goal}"])


def _json(found: Figures) -> str:
    figures = {"objects": found.objects, "service": found.service, "bare": found.bare, "cpu": found.cpu}
    return json.dumps({**figures, "ratio": found.ratio, "goal": GOAL}, indent=2)


if __name__ == "__main__":
    main()
