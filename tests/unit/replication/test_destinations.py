"""A bucket at a site belongs to one pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Conflict, NotFound
from tidegate.core.lifecycle.rules import Filter
from tidegate.core.records import Bucket, Pool
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.ports import Tables
from tidegate.replication.destinations import assign, claim, claimed, is_anothers

HOST = "paris.example.org:443"
SITES = ("paris",)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    with closing(SqliteTables(tmp_path / "tables.db")) as opened:
        for number, name in enumerate(("first", "second")):
            make_pool(opened, name, created_at=float(number))
        yield opened


def make_pool(tables: Tables, name: str, *, created_at: float) -> None:
    tables.put(Pool.PREFIX + name, Pool(name, "owner", "group", f"/{name}", "seaweedfs", created_at).to_json())


def test_a_bucket_belongs_to_the_first_pool_that_names_it(tables: Tables) -> None:
    assert not is_anothers(tables, HOST, "copies", "second")
    assert [claim(tables, HOST, "copies", name, sites=SITES) for name in ("first", "first", "second")] == [
        True,
        True,
        False,
    ]
    assert is_anothers(tables, HOST, "copies", "second") and not is_anothers(tables, HOST, "copies", "first")


def test_other_buckets_and_other_hosts_are_free(tables: Tables) -> None:
    assert claim(tables, HOST, "copies", "first", sites=SITES)
    assert claim(tables, HOST, "copies-2", "second", sites=SITES) and claim(
        tables, "oslo.example.org:443", "copies", "second", sites=SITES
    )
    assert is_anothers(tables, HOST.upper(), "copies", "second")


def test_a_bucket_that_rules_of_another_pool_name_is_not_free_though_its_claim_is_for_a_former_address(
    tables: Tables,
) -> None:
    assert claim(tables, "former.example.org:80", "copies", "first", sites=SITES)
    rules_of(tables, "photos", "first", *SITES)
    assert not claim(tables, HOST, "copies", "second", sites=SITES)
    assert claim(tables, HOST, "copies", "first", sites=SITES)


def test_a_bucket_of_a_pool_that_is_no_more_can_be_taken_over(tables: Tables) -> None:
    assert claim(tables, HOST, "copies", "first", sites=SITES)
    tables.delete(Pool.PREFIX + "first")
    assert not is_anothers(tables, HOST, "copies", "second")
    assert claim(tables, HOST, "copies", "second", sites=SITES)
    make_pool(tables, "first", created_at=9.0)
    assert not claim(tables, HOST, "copies", "first", sites=SITES)


def test_a_later_pool_of_the_same_name_is_another_one(tables: Tables) -> None:
    assert claim(tables, HOST, "copies", "first", sites=SITES)
    make_pool(tables, "first", created_at=9.0)
    assert claim(tables, HOST, "copies", "second", sites=SITES)


def rules_of(tables: Tables, bucket: str, pool: str, *sites: str) -> None:
    """Rules of a bucket of the pool that name the bucket `copies` at these sites."""
    tables.put(Bucket.PREFIX + bucket, Bucket(bucket, pool, f"uid-{bucket}", "none", 1.0).to_json())
    rule = ReplicationRule("r", 1, enabled=False, filter=Filter(), bucket="copies", sites=sites)
    tables.put(f"{REPLICATION}uid-{bucket}", ReplicationRules((rule,)).to_json())


def test_a_bucket_is_given_to_another_pool_when_no_rules_of_others_name_it(tables: Tables) -> None:
    assert claim(tables, HOST, "copies", "first", sites=SITES)
    rules_of(tables, "photos", "first", "oslo", "paris")
    with pytest.raises(Conflict, match="rules of bucket photos of pool first name copies"):
        assign(tables, HOST, "copies", "second", sites=["paris"])
    assert list(claimed(tables)) == [(HOST, "copies", "first")]
    assign(tables, HOST, "copies", "first", sites=["paris"])
    rules_of(tables, "photos", "first", "oslo")
    rules_of(tables, "films", "second", "paris")
    assign(tables, HOST, "copies", "second", sites=["paris"])
    assert is_anothers(tables, HOST, "copies", "first") and not is_anothers(tables, HOST, "copies", "second")


def test_a_bucket_is_assigned_before_any_rules_name_it(tables: Tables) -> None:
    with pytest.raises(NotFound, match="no pool"):
        assign(tables, HOST, "copies", "nobody", sites=["paris"])
    assert list(claimed(tables)) == []
    assign(tables, HOST, "copies", "second", sites=["paris"])
    assert not claim(tables, HOST, "copies", "first", sites=SITES)
    tables.delete(Pool.PREFIX + "second")
    assert list(claimed(tables)) == []
