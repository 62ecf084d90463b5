"""One of two sites is down for a while under the load of sixteen clients. The other one keeps up; what fails is listed,
and one request brings it over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from move_ledger import wait_until
from replication_ledger import ReplicationLedger
from running_service import RunningService
from second_store import SecondStore

CLIENTS = 16
# Before the site goes, while it is away, and when it is back.
WRITES_OF_A_CLIENT = 12
BUCKET = "written"


def test_what_failed_while_a_site_was_down_is_listed_and_one_request_brings_it_over(
    make_service: Callable[..., RunningService], make_store: Callable[..., SecondStore]
) -> None:
    service = make_service(
        lifecycle__enabled=False,
        deletion__record_seconds=1,
        deletion__reconsume_seconds=1,
        replication__retry_seconds=[0.2, 0.5],
    )
    stores = {"north": make_store(), "south": make_store()}
    ledger = ReplicationLedger(service, service.create_pool("written"), stores)
    ledger.make_bucket(BUCKET)
    is_away = threading.Event()
    written: list[tuple[str, str, int]] = []

    def write(client: int) -> None:
        for number in range(WRITES_OF_A_CLIENT):
            if number == WRITES_OF_A_CLIENT // 3:
                is_away.wait()
            key, body = f"client {client:02}/{number % 4}:é", b"x" * (100 * client + number)
            made = ledger.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
            written.append((key, made["VersionId"], len(body)))

    with ThreadPoolExecutor(CLIENTS) as clients:
        writing = [clients.submit(write, number) for number in range(CLIENTS)]
        ledger.wait_until_arrived(BUCKET)
        stores["south"].stop()
        is_away.set()
        for each in writing:
            each.result()
    # The one that is there has everything while the other one is away.
    count = CLIENTS * WRITES_OF_A_CLIENT
    wait_until(lambda: ledger.counts(BUCKET).get("north") == (0, count, 0), lambda: str(ledger.counts(BUCKET)))
    wait_until(lambda: ledger.counts(BUCKET)["south"][0] == 0, lambda: str(ledger.counts(BUCKET)))
    pending, completed, failed = ledger.counts(BUCKET)["south"]
    assert (pending, completed + failed) == (0, count)
    assert failed
    wait_until(lambda: len(listed(service)) == failed, lambda: f"{len(listed(service))} listed, {failed} failed")
    failures = listed(service)
    sizes = {(key, version_id): size for key, version_id, size in written}
    for each in failures:
        assert set(each) == {"Bucket", "Key", "VersionId", "StorageClass", "Size", "LastModified"}
        assert (each["Bucket"], each["StorageClass"]) == (BUCKET, "south")
        assert each["Size"] == sizes[each["Key"], each["VersionId"]]
        head = ledger.s3.head_object(Bucket=BUCKET, Key=each["Key"], VersionId=each["VersionId"])
        assert head["ReplicationStatus"] == "FAILED"
    stores["south"].start()
    wanted = [{name: each[name] for name in ("Bucket", "Key", "VersionId", "StorageClass")} for each in failures]
    with service.api() as api:
        retried = api.post("/_/crr/failed", json=wanted).raise_for_status().json()
    assert sorted(retried, key=str) == sorted(({**each, "ReplicationStatus": "PENDING"} for each in failures), key=str)
    ledger.wait_for_counts(BUCKET, dict.fromkeys(stores, (0, count, 0)))
    assert listed(service) == []
    for key, version_id, _ in written:
        head = ledger.s3.head_object(Bucket=BUCKET, Key=key, VersionId=version_id)
        assert head["ReplicationStatus"] == "COMPLETED"
    ledger.assert_verified(BUCKET)
    ledger.assert_alike(BUCKET)


def listed(service: RunningService) -> list[dict[str, Any]]:
    """All pages of the list of failures."""
    found: list[dict[str, Any]] = []
    marker = ""
    with service.api() as api:
        while True:
            page = api.get("/_/crr/failed", params={"marker": marker} if marker else {}).raise_for_status().json()
            found += page["Versions"]
            if not page["IsTruncated"]:
                return found
            marker = page["NextMarker"]
