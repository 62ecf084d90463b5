"""The second phase against a real store: what is deleted, what is left alone, and what is told of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from deletion_place import DeletionPlace, metric
from deletion_store import DeletionStore

from tidegate.assembly import open_location
from tidegate.core.copies import entry_of as copy_entry
from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.pending_deletes import Component, PendingDelete, owner_metadata
from tidegate.core.trash import TrashRecord
from tidegate.movement.locations import Locations
from tidegate.pools.vault import Vault

MakePlace = Callable[..., DeletionPlace]

# Too long for a header once it is quoted.
LONG_KEY = "/".join(["é" * 100] * 3)


def changed(pending: PendingDelete, **fields: object) -> PendingDelete:
    return msgspec.structs.replace(pending, **fields)


def owner_headers(pending: PendingDelete) -> dict[str, str]:
    """Metadata with which data says that it is what the message names."""
    names = ("pool", "bucket", "bucket_uid", "key", "version_id")
    metadata = owner_metadata(pending.component, **{name: getattr(pending, name) for name in names})
    return {name.removeprefix("x-amz-meta-"): value for name, value in metadata.items()}


def open_uploads(place: DeletionPlace, data_key: str) -> set[str]:
    listed = place.store.client().list_multipart_uploads(Bucket=place.store.bucket, Prefix=data_key)
    return {upload["UploadId"] for upload in listed.get("Uploads", [])}


def test_data_that_nobody_refers_to_is_deleted_and_the_delete_is_counted_and_recorded(place: DeletionPlace) -> None:
    before = [metric("sent", data="location"), metric("deleted", data="location")]
    before += [metric("received"), metric("acknowledged")]
    pending, other = place.put(), place.put("other")
    place.send(pending)
    assert place.desk().status().in_flight == 1
    place.finish()
    assert not place.holds(pending) and place.holds(other)
    (record,) = place.records()
    assert (record.outcome, record.bucket, record.key, record.location) == ("deleted", "photos", "key", "cold")
    assert (record.data_key, record.etag, bool(record.worker)) == (pending.data_key, pending.etag, True)
    after = [metric("sent", data="location"), metric("deleted", data="location")]
    after += [metric("received"), metric("acknowledged")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1, 1]
    assert place.desk().status().in_flight == 0


def test_many_deletes_go_together_and_each_is_told(place: DeletionPlace) -> None:
    good = [place.put(f"key-{number}") for number in range(20)]
    stale = changed(place.put("stale"), etag="0" * 32)
    place.send(*good[:10], stale, *good[10:])
    place.finish()
    assert not any(map(place.holds, good)) and place.holds(stale)
    assert sorted(place.outcomes()) == ["deleted"] * 20 + ["not-matched"]


@pytest.mark.parametrize("field", ["pool", "bucket", "bucket_uid", "key", "version_id", "component"])
def test_a_forged_message_for_data_of_another_owner_is_ignored(place: DeletionPlace, field: str) -> None:
    before = metric("not_deleted", outcome="not-matched")
    owned = place.put()
    place.send(changed(owned, **{field: Component.UPLOAD if field == "component" else "another"}))
    place.finish()
    assert place.holds(owned)
    assert place.outcomes() == ["not-matched"]
    assert metric("not_deleted", outcome="not-matched") == before + 1


def test_a_forged_message_does_not_hide_the_record_that_refers_to_the_data(place: DeletionPlace) -> None:
    owned = place.put()
    place.place(owned)
    place.send(changed(owned, key="another"), changed(owned, version_id="another"))
    place.finish()
    assert place.holds(owned)
    assert sorted(place.outcomes()) == ["in-use", "not-matched"]


@pytest.mark.parametrize("is_trash", [False, True])
def test_a_message_that_tells_a_key_by_its_hash_finds_the_record_that_refers_to_the_data(
    place: DeletionPlace, is_trash: bool
) -> None:
    long, orphan = place.put(LONG_KEY), place.put(LONG_KEY + "2")
    if is_trash:
        kept(place, long, until=time.time() + 600)
    else:
        place.place(long)
    told_by_hash = [changed(each, key=f"sha256:{sha256(each.key.encode()).hexdigest()}") for each in (long, orphan)]
    place.send(*told_by_hash)
    place.finish()
    assert place.holds(long) and not place.holds(orphan)
    assert sorted(place.outcomes()) == ["deleted", "in-use"]


def test_a_message_that_tells_the_key_of_a_replica_by_its_hash_is_ignored(place: DeletionPlace) -> None:
    key = LONG_KEY
    client, bucket = place.store.client(), place.store.bucket
    replica = changed(place.put(key), component=Component.REPLICA, data_key=key, data_bucket=bucket)
    client.put_object(Bucket=bucket, Key=key, Body=b"data", Metadata=owner_headers(replica))
    by_hash = changed(replica, key=f"sha256:{sha256(key.encode()).hexdigest()}", data_version_id="null")
    place.send(by_hash)
    place.finish()
    assert place.holds(replica) and place.outcomes() == ["not-matched"]


def test_a_stale_message_for_data_with_another_etag_is_ignored(place: DeletionPlace) -> None:
    before = metric("not_deleted", outcome="not-matched")
    stale = changed(place.put(), etag="0" * 32)
    place.send(stale)
    place.finish()
    assert place.holds(stale)
    assert place.outcomes() == ["not-matched"]
    assert metric("not_deleted", outcome="not-matched") == before + 1


def test_data_that_a_placement_refers_to_is_left_alone(place: DeletionPlace) -> None:
    before = metric("not_deleted", outcome="in-use")
    pending = place.put()
    place.place(pending)
    place.send(pending)
    place.finish()
    assert place.holds(pending)
    assert place.outcomes() == ["in-use"]
    assert metric("not_deleted", outcome="in-use") == before + 1


def test_a_copy_that_is_being_made_is_left_alone(place: DeletionPlace) -> None:
    pending = place.put()
    place.tables.put(copy_entry("cold", pending.data_key), "null")
    place.send(pending)
    place.finish()
    assert place.holds(pending) and place.outcomes() == ["in-use"]


def test_a_placement_of_other_data_of_the_key_does_not_keep_it(place: DeletionPlace) -> None:
    old, new = place.put(), place.put()
    place.place(new)
    place.send(old)
    place.finish()
    assert not place.holds(old) and place.holds(new)


def test_data_that_leaves_its_record_just_after_it_was_sent_is_deleted(make_place: MakePlace) -> None:
    place = make_place(record_seconds=600, max_retries=0)
    pending = place.put()
    placement = place.place(pending)
    place.send(pending)
    worker = place.worker()
    assert worker.run_once(1.0) == 1
    assert place.holds(pending) and place.records() == []
    assert place.desk().status().retrying == 1
    place.tables.delete(placement.entry)
    while not place.records():
        worker.run_once(1.0)
    assert not place.holds(pending) and place.outcomes() == ["deleted"]


@pytest.mark.parametrize("field", ["bucket", "data_key", "location", "component", "pool"])
def test_a_message_that_lacks_a_field_is_ignored(place: DeletionPlace, field: str) -> None:
    before = metric("not_deleted", outcome="incomplete")
    pending = place.put()
    values = json.loads(pending.to_bytes())
    del values[field]
    place.send_raw(json.dumps(values).encode())
    place.finish()
    assert place.holds(pending)
    assert place.outcomes() == ["incomplete"]
    assert field in place.records()[0].detail
    assert metric("not_deleted", outcome="incomplete") == before + 1


@pytest.mark.parametrize("field", ["bucket", "bucket_uid", "key", "data_key", "location", "pool"])
def test_a_message_with_an_empty_field_is_ignored(place: DeletionPlace, field: str) -> None:
    pending = place.put()
    place.send(changed(pending, **{field: ""}))
    place.finish()
    assert place.holds(pending) and place.outcomes() == ["incomplete"]


def test_a_message_that_is_none_becomes_a_dead_letter_and_holds_up_nothing(place: DeletionPlace) -> None:
    pending = place.put()
    place.send_raw(b"nonsense")
    place.send(pending)
    place.finish()
    assert not place.holds(pending)
    (letter,) = place.desk().dead(count=10)
    assert "pending delete" in letter.reason and letter.message == {"text": "nonsense"}


def test_missing_data_is_a_success(place: DeletionPlace) -> None:
    before = metric("not_deleted", outcome="not-there")
    pending = changed(place.put(), data_key="tide/pool/uid/missing")
    place.send(pending)
    place.finish()
    assert place.outcomes() == ["not-there"]
    assert metric("not_deleted", outcome="not-there") == before + 1


@pytest.mark.parametrize("batches", [1, 2])
def test_the_same_message_twice_deletes_once(place: DeletionPlace, batches: int) -> None:
    pending = place.put()
    place.send(pending)
    if batches == 2:
        place.finish()
    place.send(pending)
    place.finish()
    assert not place.holds(pending)
    assert place.outcomes() == ["deleted", "not-there"]


def test_believed_data_is_deleted_without_a_look_at_whose_it_is(place: DeletionPlace) -> None:
    pending = place.put()
    place.store.client().put_object(Bucket=place.store.bucket, Key=pending.data_key, Body=b"without an owner")
    believed = changed(pending, etag="")
    place.believed.add(believed)
    place.send(believed)
    place.finish()
    assert not place.holds(pending) and place.outcomes() == ["deleted"]
    assert believed not in place.believed


@pytest.mark.parametrize("is_believed", [True, False])
def test_nothing_is_left_below_a_marker_where_the_bucket_has_versions(place: DeletionPlace, is_believed: bool) -> None:
    client, bucket, pending = place.store.client(), f"versions-{is_believed}".lower(), place.put()
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.put_object(Bucket=bucket, Key=pending.data_key, Body=b"data", Metadata=owner_headers(pending))
    place.locations._bucket = bucket
    if is_believed:
        place.believed.add(pending)
    place.send(pending)
    place.finish()
    listed = client.list_object_versions(Bucket=bucket)
    assert place.outcomes() == ["deleted"]
    assert listed.get("Versions", []) == [] and listed.get("DeleteMarkers", []) == []


def test_an_upload_that_was_not_completed_is_aborted(place: DeletionPlace) -> None:
    client, bucket = place.store.client(), place.store.bucket
    data_key = "tide/pool/uid/upload"
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=data_key)["UploadId"]
    client.upload_part(Bucket=bucket, Key=data_key, UploadId=upload_id, PartNumber=1, Body=b"part")
    pending = changed(place.put(), data_key=data_key, upload_id=upload_id)
    place.send(pending)
    place.finish()
    assert open_uploads(place, data_key) == set()
    assert place.outcomes() == ["deleted"]


def test_an_upload_that_a_killed_mover_did_not_note_down_is_aborted(place: DeletionPlace) -> None:
    client, bucket = place.store.client(), place.store.bucket
    forgotten, others = "tide/pool/uid/forgotten", "tide/pool/uid/forgotten-by-others"
    ids = [client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in (forgotten, others)]
    place.send(changed(place.put(), data_key=forgotten))
    place.finish()
    assert open_uploads(place, "tide/pool/uid/forgotten") == {ids[1]}
    assert place.outcomes() == ["deleted"]


@pytest.mark.parametrize("component", [Component.UNKNOWN, Component.PLACEMENT])
def test_what_lies_outside_the_prefix_of_the_location_is_left_alone(place: DeletionPlace, component: Component) -> None:
    client, bucket, data_key = place.store.client(), place.store.bucket, f"of-others/{component}"
    pending = changed(place.put(), component=component, data_key=data_key)
    metadata = owner_headers(pending) if component is Component.PLACEMENT else {}
    client.put_object(Bucket=bucket, Key=data_key, Body=b"data", Metadata=metadata)
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=data_key)["UploadId"]
    place.send(pending, changed(pending, upload_id=upload_id))
    place.finish()
    assert place.holds(pending) and open_uploads(place, data_key) == {upload_id}
    assert place.outcomes() == ["not-matched"] * 2


def test_an_upload_where_data_of_another_owner_lies_is_left_alone(place: DeletionPlace) -> None:
    client, bucket, owned = place.store.client(), place.store.bucket, place.put()
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=owned.data_key)["UploadId"]
    place.send(changed(owned, key="another", upload_id=upload_id))
    place.finish()
    assert place.holds(owned) and open_uploads(place, owned.data_key) == {upload_id}
    assert place.outcomes() == ["not-matched"]


def test_data_of_a_component_waits_until_its_owner_can_be_asked(make_place: MakePlace) -> None:
    def away(pending: PendingDelete) -> bool:
        raise Unavailable("its owner does not answer")

    place = make_place(max_retries=0)
    place.owners.register(Component.UPLOAD, away)
    upload = changed(place.put(), component=Component.UPLOAD)
    place.send(upload)
    place.finish()
    assert place.holds(upload) and place.outcomes() == ["given-up"]
    asked: list[str] = []
    place.owners.register(Component.UPLOAD, lambda pending: not asked.append(pending.key))
    (letter,) = place.desk().dead(count=10)
    place.desk().retry(letter.id)
    place.finish()
    assert asked == ["key"] and place.outcomes() == ["given-up", "in-use"]


def test_what_must_wait_for_its_time_is_put_off_and_loses_no_retry(make_place: MakePlace) -> None:
    place = make_place(max_retries=1, reconsume_seconds=0.2)
    pending = changed(place.put(), not_before=time.time() + 6, location="missing")
    place.send(pending)
    worker = place.worker()
    assert worker.run_once(1.0) == 1
    assert place.records() == [] and place.desk().status().retrying == 1
    failed = metric("failed", data="location")
    while not place.records():
        worker.run_once(1.0)
    assert time.time() >= pending.not_before
    assert metric("failed", data="location") == failed + 2
    assert place.outcomes() == ["given-up"]


def test_a_location_that_fails_for_a_while_is_tried_again_and_the_dead_letter_sent_back_is_done(
    make_place: MakePlace, deletion_store: DeletionStore
) -> None:
    place = make_place(max_retries=2, reconsume_seconds=1.0)
    pending = place.put()
    failed, exhausted = metric("failed", data="location"), metric("max_retries")
    deletion_store.stop()
    try:
        place.send(pending)
        worker = place.worker()
        tries = []
        while not place.records():
            assert place.desk().status().in_flight == 1
            began = time.time()
            if worker.run_once(0.2):
                tries.append((began, time.time()))
        worker.close()
        assert len(tries) == 3
        assert all(ended - began >= 1.0 for (began, _), (_, ended) in pairwise(tries))
    finally:
        deletion_store.start()
    assert metric("failed", data="location") == failed + 3
    assert metric("max_retries") == exhausted + 1
    assert place.holds(pending) and place.outcomes() == ["given-up"]
    status = place.desk().status()
    assert (status.in_flight, status.retrying, status.dead) == (0, 0, 1)
    (letter,) = place.desk().dead(count=10)
    assert (letter.location, letter.key, letter.attempt) == ("cold", "key", 3)
    assert "does not answer" in letter.reason
    place.desk().retry(letter.id)
    assert place.desk().dead(count=10) == [] and place.desk().status().dead == 0
    assert place.desk().status().in_flight == 1
    place.finish()
    assert not place.holds(pending) and place.outcomes() == ["given-up", "deleted"]


def kept(place: DeletionPlace, pending: PendingDelete, *, until: float, is_claimed: bool = False) -> TrashRecord:
    """A record of the trash that refers to the data."""
    placement = place.place(pending)
    place.tables.delete(placement.entry)
    record = TrashRecord("id", placement, 1, until, is_claimed=is_claimed)
    place.tables.put(record.entry, record.to_json())
    return record


def test_data_in_the_trash_stays_until_its_grace_is_over_and_then_goes_with_its_record(place: DeletionPlace) -> None:
    early, due = (changed(place.put(key), component=Component.TRASH) for key in ("early", "due"))
    records = [kept(place, early, until=time.time() + 600), kept(place, due, until=time.time() - 1)]
    place.send(early, due)
    place.finish()
    assert sorted(place.outcomes()) == ["deleted", "in-use"]
    assert place.holds(early) and not place.holds(due)
    assert [place.tables.get(record.entry) is not None for record in records] == [True, False]


def test_data_in_the_trash_is_in_use_for_whoever_else_wants_it_deleted(place: DeletionPlace) -> None:
    pending = place.put()
    kept(place, pending, until=time.time() - 1)
    place.send(pending)
    place.finish()
    assert place.outcomes() == ["in-use"] and place.holds(pending)


def test_data_that_was_brought_back_from_the_trash_stays(place: DeletionPlace) -> None:
    pending = changed(place.put(), component=Component.TRASH)
    record = kept(place, pending, until=time.time() - 1)
    place.place(pending)
    place.send(pending)
    place.finish()
    assert place.outcomes() == ["in-use"] and place.holds(pending)
    assert place.tables.get(record.entry) is None


def test_data_that_is_being_brought_back_waits_although_its_grace_is_over(make_place: MakePlace) -> None:
    place = make_place(max_retries=0)
    pending = changed(place.put(), component=Component.TRASH)
    record = kept(place, pending, until=time.time() - 1, is_claimed=True)
    place.send(pending)
    place.finish()
    status = place.desk().status()
    assert (status.in_flight, status.retrying, status.dead) == (1, 1, 0)
    assert place.outcomes() == [] and place.holds(pending)
    assert place.tables.get(record.entry) is not None


@pytest.mark.parametrize("is_placed", [True, False])
def test_data_whose_restore_was_broken_off_goes_unless_a_placement_stands(
    place: DeletionPlace, is_placed: bool
) -> None:
    pending = changed(place.put(), component=Component.TRASH)
    record = kept(place, pending, until=time.time() - 3601, is_claimed=True)
    if is_placed:
        place.place(pending)
    place.send(pending)
    place.finish()
    assert place.outcomes() == ["in-use" if is_placed else "deleted"] and place.holds(pending) is is_placed
    assert place.tables.get(record.entry) is None


def test_what_waits_for_the_end_of_a_grace_without_a_record_keeps_its_own_location_alone(
    place: DeletionPlace, tmp_path: Path
) -> None:
    with closing(Locations(place.tables, Vault.open(tmp_path), {}, open_location)) as locations:
        for name in ("trash", "warm", "cold"):
            given = {"endpoint": place.store.url, "bucket": name, "access_key": "k", "secret": "s", "now": 1.0}
            locations.create(name, **given)  # type: ignore[arg-type]
        brought_back = changed(place.put(), component=Component.TRASH, location="trash", not_before=time.time() + 600)
        place.send(brought_back)
        place.finish()
        assert place.desk().in_flight() == 1
        locations.remove("warm", place.desk().in_flight)
        with pytest.raises(Conflict, match="location trash wait for the end of a grace"):
            locations.remove("trash", place.desk().in_flight)
        place.send(place.put())
        with pytest.raises(Conflict, match=r"not finished \(1\)"):
            locations.remove("cold", place.desk().in_flight)
