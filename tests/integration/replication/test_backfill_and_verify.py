"""Backfills and verifications of a bucket with two real stores as sites."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from metadata_log import settings_of
from move_ledger import wait_until
from replication_ledger import ReplicationLedger
from running_service import RunningService
from second_store import SecondStore

from tidegate.assembly import open_tables
from tidegate.core.records import Bucket
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status

SITES = ("north", "south")
PROCESS = "tidegate.jobs.serve"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory, second_store: SecondStore) -> Iterator[ReplicationLedger]:
    settings = {
        "lifecycle.enabled": "false",
        "gateway.processes": 1,
        "replication.retry_seconds": [0.2, 0.5, 1.0, 2.0],
        "deletion.record_seconds": 1,
        "deletion.reconsume_seconds": 1,
    }
    running = RunningService(tmp_path_factory.mktemp("backfilled") / "data", settings).start()
    other = SecondStore(tmp_path_factory.mktemp("south")).start()
    try:
        key = running.create_pool("replicated")
        yield ReplicationLedger(running, key, dict(zip(SITES, (second_store, other), strict=True)))
    finally:
        running.end()
        other.stop()


def fill(ledger: ReplicationLedger, bucket: str) -> int:
    """Versions on top of each other within a second, markers among them, tags, parts, odd names; says how many."""
    s3, count = ledger.s3, 0
    for name in ("a", "a-1", "a/1", "a.b/é ü", "z\n"):
        for body in (b"one", b"two", b"three"):
            s3.put_object(Bucket=bucket, Key=name, Body=body * 10, Metadata={"of": name.encode().hex()})
            count += 1
        if name != "a-1":
            s3.delete_object(Bucket=bucket, Key=name)
            s3.put_object(Bucket=bucket, Key=name, Body=b"again", ContentType="text/plain", Tagging="kind=last&x=y%20z")
            count += 2
    upload = s3.create_multipart_upload(Bucket=bucket, Key="large")
    named = {"Bucket": bucket, "Key": "large", "UploadId": upload["UploadId"]}
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**named, PartNumber=number, Body=body)["ETag"]}
        for number, body in enumerate((b"x" * (5 << 20), b"y" * 1000), 1)
    ]
    s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    return count + 1


def test_existing_versions_are_queued_by_command_and_arrive_in_their_order_at_all_sites(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("existing")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies, rules=None)
    count = fill(ledger, bucket)
    ledger.put_rules(bucket, [ledger.rule(copies=copies, existing=True)])
    assert ledger.verify(bucket) == (2 * count, 0, 0)
    dry = ledger.job("backfill", bucket, dry_run=True)
    assert (dry["queued"], dry["missing"], dry["present"]) == (0, 2 * count, 0)
    assert len(dry["first_missing"]) == 20
    assert ledger.counts(bucket) == dict.fromkeys(SITES, (0, 0, 0))
    found = ledger.job("backfill", bucket, site="north")
    assert (found["queued"], found["missing"], found["sites"]) == (count, count, ["north"])
    ledger.wait_for_counts(bucket, {"north": (0, count, 0), "south": (0, 0, 0)})
    assert ledger.verify(bucket, site="north") == (0, 0, 0)
    printed = ledger.service.run_cli("replication", "backfill", bucket, "--wait").stdout.splitlines()
    assert printed[0].startswith(f"queued: {count} (")
    assert printed[1] == f"present: {count}"
    assert ledger.counts(bucket) == dict.fromkeys(SITES, (0, count, 0))
    ledger.assert_verified(bucket)
    ledger.assert_alike(bucket, copies=copies)
    again = ledger.job("backfill", bucket)
    assert (again["queued"], again["present"]) == (0, 2 * count)


def test_versions_older_than_a_rule_that_is_not_for_them_are_left_alone(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("older")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies, rules=None)
    count = fill(ledger, bucket)
    ledger.put_rules(bucket, [ledger.rule(copies=copies)])
    found = ledger.job("backfill", bucket)
    assert (found["queued"], found["older"], found["compared"]) == (0, count, 0)
    assert ledger.verify(bucket) == (0, 0, 0)


def test_what_is_lost_changed_or_put_at_a_site_is_told_and_a_backfill_brings_back_what_is_lost(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("damaged")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies)
    for key in ("lost", "kept", "hidden"):
        for body in (b"old", b"new"):
            ledger.s3.put_object(Bucket=bucket, Key=key, Body=body)
    ledger.s3.delete_object(Bucket=bucket, Key="hidden")
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, 7, 0)))
    ledger.assert_verified(bucket)
    south = ledger.sites["south"].client()
    listed = south.list_object_versions(Bucket=copies, Prefix="lost")["Versions"]
    newest, oldest = (next(each for each in listed if each["IsLatest"] is latest) for latest in (True, False))
    south.delete_object(Bucket=copies, Key="lost", VersionId=oldest["VersionId"])
    marker = south.list_object_versions(Bucket=copies, Prefix="hidden")["DeleteMarkers"][0]
    south.delete_object(Bucket=copies, Key="hidden", VersionId=marker["VersionId"])
    south.put_object(Bucket=copies, Key="kept", Body=b"put by hand")
    south.put_object(Bucket=copies, Key="the site's own", Body=b"own")
    found = ledger.job("verify", bucket)
    assert (found["missing"], found["different"], found["extra"], found["pending"]) == (2, 0, 2, 0)
    assert {(each["site"], each["key"], each["lack"]) for each in found["first_missing"]} == {
        ("south", "lost", "no copy"),
        ("south", "hidden", "no copy"),
    }
    assert {each["key"] for each in found["first_extra"]} == {"kept", "the site's own"}
    shown = ledger.service.run_cli("replication", "verify", bucket, "--site", "south", "--show").stdout
    assert "missing: 2\ndifferent: 0\nextra: 2\n" in shown
    assert "the site's own" in shown
    back = ledger.job("backfill", bucket)
    assert (back["queued"], back["present"]) == (2, 12)
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, 7, 0)))
    for each in south.list_object_versions(Bucket=copies)["Versions"]:
        if each["Key"] in ("kept", "the site's own") and each["IsLatest"]:
            south.delete_object(Bucket=copies, Key=each["Key"], VersionId=each["VersionId"])
    ledger.assert_verified(bucket)
    ledger.assert_alike(bucket, copies=copies)
    assert newest["VersionId"] not in {
        each["VersionId"] for each in south.list_object_versions(Bucket=copies, Prefix="lost")["Versions"]
    }


def test_what_lies_in_the_former_bucket_of_a_rule_is_put_into_the_new_one_in_its_order(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("rebound")
    former, copies = f"{bucket}-former", f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=former)
    count = fill(ledger, bucket)
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, count, 0)))
    for store in ledger.sites.values():
        store.client().create_bucket(Bucket=copies)
        store.client().put_bucket_versioning(Bucket=copies, VersioningConfiguration={"Status": "Enabled"})
    ledger.put_rules(bucket, [ledger.rule(copies=copies, existing=True)])
    found = ledger.job("backfill", bucket)
    assert (found["queued"], found["present"]) == (2 * count, 0)
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, count, 0)))
    ledger.assert_verified(bucket)
    ledger.assert_alike(bucket, copies=copies)
    ledger.assert_alike(bucket, copies=former)


def test_a_bucket_that_is_gone_from_a_site_has_nothing(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("removed")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies)
    ledger.s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, 1, 0)))
    north = ledger.sites["north"].client()
    for each in north.list_object_versions(Bucket=copies)["Versions"]:
        north.delete_object(Bucket=copies, Key="k", VersionId=each["VersionId"])
    north.delete_bucket(Bucket=copies)
    found = ledger.job("verify", bucket)
    assert [(each["site"], each["lack"]) for each in found["first_missing"]] == [("north", "no copy")]


def test_a_version_that_is_pending_for_longer_than_it_can_be_tried_is_queued_again(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("forgotten")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies, rules=None)
    ledger.put_rules(bucket, [ledger.rule(copies=copies, prefix="elsewhere/")])
    version = ledger.s3.put_object(Bucket=bucket, Key="k", Body=b"data")["VersionId"]
    states = tuple(
        SiteState(site, copies, Status.PENDING, time.time() - age) for site, age in zip(SITES, (600, 1), strict=True)
    )
    with closing(open_tables(settings_of(ledger.service), ledger.service.data)) as tables:
        uid = Bucket.from_json(tables.get(Bucket.PREFIX + bucket) or "").uid
        record = ReplicationRecord(
            ledger.key.pool, bucket, uid, "k", version, time.time_ns(), 1.0, size=4, sites=states
        )
        tables.change({record.entry: record.to_json(), **record.open_entries()})
    ledger.put_rules(bucket, [ledger.rule(copies=copies)])
    found = ledger.job("backfill", bucket)
    assert (found["queued"], found["present"]) == (1, 1)
    ledger.wait_for_counts(bucket, {"north": (0, 1, 0), "south": (1, 0, 0)})


def test_jobs_share_a_process_and_one_that_is_killed_fails_and_holds_up_no_other(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("killed")
    copies = f"{bucket}-copies"
    ledger.make_bucket(bucket, copies=copies)
    ledger.s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    ledger.wait_for_counts(bucket, dict.fromkeys(SITES, (0, 1, 0)))
    ledger.assert_verified(bucket)
    processes = ledger.service.pids_of(PROCESS)
    assert ledger.verify(bucket) == (0, 0, 0)
    assert ledger.service.pids_of(PROCESS) == processes
    for kill_idle in (True, False):
        [pid] = ledger.service.pids_of(PROCESS)
        if kill_idle:
            os.kill(pid, signal.SIGKILL)
        else:
            with ledger.service.api() as api:
                asked = api.post("/api/v1/replication/jobs", json={"kind": "verify", "bucket": bucket}).json()
                where = f"/api/v1/replication/jobs/{asked['id']}"
                wait_until(lambda where=where: api.get(where).json()["status"] == "running", lambda: "it never ran")
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda where=where: api.get(where).json()["status"] == "failed", lambda: "it never failed")
                assert "ended with code -9" in api.get(where).json()["problem"]
        assert ledger.verify(bucket) == (0, 0, 0)


def test_jobs_are_refused_where_there_is_nothing_to_compare(
    ledger: ReplicationLedger, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("plain")
    ledger.s3.create_bucket(Bucket=bucket)
    with ledger.service.api() as api:
        where = "/api/v1/replication/jobs"
        assert api.post(where, json={"kind": "verify", "bucket": "nowhere"}).status_code == 404
        assert api.post(where, json={"kind": "verify", "bucket": bucket}).status_code == 400
        assert api.post(where, json={"kind": "other", "bucket": bucket}).status_code == 422
        assert api.get(f"{where}/none").status_code == 404
    assert "no replication rule" in ledger.service.run_cli("replication", "verify", bucket).stderr
    ruled = fresh_name("ruled")
    ledger.make_bucket(
        ruled, copies=f"{bucket}-copies", rules=[ledger.rule(sites=["north"], copies=f"{bucket}-copies")]
    )
    done = ledger.service.run_cli("replication", "backfill", ruled, "--site", "south")
    assert done.returncode == 1
    assert "names the site 'south'" in done.stderr
