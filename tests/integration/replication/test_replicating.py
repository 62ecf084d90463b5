"""Versions on their way to two real sites: what arrives, in which order, and what their records say."""

from __future__ import annotations

import os
import time

from move_ledger import wait_until
from replicated_world import PART_MB, SITES, ReplicatedWorld

from tidegate.core.replication.records import OPEN, Status


def test_a_version_arrives_with_its_metadata_headers_and_tags(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    key = "a b/ü:1+%"
    version = replicated.put(
        bucket, key, b"tide", ContentType="text/x-tide", CacheControl="no-cache", ContentLanguage="de",
        ContentDisposition="inline", Metadata={"moon": "full"}, Tagging="state=high%20water&x=",
    )  # fmt: skip
    replicated.wait_for(Status.COMPLETED, bucket, key, version)
    for site in SITES:
        found = replicated.at(site).get_object(Bucket=bucket, Key=key)
        assert found["Body"].read() == b"tide"
        assert (found["ContentType"], found["CacheControl"]) == ("text/x-tide", "no-cache")
        assert (found["ContentLanguage"], found["ContentDisposition"]) == ("de", "inline")
        assert found["Metadata"]["moon"] == "full"
        assert found["Metadata"]["tidegate-component"] == "replica"
        tags = replicated.at(site).get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"state": "high water", "x": ""}
        state = replicated.state(bucket, key, version, site)
        assert state is not None
        assert (state.replica_version_id, state.bucket) == (found["VersionId"], bucket)
    assert replicated.tables.scan(OPEN) == []


def test_versions_and_delete_markers_arrive_in_their_order(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    versions = [replicated.put(bucket, "k", f"{number}".encode()) for number in range(12)]
    versions.append(replicated.delete(bucket, "k"))
    versions.append(replicated.put(bucket, "k", b"after"))
    versions.append(replicated.delete(bucket, "k"))
    for version in versions:
        replicated.wait_for(Status.COMPLETED, bucket, "k", version)
    for site in SITES:
        wanted = [str(number) for number in range(12)] + ["deleted", "after", "deleted"]
        assert replicated.history(site, bucket, "k") == wanted


def test_delete_markers_stay_where_a_rule_leaves_them_out(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",), markers=False)
    replicated.put(bucket, "k", b"first")
    marker = replicated.delete(bucket, "k")
    last = replicated.put(bucket, "k", b"second")
    replicated.wait_for(Status.COMPLETED, bucket, "k", last, "one")
    assert replicated.history("one", bucket, "k") == ["first", "second"]
    assert replicated.record(bucket, "k", marker) is None


def test_an_object_larger_than_a_part_arrives_in_parts(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket()
    data = os.urandom(2 * PART_MB * 2**20 + 17)
    version = replicated.put(bucket, "large", data, ContentType="video/x-tide", Metadata={"a": "b"})
    empty = replicated.put(bucket, "empty", b"")
    replicated.wait_for(Status.COMPLETED, bucket, "large", version)
    replicated.wait_for(Status.COMPLETED, bucket, "empty", empty)
    for site in SITES:
        found = replicated.at(site).get_object(Bucket=bucket, Key="large")
        assert found["Body"].read() == data
        assert (found["ContentType"], found["Metadata"]["a"]) == ("video/x-tide", "b")
        assert found["ETag"].strip('"').endswith("-3")
        assert replicated.at(site).head_object(Bucket=bucket, Key="empty")["ContentLength"] == 0
        assert replicated.stores[site].uploads(bucket) == set()


def test_tags_that_change_later_follow_and_the_version_stays_the_same(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    first = replicated.put(bucket, "k", b"first", Tagging="a=1")
    second = replicated.put(bucket, "k", b"second")
    replicated.wait_for(Status.COMPLETED, bucket, "k", second, "one")
    for version, tags in ((first, [{"Key": "a", "Value": "2"}]), (second, [{"Key": "b", "Value": "ü"}])):
        replicated.s3.put_object_tagging(Bucket=bucket, Key="k", VersionId=version, Tagging={"TagSet": tags})
        state = replicated.state(bucket, "k", version, "one")
        assert state is not None

        def shown(copy: str = state.replica_version_id) -> list[dict[str, str]]:
            named = {"Bucket": bucket, "Key": "k", "VersionId": copy}
            found: list[dict[str, str]] = replicated.at("one").get_object_tagging(**named)["TagSet"]
            return found

        wait_until(lambda shown=shown, tags=tags: shown() == tags, lambda shown=shown: str(shown()))
        replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")
    replicated.s3.delete_object_tagging(Bucket=bucket, Key="k", VersionId=second)
    wait_until(lambda: shown() == [], lambda: str(shown()))
    assert replicated.history("one", bucket, "k") == ["first", "second"]


def test_a_version_deleted_by_its_id_stays_at_the_sites_and_its_record_goes(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",))
    first, second = (replicated.put(bucket, "k", body) for body in (b"first", b"second"))
    replicated.wait_for(Status.COMPLETED, bucket, "k", second, "one")
    replicated.s3.delete_object(Bucket=bucket, Key="k", VersionId=first)
    wait_until(lambda: replicated.record(bucket, "k", first) is None, "the record is there")
    assert replicated.history("one", bucket, "k") == ["first", "second"]


def test_what_rules_do_not_name_has_no_record(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("two",), prefix="wanted/")
    other = replicated.put(bucket, "other", b"data")
    wanted = replicated.put(bucket, "wanted/k", b"data")
    replicated.wait_for(Status.COMPLETED, bucket, "wanted/k", wanted, "two")
    assert replicated.record(bucket, "other", other) is None
    assert replicated.stores["two"].keys(bucket) == {"wanted/k"}


def test_a_version_that_gets_the_tags_of_a_rule_later_arrives(replicated: ReplicatedWorld) -> None:
    bucket = replicated.bucket(sites=("one",), tag=("copy", "yes"))
    time.sleep(1.1)  # stores tell whole seconds: what is written in that of the rules seems to be older
    version = replicated.put(bucket, "k", b"data")
    tags = {"TagSet": [{"Key": "copy", "Value": "yes"}]}
    replicated.s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags)
    replicated.wait_for(Status.COMPLETED, bucket, "k", version, "one")
    assert replicated.s3.head_object(Bucket=bucket, Key="k")["ReplicationStatus"] == "COMPLETED"
